#!/usr/bin/env bash
# Prepares parallel text for fairseq: checked copies, punctuation normalised, control characters removed, Moses
# tokenisation (hyphens split, as fairseq's own recipes do), joint BPE, cleaning of the training set, binarised with a
# joined dictionary. The numbers of each step are printed and kept.
#
# Usage: scripts/prepare.sh --train PREFIX --valid PREFIX --test PREFIX [--test PREFIX ...] --out FOLDER [options]
#   --train, --valid, --test PREFIX   PREFIX.en and PREFIX.de, also with .gz; the first --test is fairseq's subset
#                                     `test`, the next ones `test1`, `test2`, ...
#   --source LANG, --target LANG      languages (default: en, de)
#   --merges N                        BPE merges learned on both sides of the training set (default: 37000)
#   --vocabulary-threshold N          split subwords that are rarer on their side of the training set (default: 0, none)
#   --keep-hyphens                    tokenise without splitting words at hyphens
#   --max-length N, --ratio R         cleaning, in BPE tokens, training set only (default: 250, 1.5)
#   --workers N                       processes (default: number of cores)
#   --out FOLDER                      gets raw/ tok/ bpe/ bin/, the BPE codes (bpecodes) and prepare.json
# A step that was done before with the same settings and input is skipped; a killed one goes on. Tokenising, applying BPE
# and binarising lose no more than the shard (200,000 lines) that each process was at; copying and cleaning (seconds) and
# learning BPE, one long computation, begin anew.
#
# Example: scripts/prepare.sh --train data/demo/train --valid data/demo/valid --test data/demo/test --merges 500 --out /tmp/demo
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command_line="scripts/prepare.sh$(printf ' %q' "$@")"
train='' valid='' out='' source=en target=de merges=37000 max_length=250 ratio=1.5 workers=$(nproc)
vocabulary_threshold=0 hyphens=split
tests=()
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --test) need_value "$1" $#; tests+=("$2"); shift 2 ;;
    --keep-hyphens) hyphens=kept; shift ;;
    --train | --valid | --out | --source | --target | --merges | --vocabulary-threshold | --max-length | --ratio | --workers)
      need_value "$1" $#
      name=${1#--}
      printf -v "${name//-/_}" '%s' "$2"
      shift 2
      ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
[[ $train && $valid && $out && ${#tests[@]} -gt 0 ]] || usage_error "--train, --valid, --test and --out are needed"
need_number --merges "$merges"
need_number --vocabulary-threshold "$vocabulary_threshold"
need_number --max-length "$max_length"
need_number --workers "$workers"
[[ $ratio =~ ^[0-9]+(\.[0-9]+)?$ ]] || usage_error "--ratio must be a number, not '$ratio'"
use_environment sacremoses subword-nmt
((workers > 0)) || usage_error "--workers must be at least 1"

subsets=(train valid test)
prefixes=("$train" "$valid" "${tests[@]}")
for ((i = 1; i < ${#tests[@]}; i++)); do subsets+=("test$i"); done

copy_raw() {
  local i
  rm -rf "$out/raw.tmp"
  mkdir -p "$out/raw.tmp"
  for i in "${!subsets[@]}"; do
    python "$TOOLS/corpus.py" copy "${prefixes[i]}" "$out/raw.tmp/${subsets[i]}" --source "$source" --target "$target" \
      >"$out/raw.tmp/${subsets[i]}.json" || { rm -rf "$out/raw.tmp"; exit 1; }
  done
  rm -rf "$out/raw"
  mv "$out/raw.tmp" "$out/raw"
}

# over_all INPUT_FOLDER OUTPUT_FOLDER LABEL COMMAND: each file of one folder through a filter into the other, in shards
# on several processors; %LANG% stands for the language in the command and in depends, the files that it reads besides.
over_all() {
  local subset lang from=$out/$1 to=$out/$2 label=$3
  shift 3
  mkdir -p "$to"
  for subset in "${subsets[@]}"; do
    for lang in "$source" "$target"; do
      python "$TOOLS/shards.py" "$from/$subset.$lang" "$to/$subset.$lang" --workers "$workers" \
        --label "$label $subset.$lang" ${depends[@]+--depends "${depends[@]//%LANG%/$lang}"} -- "${@//%LANG%/$lang}" || exit 1
    done
  done
}

tokenize() {
  local depends=() tokenize=(tokenize)
  [[ $hyphens == kept ]] || tokenize+=(-a)
  over_all raw tok tokenize sacremoses -q -l %LANG% -j 1 normalize -c "${tokenize[@]}"
}
learn_bpe() {
  local shown=/dev/null vocabularies=() # its bar, where somebody looks
  [[ ! -t 2 ]] || shown=/dev/stderr
  ((vocabulary_threshold == 0)) || vocabularies=(--vocabularies "$out/vocabulary.$source" "$out/vocabulary.$target")
  python "$TOOLS/bpe.py" --input "$out/tok/train.$source" "$out/tok/train.$target" --merges "$merges" \
    ${vocabularies[@]+"${vocabularies[@]}"} --workers "$workers" --out "$out/bpecodes" 2>&1 >"$out/bpe.json" |
    tee "$out/learn_bpe.log" >"$shown" || log_failure "$out/learn_bpe.log" subword-nmt
}
apply_bpe() {
  local depends=("$out/bpecodes") vocabulary=()
  if ((vocabulary_threshold)); then
    depends+=("$out/vocabulary.%LANG%")
    vocabulary=(--vocabulary "$out/vocabulary.%LANG%" --vocabulary-threshold "$vocabulary_threshold")
  fi
  over_all tok bpe apply-bpe subword-nmt apply-bpe --codes "$out/bpecodes" ${vocabulary[@]+"${vocabulary[@]}"}
}
clean() {
  python "$TOOLS/corpus.py" clean "$out/bpe/train" "$out/bpe/train.clean" --source "$source" --target "$target" \
    --max-length "$max_length" --ratio "$ratio" >"$out/clean.json"
}
binarize() {
  local subset files=(train=train.clean)
  for subset in "${subsets[@]:1}"; do files+=("$subset=$subset"); done
  # the level keeps what fairseq says when it is imported from the screen
  LOGLEVEL=WARNING python "$TOOLS/binarize.py" "$out/bpe" --source "$source" --target "$target" --out "$out/bin" \
    --subsets "${files[@]}" --workers "$workers" >"$out/binarize.json.tmp" || exit 1
  mv "$out/binarize.json.tmp" "$out/binarize.json"
}

files=() size=0
for prefix in "${prefixes[@]}"; do
  for lang in "$source" "$target"; do
    file=$prefix.$lang
    [[ -f $file ]] || file=$file.gz
    [[ -f $file ]] || die "$prefix.$lang not found (nor with .gz): check the folder and the languages"
    files+=("$file")
    [[ $prefix != *newstest2014* ]] || python "$TOOLS/wmt14.py" check "$file" || exit 1
    bytes=$(stat -L -c %s "$file")
    [[ $file != *.gz ]] || bytes=$((bytes * 3))
    size=$((size + bytes))
  done
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
# text five times over (checked, tokens, subwords, cleaned, and shards of one of them), and indices
free=$(df -P -B 1 "$out" | awk 'END { print $4 }')
[[ -d $out/raw ]] || ((free > 7 * size)) ||
  die "$out has $((free >> 20)) MiB free, and about $((7 * size >> 20)) are needed: make room or choose another --out"
hashes=
for file in "${files[@]}"; do hashes+=" $(sha256sum <"$file" | cut -c 1-64)"; done
trap 'rm -rf "$out"/{raw,bin}.tmp "$out"/{tok,bpe}/*.tmp "$out"/{bpecodes,binarize.json}.tmp' EXIT
setting "input $source-$target$hashes"
step "$out" copy raw copy_raw
setting "control characters removed"
[[ $hyphens == split ]] || setting "hyphens kept"
step "$out" tokenize tok tokenize
setting "merges $merges"
((vocabulary_threshold == 0)) || setting "vocabulary threshold $vocabulary_threshold"
step "$out" learn-bpe bpecodes learn_bpe
step "$out" apply-bpe bpe apply_bpe
setting "max-length $max_length ratio $ratio"
step "$out" clean clean.json clean
step "$out" binarize binarize.json binarize
python "$TOOLS/prepare_info.py" "$out" "merges=$merges" "hyphens=$hyphens" "vocabulary_threshold=$vocabulary_threshold" \
  "max_length=$max_length" "ratio=$ratio" "command=$command_line"
say "prepared: $out"
