#!/usr/bin/env bash
# Averages the last checkpoints of a run and makes it a complete model folder: RUN/checkpoint.pt, with the BPE codes
# and dictionaries beside it.
#
# Usage: scripts/average.sh --run RUN --data FOLDER [--last N] [--upper UPDATES]
#   --run RUN        output of scripts/train.sh
#   --data FOLDER    output of scripts/prepare.sh
#   --last N         how many checkpoints (default: 5)
#   --upper UPDATES  ignore checkpoints of more updates
#
# Example: scripts/average.sh --run /tmp/run --data /tmp/demo
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run='' data='' last=5 upper=''
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --run | --data | --last | --upper) need_value "$1" $#; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
[[ $run && $data ]] || usage_error "--run and --data are needed"
need_number --last "$last"
[[ ! $upper ]] || need_number --upper "$upper"
use_environment python
[[ -d $run/checkpoints ]] || die "$run has no checkpoints: run scripts/train.sh --out $run first"
[[ -f $data/bpecodes ]] || die "$data has no BPE codes: run scripts/prepare.sh --out $data first"

average() {
  python -m fairseq_rope.tools.average "$run/checkpoints" --last "$last" ${upper:+--upper "$upper"} --out "$run/checkpoint.pt"
  cp "$data/bpecodes" "$data"/bin/dict.*.txt "$run/"
}
newest=$(cd "$run/checkpoints" && find . -name 'checkpoint_*.pt' -printf '%f %T@\n' | sort | sha256sum)
setting "average last $last upper ${upper:-none} of $newest"
step "$run" average average
