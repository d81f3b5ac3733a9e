#!/usr/bin/env bash
# Averages the last checkpoints of a run and makes it a complete model folder: RUN/checkpoint.pt, with the BPE codes,
# dictionaries and prepare.json (which says how text is split) beside it.
#
# Usage: scripts/average.sh --run RUN --data FOLDER [--last N] [--upper UPDATES]
#   --run RUN        output of scripts/train.sh
#   --data FOLDER    output of scripts/prepare.sh
#   --last N         how many checkpoints (default: 5)
#   --upper N        ignore checkpoints of more updates (or epochs)
#   --by KIND        kind of checkpoint: updates or epochs (default: updates)
#   --inputs "A B"   these files instead of the last ones
#
# Example: scripts/average.sh --run /tmp/run --data /tmp/demo
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run='' data='' last=5 upper='' by=updates inputs=''
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --run | --data | --last | --upper | --by | --inputs) need_value "$1" $#; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
[[ $run && $data ]] || usage_error "--run and --data are needed"
need_number --last "$last"
((last > 0)) || usage_error "--last must be at least 1"
[[ ! $upper ]] || need_number --upper "$upper"
[[ $by == updates || $by == epochs ]] || usage_error "--by must be updates or epochs, not '$by'"
use_environment python
[[ -d $run/checkpoints ]] || die "$run has no checkpoints: run scripts/train.sh --out $run first"
[[ -f $data/bpecodes ]] || die "$data has no BPE codes: run scripts/prepare.sh --out $data first"

check_data "$run" "$data"

average() {
  local files=("$run/checkpoints" --last "$last" --by "$by" ${upper:+--upper "$upper"})
  if [[ $inputs ]]; then read -ra files <<<"--inputs $inputs"; fi
  python -m fairseq_rope.tools.average "${files[@]}" --out "$run/checkpoint.pt"
  cp "$data/bpecodes" "$data"/bin/dict.*.txt "$data/prepare.json" "$run/"
  find "$data" -maxdepth 1 -name 'vocabulary.*' -exec cp {} "$run/" \; # where a threshold needs them
}
newest=$(cd "$run/checkpoints" && find . -name 'checkpoint*.pt' -printf '%f %T@\n' | sort | sha256sum)
setting "average last $last by $by upper ${upper:-none} inputs ${inputs:-none} of $newest bpe $(sha256sum <"$data/bpecodes")"
step "$run" average checkpoint.pt average
