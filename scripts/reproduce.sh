#!/usr/bin/env bash
# Runs a whole recipe: prepare, then for each architecture and seed train, average and score; ends in a table.
# What was finished before with the same settings is skipped, so that it can be killed and called again.
#
# Usage: scripts/reproduce.sh RECIPE [options] [-- fairseq-train flags]
#   RECIPE             a file of scripts/recipes without .sh: demo, multi30k
#   --data FOLDER      folder with the recipe's raw text (default: data/RECIPE in the project, if it is there)
#   --archs "A B"      architectures (default: the recipe's)
#   --seeds "1 2"      seeds (default: 1)
#   --out FOLDER       gets data/ and ARCH/seedN/ (default: runs/RECIPE in the project)
#   --max-update N, --save-every N          as in scripts/train.sh
#
# Example: scripts/reproduce.sh multi30k --data ~/multi30k --archs "roformer_multi30k transformer_sinusoidal_multi30k"
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[[ ${1:-} != --help && ${1:-} != -h ]] || show_help
[[ ${1:--} != -* ]] || usage_error "the recipe is needed"
recipe=$1
shift
raw='' archs='' seeds=1 out='' train_options=()
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --data) need_value "$1" $#; raw=$2; shift 2 ;;
    --archs | --seeds | --out) need_value "$1" $#; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
    --max-update | --save-every) need_value "$1" $#; need_number "$1" "$2"; train_options+=("$1" "$2"); shift 2 ;;
    --) break ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
load_recipe "$recipe"
: "${raw:=$ROOT/data/$recipe}" "${out:=$ROOT/runs/$recipe}"
read -ra archs <<<"${archs:-${DEFAULT_ARCHS[*]}}"
read -ra seeds <<<"$seeds"
((${#archs[@]} && ${#seeds[@]})) || usage_error "--archs and --seeds must not be empty"
for seed in "${seeds[@]}"; do need_number --seeds "$seed"; done
[[ -d $raw ]] || die "$raw not found: give the folder with the raw text of $recipe as --data FOLDER"
use_environment fairseq-train
for arch in "${archs[@]}"; do python -m fairseq_rope --check-arch "$arch" || exit 1; done

tests=()
# shellcheck disable=SC2153  # TESTS is the recipe's
for name in "${TESTS[@]}"; do tests+=(--test "$raw/$name"); done
"$ROOT/scripts/prepare.sh" --train "$raw/$TRAIN" --valid "$raw/$VALID" "${tests[@]}" --out "$out/data" "${PREPARE_FLAGS[@]}"

results=()
for arch in "${archs[@]}"; do
  for seed in "${seeds[@]}"; do
    run=$out/$arch/seed$seed
    say "$arch, seed $seed: $run"
    "$ROOT/scripts/train.sh" --data "$out/data" --arch "$arch" --recipe "$recipe" --seed "$seed" --out "$run" \
      ${train_options[@]+"${train_options[@]}"} "$@"
    "$ROOT/scripts/average.sh" --run "$run" --data "$out/data"
    for i in "${!TESTS[@]}"; do
      subset=test${i#0}
      "$ROOT/scripts/score.sh" --run "$run" --data "$out/data" --subset "$subset" --name "$arch seed $seed" >/dev/null
      results+=("$run/scores/$subset.json")
    done
  done
done
echo
echo "Recipe $recipe (test sets: $(for i in "${!TESTS[@]}"; do printf 'test%s = %s ' "${i#0}" "${TESTS[i]}"; done))"
python "$TOOLS/score.py" --table "${results[@]}" | tee "$out/table.txt.tmp"
mv "$out/table.txt.tmp" "$out/table.txt"
