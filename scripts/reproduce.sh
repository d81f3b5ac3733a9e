#!/usr/bin/env bash
# Runs a whole recipe: prepare, then for each architecture and seed train, average and score; ends in a table and the
# report (report.html, report.md). What was finished before with the same settings is skipped, so that it can be killed
# and called again; when one training fails the others go on.
#
# Usage: scripts/reproduce.sh RECIPE [options] [-- fairseq-train flags]
#   RECIPE             a file of scripts/recipes without .sh: demo, multi30k, wmt14_en_de, wmt14_en_de_shaw (the setting
#                      of Shaw et al. 2018), wmt14_en_de_big (the schedule of Vaswani et al. 2017 for big)
#   --data FOLDER      folder with the recipe's raw text (default: data/RECIPE in the project, if it is there; WMT14 is
#                      downloaded without it)
#   --mirror URL_OR_FOLDER, --news-commentary N     as in scripts/download.sh
#   --archs "A B"      architectures (default: the recipe's)
#   --seeds "1 2"      seeds (default: 1)
#   --out FOLDER       gets data/, ARCH/seedN/, results/ (one small file for each run) and report/ (default: runs/RECIPE
#                      in the project)
#   --max-update N, --save-every N, --device-tokens N, --processes N     as in scripts/train.sh
#   --baseline ARCH    what the report compares with (default: sinusoidal positions)
#
# Example: scripts/reproduce.sh multi30k --data ~/multi30k --archs "roformer_multi30k transformer_sinusoidal_multi30k"
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[[ ${1:-} != --help && ${1:-} != -h ]] || show_help
[[ ${1:--} != -* ]] || usage_error "the recipe is needed"
recipe=$1
shift
raw='' archs='' seeds=1 out='' train_options=() download_options=() baseline=''
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --data) need_value "$1" $#; raw=$2; shift 2 ;;
    --archs | --seeds | --out) need_value "$1" $#; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
    --mirror | --news-commentary) need_value "$1" $#; download_options+=("$1" "$2"); shift 2 ;;
    --baseline) need_value "$1" $#; baseline=$2; shift 2 ;;
    --max-update | --save-every | --device-tokens | --processes)
      need_value "$1" $#
      need_number "$1" "$2"
      train_options+=("$1" "$2")
      shift 2
      ;;
    --) break ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
[[ ${NODES:-1} == 1 ]] ||
  die "NODES=$NODES: several machines train with scripts/train.sh, one run at a time; unset it to prepare, score and report here"
DOWNLOAD=no SAME_DATA_AS='' AVERAGE_LAST=5 JOIN_TEST=()
load_recipe "$recipe"
: "${out:=$ROOT/runs/${SAME_DATA_AS:-$recipe}}"
runs=$out
[[ ! $SAME_DATA_AS ]] || runs=$out/${recipe#"${SAME_DATA_AS}_"} # beside those of the recipe whose data it shares
read -ra archs <<<"${archs:-${DEFAULT_ARCHS[*]}}"
read -ra seeds <<<"$seeds"
((${#archs[@]} && ${#seeds[@]})) || usage_error "--archs and --seeds must not be empty"
for seed in "${seeds[@]}"; do need_number --seeds "$seed"; done
use_environment fairseq-train
for arch in "${archs[@]}" ${baseline:+"$baseline"}; do python -m fairseq_rope --check-arch "$arch" || exit 1; done

if [[ ! $raw && $DOWNLOAD == yes ]]; then
  raw=$out/raw
  "$ROOT/scripts/download.sh" --out "$raw" ${download_options[@]+"${download_options[@]}"}
else
  ((${#download_options[@]} == 0)) || usage_error "${download_options[0]} is for recipes that download, without --data"
  : "${raw:=$ROOT/data/$recipe}"
  [[ -d $raw ]] || die "$raw not found: give the folder with the raw text of $recipe as --data FOLDER"
fi
tests=() subsets=()
# shellcheck disable=SC2153  # TESTS is the recipe's
for i in "${!TESTS[@]}"; do
  tests+=(--test "$raw/${TESTS[i]}")
  subsets+=("test${i#0}=${TESTS[i]}")
done
for count in ${JOIN_TEST[@]+"${JOIN_TEST[@]}"}; do # of the first test set, so that the same text comes in longer sentences
  joined=${TESTS[0]}_x$count
  mkdir -p "$out/joined"
  python "$TOOLS/corpus.py" join "$raw/${TESTS[0]}" "$out/joined/$joined" --source en --target de \
    --sentences "$count" >/dev/null || exit 1
  subsets+=("test${#subsets[@]}=$joined")
  tests+=(--test "$out/joined/$joined")
done
"$ROOT/scripts/prepare.sh" --train "$raw/$TRAIN" --valid "$raw/$VALID" "${tests[@]}" --out "$out/data" "${PREPARE_FLAGS[@]}"

# one_run ARCH SEED FLAGS...: trained, averaged, scored, and its result file
one_run() {
  local arch=$1 seed=$2 run=$runs/$1/seed$2 entry
  shift 2
  say "$arch, seed $seed: $run"
  "$ROOT/scripts/train.sh" --data "$out/data" --arch "$arch" --recipe "$recipe" --seed "$seed" --out "$run" \
    ${train_options[@]+"${train_options[@]}"} "$@" &&
    "$ROOT/scripts/average.sh" --run "$run" --data "$out/data" --last "$AVERAGE_LAST" || return 1
  for entry in "${subsets[@]}"; do
    "$ROOT/scripts/score.sh" --run "$run" --data "$out/data" --subset "${entry%%=*}" --name "$arch seed $seed" >/dev/null ||
      return 1
    results+=("$run/scores/${entry%%=*}.json")
  done
  python "$TOOLS/results.py" --run "$run" --data "$out/data" --recipe "$recipe" --subsets "${subsets[*]}" \
    --out "$out/results/$recipe-$arch-seed$seed.json" >/dev/null
}
results=() failed=()
trap 'exit 130' INT # not a training that failed
for arch in "${archs[@]}"; do
  for seed in "${seeds[@]}"; do
    one_run "$arch" "$seed" "$@" || failed+=("$arch seed $seed")
  done
done
((${#results[@]})) || die "no run succeeded: ${failed[*]}"
echo
echo "Recipe $recipe (test sets: ${subsets[*]})"
table=$runs/table.txt
python "$TOOLS/score.py" --table "${results[@]}" | tee "$table.tmp"
mv "$table.tmp" "$table"
echo
# all recipes that share the data are in one report
"$ROOT/scripts/report.sh" --results "$out/results" --out "$out/report" ${baseline:+--baseline "$baseline"} \
  --about "$recipe" --archs "${archs[*]}" --seeds "${seeds[*]}"
((${#failed[@]} == 0)) || die "not finished: $(printf '%s; ' "${failed[@]}")see above; call again to go on"
