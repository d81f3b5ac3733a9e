#!/usr/bin/env bash
# Tests, measures and trains on a GPU: a list of commands, each with a limit of time. Call it again: it skips the commands
# that are done, and trainings continue. At its end, figures and logs are in OUT/figures.tar.gz.
#
# Usage: scripts/check_gpu.sh [--multi30k FOLDER] [--mix FOLDER] [--minutes N]
#   --multi30k FOLDER  raw text of recipe multi30k: train, val and test_2016_flickr, each as .en and .de
#   --mix FOLDER       raw text of recipe mix: train, newstest2013 and newstest2014
#   --minutes N        no command runs longer than this after the start (default: 9)
# Environment: OUT     folder of everything (default: runs/gpu)
#              JOBS    trainings at a time (default: 4)
#              DEVICE  cuda, or cpu to try the commands (default: cuda)
#              SIZE    of the architectures of the benchmarks (default: base)
# Example: scripts/check_gpu.sh --multi30k ~/multi30k --minutes 9
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

OUT=${OUT:-$ROOT/runs/gpu} JOBS=${JOBS:-4} DEVICE=${DEVICE:-cuda} SIZE=${SIZE:-base}
multi30k='' mix='' minutes=9
while (($#)); do
  case $1 in
    --multi30k) multi30k=${2:?--multi30k needs a folder} ;;
    --mix) mix=${2:?--mix needs a folder} ;;
    --minutes) minutes=${2:?--minutes needs a number} ;;
    --help | -h) show_help ;;
    *) printf '%s: error: unknown option %q (see %s --help)\n' "$SCRIPT" "$1" "$SCRIPT" >&2; exit 2 ;;
  esac
  shift 2
done
for folder in ${multi30k:+"$multi30k"} ${mix:+"$mix"}; do [[ -d $folder ]] || die "$folder: no such folder"; done
use_environment
mkdir -p "$OUT/logs" "$OUT/results"
end=$((SECONDS + 60 * minutes))
trap 'tar -czf "$OUT/figures.tar.gz" -C "$OUT" results logs && say "$OUT/figures.tar.gz"' EXIT

step() { # name, seconds at most, command: skipped if it is done
  local name=$1 limit=$2 left=$((end - SECONDS))
  shift 2
  [[ ! -e $OUT/logs/$name.done ]] || { say "$name: done before"; return; }
  ((left > 10)) || { say "$name: no time left"; return; }
  say "$name"
  if timeout --kill-after=10 $((limit < left ? limit : left)) "$@" >"$OUT/logs/$name.log" 2>&1; then
    touch "$OUT/logs/$name.done"
  else
    say "$name: failed or cut (status $?); see $OUT/logs/$name.log"
  fi
}
benchmark() { # name, command, options
  step "$1" 240 "$ROOT/scripts/benchmark.sh" "$2" --device "$DEVICE" --out "$OUT/results/benchmark-$1-$DEVICE.json" "${@:3}"
}
steps_of() { benchmark "$1" train --precision bf16 --tokens 25000 --repeats 10 --archs "${@:2}"; }
mapfile -t archs < <(python "$RUN" fairseq_rope info | grep -oE '^(roformer|tupe|transformer)_[a-z0-9_]+')
mapfile -t of_size < <(printf '%s\n' "${archs[@]}" | grep "_$SIZE$")
train() { # architecture; each in a folder of its own, so that trainings do not wait for one another
  step "multi30k-$1" 3600 "$ROOT/scripts/reproduce.sh" multi30k --data "$multi30k" --archs "$1" --out "$OUT/multi30k/$1" \
    --results "$OUT/results"
}

step tests 240 python -m pytest -q -m gpu "$ROOT/tests"
steps_of train-bf16 "transformer_sinusoidal_$SIZE" "roformer_$SIZE" --memory --profile
steps_of train-compiled stock+compile "roformer_$SIZE+compile"
steps_of train-all "${of_size[@]}"
benchmark decode decode --archs "roformer_$SIZE" --sentences 256 64 1 --profile
for arch in "${archs[@]}"; do
  [[ -n $multi30k && $arch == *_multi30k ]] || continue
  while (($(jobs -rp | wc -l) >= JOBS)); do wait -n; done
  train "$arch" &
done
wait
if [[ -n $mix ]]; then
  step mix 3600 "$ROOT/scripts/reproduce.sh" mix --data "$mix" --device-tokens 25000 --out "$OUT/mix" --results "$OUT/results"
fi
for log in "$OUT"/logs/*.log; do [[ -e ${log%.log}.done ]] || exit 1; done
