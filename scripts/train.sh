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
#   --target-tokens N  target tokens of an update, on all devices together: --max-tokens and --update-freq are chosen for
#                      it and printed (default: the recipe's, else none: --max-tokens 4096 on each device)
#   --device-tokens N  limit of --max-tokens then, for the memory of a device (default: 4096; more is faster)
#   --processes N      on this machine (default: one for each GPU, else 1); several CPU processes work over gloo
#   --print-settings   print what tells this run from others (the content of RUN/settings), and do nothing else
# When fairseq-train crashes it is started again, if there is a new checkpoint since the last start. Killed, this script
# continues from the last checkpoint when called again, also with another number of devices; with other settings it
# starts anew, and moves the old run to RUN.old-TIME. Flags behind -- win over the recipe's.
#
# Environment, for several machines (torchrun): call the same command on each, with RUN and DATA on a shared disk and
#   NODES        how many machines (default: 1), each with as many processes
#   NODE_RANK    0 on the first, which writes RUN, then 1, 2, ...
#   MASTER_ADDR  address of the first; MASTER_PORT a free port there (default: 29500)
#
# RUNS_AT_A_TIME, for the record: how many runs share this machine (default: 1).
#
# Example: scripts/train.sh --data /tmp/demo --arch roformer_tiny --recipe demo --out /tmp/run
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

data='' arch='' out='' recipe='' seed=1 max_update='' save_every='' target_tokens='' device_tokens=4096 processes='' print_settings=no
command_line="scripts/train.sh$(printf ' %q' "$@")"
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --data | --arch | --out | --recipe | --seed | --max-update | --save-every | --target-tokens | --device-tokens | --processes)
      need_value "$1" $#
      name=${1#--}
      printf -v "${name//-/_}" '%s' "$2"
      shift 2
      ;;
    --print-settings) print_settings=yes; shift ;;
    --) shift; break ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
[[ $data && $arch && $out ]] || usage_error "--data, --arch and --out are needed"
TRAIN_FLAGS=() MAX_UPDATE=100000 SAVE_EVERY=1500 TARGET_TOKENS='' BF16=no AVERAGE_LAST=5
load_recipe "$recipe"
: "${max_update:=$MAX_UPDATE}" "${save_every:=$SAVE_EVERY}" "${target_tokens:=$TARGET_TOKENS}"
nodes=${NODES:-1} node_rank=${NODE_RANK:-0}
need_number --seed "$seed"
need_number --max-update "$max_update"
need_number --save-every "$save_every"
((max_update > 0 && save_every > 0)) || usage_error "--max-update and --save-every must be at least 1"
[[ ! $target_tokens ]] || need_number --target-tokens "$target_tokens"
need_number --device-tokens "$device_tokens"
((${target_tokens:-1} > 0 && device_tokens > 0)) || usage_error "--target-tokens and --device-tokens must be at least 1"
[[ ! $processes ]] || need_number --processes "$processes"
need_number NODES "$nodes"
need_number NODE_RANK "$node_rank"
((node_rank < nodes)) || usage_error "NODE_RANK counts from 0 to NODES - 1 ($((nodes - 1))), but it is $node_rank"
((nodes == 1)) || [[ ${MASTER_ADDR:-} ]] || usage_error "MASTER_ADDR is needed with NODES=$nodes: the address of the machine with NODE_RANK=0"
need_free_flags "$@"
for flag in "$@"; do
  case ${flag%%=*} in
    --max-tokens | --update-freq | --batch-size | --max-sentences | --required-batch-size-multiple) target_tokens='' ;; # chosen by hand
  esac
done
out=${out%/}
use_environment fairseq-train
[[ -f $data/.stamps/binarize ]] || die "$data has no prepared data: run scripts/prepare.sh --out $data first"
flags=(
  --arch "$arch" --share-all-embeddings --seed "$seed"
  --optimizer fused_adam --adam-betas '(0.9, 0.98)' --clip-norm 0
  --lr-scheduler inverse_sqrt --warmup-init-lr 1e-7 --warmup-updates 4000 --lr 5e-4
  --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1
)
[[ $target_tokens ]] || flags+=(--max-tokens 4096)
flags+=(${TRAIN_FLAGS[@]+"${TRAIN_FLAGS[@]}"} "$@")
setting "data $(sha256sum <"$data/.stamps/binarize" | cut -c 1-64)"
setting "train ${flags[*]} --save-interval-updates $save_every${target_tokens:+ target tokens $target_tokens}"
[[ $print_settings == no ]] || { printf '%s' "$SETTINGS"; exit; }
pair=$(find "$data/bin" -name 'train.*.idx' -printf '%f\n' | sort | head -n 1 | cut -d . -f 2) # such as en-de
known=$(python -m fairseq_rope --check-arch "$arch" --devices) || exit 1
[[ ${known%%$'\n'*} == "$arch" ]] || usage_error "--arch must be one architecture, not '$arch'"
read -r gpus bf16 <<<"${known#*$'\n'}"
: "${processes:=$((gpus > 0 ? gpus : 1))}"
((processes > 0)) || usage_error "--processes must be at least 1"
((gpus == 0 || processes <= gpus)) || usage_error "--processes is $processes, but there are $gpus GPUs"

batch_flags=() # not part of the settings: a run may go on with other devices
[[ $BF16 == no || $bf16 == False ]] || batch_flags+=(--bf16)
if [[ $target_tokens ]]; then
  read -r max_tokens frequency <<<"$(python "$TOOLS/batch.py" "$data/bin" --source "${pair%-*}" --target "${pair#*-}" \
    --target-tokens "$target_tokens" --devices $((nodes * processes)) --device-tokens "$device_tokens")"
  [[ $max_tokens ]] || exit 1
  batch_flags+=(--max-tokens "$max_tokens" --update-freq "$frequency")
fi
launch=(fairseq-train)
if ((nodes * processes > 1)); then
  meet=(--standalone)
  ((nodes == 1)) || meet=(--nnodes "$nodes" --node-rank "$node_rank" --master-addr "$MASTER_ADDR" --master-port "${MASTER_PORT:-29500}")
  launch=(torchrun "${meet[@]}" --nproc-per-node "$processes" "$(command -v fairseq-train)")
elif ((gpus > 1)); then
  batch_flags+=(--distributed-world-size 1)
fi
launch+=("$data/bin" --source-lang "${pair%-*}" --target-lang "${pair#*-}" --user-dir "$USER_DIR" --save-dir "$out/checkpoints"
  "${flags[@]}" ${batch_flags[@]+"${batch_flags[@]}"} --max-update "$max_update" --save-interval-updates "$save_every"
  --keep-interval-updates $((AVERAGE_LAST > 10 ? AVERAGE_LAST : 10)) --no-epoch-checkpoints --save-interval 1000000
  --validate-interval 1000000 --log-format json --log-interval 10)
# on a CPU fresh memory costs more than arithmetic: what a step frees stays with the process, for the next one
export MALLOC_MMAP_MAX_=${MALLOC_MMAP_MAX_:-0} MALLOC_TRIM_THRESHOLD_=${MALLOC_TRIM_THRESHOLD_:-68719476736}
newest() { # updates of the newest checkpoint, 0 if there is none
  { find "$out/checkpoints" -name 'checkpoint_*_*.pt' 2>/dev/null || true; } |
    sed 's/.*_//; s/\.pt$//' | sort -n | tail -n 1 | grep . || echo 0
}
# on_and_on COMMAND...: again after each crash, as long as there is a new checkpoint since the last start
on_and_on() {
  local before reached
  before=$(newest)
  until "$@"; do
    reached=$(newest)
    ((reached > before)) || return 1
    say "fairseq-train ended before its time: going on from update $reached (log: $out/train.log)"
    before=$reached
  done
}
trap 'trap - INT; kill -INT $$' INT # not a crash
if ((node_rank > 0)); then # the first machine keeps the run
  say "waiting for the machine with NODE_RANK=0 to begin the run $out"
  until [[ -f $out/settings && $(<"$out/settings") == "${SETTINGS%$'\n'}" ]]; do sleep 2; done
  (($(newest) < max_update)) || { say "trained before"; exit 0; }
  on_and_on "${launch[@]}"
  exit
fi

# By one training at a time: what a killed script left running (a kill -9 reaches no child) has the lock still.
lock_run() {
  mkdir -p "$out"
  exec {lock}>"$out/.lock"
  flock -w 10 -E 9 "$lock" 2>/dev/null || (($? != 9)) || # 9: taken; other numbers: the file system knows no locks
    die "another training runs in $out: wait for it, or end it (its processes are those that name the folder)"
}
lock_run
if [[ -f $out/settings && $(<"$out/settings") != "${SETTINGS%$'\n'}" ]]; then
  old=$out.old-$(date +%Y%m%d-%H%M%S)
  say "other settings than before: the old run moves to $old"
  mv "$out" "$old"
  lock_run
fi
reached=$(newest)
((reached <= max_update)) ||
  die "$out was trained for $reached updates already: choose --max-update $reached or more, or another --out"
printf '%s' "$SETTINGS" >"$out/settings"

# A kill while fairseq copied its last checkpoint leaves a damaged one: go back to the newest by updates.
repair() {
  local last=$out/checkpoints/checkpoint_last.pt good
  [[ -f $last ]] && ! python "$TOOLS/checkpoint.py" "$last" >/dev/null 2>&1 || return 0
  good=$(find "$out/checkpoints" -name "checkpoint_*_$(newest).pt" | head -n 1)
  [[ $good ]] || die "$last is damaged and there is no other checkpoint: remove $out and train again"
  say "$last is damaged: going back to $(basename "$good")"
  cp "$good" "$last.tmp"
  mv "$last.tmp" "$last"
}

# fairseq's log goes to train.log as it comes; the bar on stderr reads it
run_fairseq() {
  repair
  "${launch[@]}" 2>&1 | tee -a "$out/train.log" |
    python "$TOOLS/progress.py" train --total "$max_update" --label "train $arch, seed $seed"
}

train() {
  local checkpoints=$out/checkpoints
  python "$TOOLS/run_info.py" --root "$ROOT" --out "$out/run.json" "command=$command_line" \
    "arch=$arch" "recipe=${recipe:-none}" "seed=$seed" "max_update=$max_update" "flags=${flags[*]}" \
    "devices=$((nodes * processes))" "batch=${batch_flags[*]}" "threads=${OMP_NUM_THREADS:-$(nproc)}" "jobs=${RUNS_AT_A_TIME:-1}"
  # killed behind its last update: started again, fairseq would make one more
  (($(newest) == max_update)) || on_and_on run_fairseq || log_failure "$out/train.log" fairseq-train
  # fairseq writes no checkpoint by updates at the end of an epoch: the last one must be there all the same
  reached=$(newest)
  [[ $reached == "$max_update" || -f $checkpoints/checkpoint_last.pt ]] ||
    die "fairseq-train ended before its first checkpoint: choose a smaller --save-every"
  ((reached == max_update)) || reached=$(python "$TOOLS/checkpoint.py" "$checkpoints/checkpoint_last.pt") || exit 1
  ((reached == max_update)) || say "ended after $reached of $max_update updates, as its flags say"
  if [[ ! $(find "$checkpoints" -name "checkpoint_*_$reached.pt") ]]; then
    cp "$checkpoints/checkpoint_last.pt" "$checkpoints/checkpoint_0_$reached.pt.tmp"
    mv "$checkpoints/checkpoint_0_$reached.pt.tmp" "$checkpoints/checkpoint_0_$reached.pt"
  fi
}
setting "max-update $max_update"
step "$out" train checkpoints train
