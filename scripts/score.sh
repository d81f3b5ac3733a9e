#!/usr/bin/env bash
# Translates a test set with a run's averaged checkpoint (beam 4, length penalty 0.6) and prints, side by side, what
# papers call BLEU: see the legend under the table.
#
# Usage: scripts/score.sh --run RUN --data FOLDER [options] [-- fairseq-generate flags]
#   --run RUN        output of scripts/train.sh and scripts/average.sh
#   --data FOLDER    output of scripts/prepare.sh
#   --subset NAME    test set: test, test1, ... or valid (default: test)
#   --beam N, --lenpen X, --max-tokens N    (default: 4, 0.6, 8000)
#   --name NAME      name of the run in the table (default: the path of RUN)
# Writes RUN/scores/SUBSET.{gen.txt,hyp.LANG,json}.
#
# Example: scripts/score.sh --run /tmp/run --data /tmp/demo --subset test1
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run='' data='' subset=test beam=4 lenpen=0.6 max_tokens=8000 name=''
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --run | --data | --subset | --beam | --lenpen | --max-tokens | --name)
      need_value "$1" $#
      option=${1#--}
      printf -v "${option//-/_}" '%s' "$2"
      shift 2
      ;;
    --) shift; break ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
[[ $run && $data ]] || usage_error "--run and --data are needed"
need_number --beam "$beam"
((beam > 0)) || usage_error "--beam must be at least 1"
need_number --max-tokens "$max_tokens"
[[ $lenpen =~ ^-?[0-9]+(\.[0-9]+)?$ ]] || usage_error "--lenpen must be a number, not '$lenpen'"
use_environment fairseq-generate
[[ -f $run/checkpoint.pt ]] || die "$run has no checkpoint.pt: run scripts/average.sh --run $run first"
[[ -d $data/bin ]] || die "$data has no prepared data: run scripts/prepare.sh --out $data first"
check_data "$run" "$data"
index=$(find "$data/bin" -name "$subset.*.idx" | sort | head -n 1)
[[ $index ]] || die "$data has no test set '$subset'; there are: $(find "$data/bin" -name '*.idx' -printf '%f\n' | cut -d . -f 1 | sort -u | tr '\n' ' ')"
pair=$(basename "$index" | cut -d . -f 2)
target=${pair#*-}
reference=$data/raw/$subset.$target
out=$run/scores/$subset

score() {
  python "$TOOLS/checkpoint.py" "$run/checkpoint.pt" >/dev/null || exit 1
  mkdir -p "$run/scores"
  # current fairseq drops the last sentences of a set that does not divide by the batch size multiple: ask for 1
  fairseq-generate "$data/bin" --user-dir "$USER_DIR" --task fast_translation --path "$run/checkpoint.pt" --gen-subset "$subset" \
    --beam "$beam" --lenpen "$lenpen" --max-tokens "$max_tokens" --required-batch-size-multiple 1 \
    --post-process subword_nmt --scoring bleu "$@" \
    2>"$out.log" |
    python "$TOOLS/progress.py" generate --total "$(wc -l <"$reference")" --label "translate $subset" >"$out.gen.txt.tmp" ||
    log_failure "$out.log" fairseq-generate
  mv "$out.gen.txt.tmp" "$out.gen.txt"
  python "$TOOLS/score.py" --generated "$out.gen.txt" --reference "$reference" --lang "$target" --out "$out.json" \
    --hypotheses "$out.hyp.$target" --name "${name:-$run}" --subset "$subset" \
    --settings "beam $beam, lenpen $lenpen${*:+, $*}" >/dev/null
}
setting "checkpoint $(sha256sum <"$run/checkpoint.pt") reference $(sha256sum <"$reference")"
setting "score $subset beam $beam lenpen $lenpen name ${name:-$run} $*"
trap 'rm -f "$out.gen.txt.tmp"' EXIT
step "$run" "score-$subset" "scores/$subset.json" score "$@"
python "$TOOLS/score.py" --table "$out.json"
