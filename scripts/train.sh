#!/usr/bin/env bash
# Trains one architecture on prepared data. What the RoFormer paper states is the default: Adam (0.9, 0.98), learning
# rate from 1e-7 to 5e-4 and then falling with the inverse square root, label smoothing 0.1. A recipe changes it.
#
# Usage: scripts/train.sh --data FOLDER --arch ARCH --out RUN [options] [-- fairseq-train flags]
#   --data FOLDER      output of scripts/prepare.sh
#   --arch ARCH        architecture (`python -m fairseq_rope` lists them)
#   --out RUN          gets checkpoints/, train.log and run.json (command, commit, versions, seed)
#   --recipe NAME      hyper-parameters in scripts/recipes/NAME.sh
#   --seed N           random seed (default: 1)
#   --max-update N     updates (default: the recipe's, else 100000)
#   --save-every N     updates between checkpoints; the last ten are kept (default: the recipe's, else 1500)
# Killed, it continues from the last checkpoint when called again; with other settings it starts anew, and moves the
# old run to RUN.old-TIME. Flags behind -- win over the recipe's.
#
# Example: scripts/train.sh --data /tmp/demo --arch roformer_tiny --recipe demo --out /tmp/run
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

data='' arch='' out='' recipe='' seed=1 max_update='' save_every=''
command_line="scripts/train.sh $*"
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --data | --arch | --out | --recipe | --seed | --max-update | --save-every)
      need_value "$1" $#
      name=${1#--}
      printf -v "${name//-/_}" '%s' "$2"
      shift 2
      ;;
    --) shift; break ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
[[ $data && $arch && $out ]] || usage_error "--data, --arch and --out are needed"
TRAIN_FLAGS=() MAX_UPDATE=100000 SAVE_EVERY=1500
load_recipe "$recipe"
: "${max_update:=$MAX_UPDATE}" "${save_every:=$SAVE_EVERY}"
need_number --seed "$seed"
need_number --max-update "$max_update"
need_number --save-every "$save_every"
((max_update > 0 && save_every > 0)) || usage_error "--max-update and --save-every must be at least 1"
for flag in "$@"; do
  case $flag in
    --seed | --arch | --max-update | --save-dir | --save-interval-updates | --keep-interval-updates | --user-dir)
      usage_error "$flag does not go behind --: it has an option of its own, or is set here"
      ;;
  esac
done
out=${out%/}
use_environment fairseq-train
[[ -f $data/.stamps/binarize ]] || die "$data has no prepared data: run scripts/prepare.sh --out $data first"
pair=$(find "$data/bin" -name 'train.*.idx' -printf '%f\n' | sort | head -n 1 | cut -d . -f 2) # such as en-de
python -m fairseq_rope --check-arch "$arch" || exit 1

flags=(
  --arch "$arch" --share-all-embeddings --seed "$seed"
  --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0
  --lr-scheduler inverse_sqrt --warmup-init-lr 1e-7 --warmup-updates 4000 --lr 5e-4
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1
  --max-tokens 4096 ${TRAIN_FLAGS[@]+"${TRAIN_FLAGS[@]}"} "$@"
)
setting "data $(sha256sum <"$data/.stamps/binarize" | cut -c 1-64)"
setting "train ${flags[*]} --save-interval-updates $save_every"
if [[ -f $out/settings && $(<"$out/settings") != "${SETTINGS%$'\n'}" ]]; then
  old=$out.old-$(date +%Y%m%d-%H%M%S)
  say "other settings than before: the old run moves to $old"
  mv "$out" "$old"
fi
newest=$(find "$out/checkpoints" -name 'checkpoint_*_*.pt' 2>/dev/null | sed 's/.*_//; s/\.pt$//' | sort -n | tail -n 1) || newest=
[[ ! $newest || $newest -le $max_update ]] ||
  die "$out was trained for $newest updates already: choose --max-update $newest or more, or another --out"
mkdir -p "$out"
printf '%s' "$SETTINGS" >"$out/settings"

# A kill while fairseq copied its last checkpoint leaves a damaged one: go back to the newest by updates.
repair() {
  local last=$out/checkpoints/checkpoint_last.pt good
  [[ -f $last ]] && ! python -m fairseq_rope --check-checkpoint "$last" 2>/dev/null || return 0
  good=$(find "$out/checkpoints" -name "checkpoint_*_$newest.pt" | head -n 1)
  [[ $good ]] || die "$last is damaged and there is no other checkpoint: remove $out and train again"
  say "$last is damaged: going back to $(basename "$good")"
  cp "$good" "$last.tmp"
  mv "$last.tmp" "$last"
}

train() {
  local checkpoints=$out/checkpoints
  repair
  python "$TOOLS/run_info.py" --root "$ROOT" --out "$out/run.json" "command=$command_line" \
    "arch=$arch" "recipe=${recipe:-none}" "seed=$seed" "max_update=$max_update" "flags=${flags[*]}"
  # fairseq's log goes to train.log as it comes; the bar on stderr reads it
  fairseq-train "$data/bin" --source-lang "${pair%-*}" --target-lang "${pair#*-}" --user-dir "$USER_DIR" --save-dir "$out/checkpoints" "${flags[@]}" \
    --max-update "$max_update" --save-interval-updates "$save_every" --keep-interval-updates 10 \
    --no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000 \
    --log-format json --log-interval 10 2>&1 | tee -a "$out/train.log" |
    python "$TOOLS/progress.py" train --total "$max_update" --label "train $arch, seed $seed" ||
    log_failure "$out/train.log" fairseq-train
  # fairseq writes no checkpoint by updates at the end of an epoch: the last one must be there all the same
  if [[ -f $checkpoints/checkpoint_last.pt && ! $(find "$checkpoints" -name "checkpoint_*_$max_update.pt") ]]; then
    cp "$checkpoints/checkpoint_last.pt" "$checkpoints/checkpoint_0_$max_update.pt.tmp"
    mv "$checkpoints/checkpoint_0_$max_update.pt.tmp" "$checkpoints/checkpoint_0_$max_update.pt"
  fi
}
setting "max-update $max_update"
step "$out" train checkpoints train
