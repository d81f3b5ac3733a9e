#!/usr/bin/env bash
# Translates raw text, one sentence a line, from stdin to stdout, with a run's averaged checkpoint.
#
# Usage: scripts/translate.sh RUN [--beam N] [--lenpen X] <input >output
#   RUN                    model folder: output of scripts/train.sh and scripts/average.sh
#   --beam N, --lenpen X   (default: 4, 0.6)
#
# Example: echo "The old king sees a dog." | scripts/translate.sh runs/demo/roformer_tiny/seed1
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run='' beam=4 lenpen=0.6
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --beam | --lenpen) need_value "$1" $#; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
    -*) usage_error "unknown option '$1'" ;;
    *) [[ ! $run ]] || usage_error "one model folder, please, not also '$1'"; run=$1; shift ;;
  esac
done
[[ $run ]] || usage_error "the model folder is needed"
need_number --beam "$beam"
[[ $lenpen =~ ^-?[0-9]+(\.[0-9]+)?$ ]] || usage_error "--lenpen must be a number, not '$lenpen'"
use_environment python
exec python -m fairseq_rope.tools.translate "$run" --beam "$beam" --lenpen "$lenpen"
