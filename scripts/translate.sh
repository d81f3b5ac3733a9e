#!/usr/bin/env bash
# Translates raw text, one sentence a line, from stdin to stdout, with a run's averaged checkpoint.
#
# Usage: scripts/translate.sh RUN [--beam N] [--lenpen X] [--engine NAME] [--quantization Q] <input >output
#   RUN                    model folder: output of scripts/train.sh and scripts/average.sh
#   --beam N, --lenpen X   (default: 4, 0.6)
#   --engine NAME          fairseq (default), or ctranslate2: exports the model first, once per checkpoint
#   --quantization Q       for ctranslate2, as of scripts/export_ctranslate2.sh (default: float32)
#
# Example: echo "The old king sees a dog." | scripts/translate.sh runs/demo/roformer_tiny/seed1
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run='' beam=4 lenpen=0.6 engine=fairseq quantization=''
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --beam | --lenpen | --engine | --quantization) need_value "$1" $#; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
    -*) usage_error "unknown option '$1'" ;;
    *) [[ ! $run ]] || usage_error "one model folder, please, not also '$1'"; run=$1; shift ;;
  esac
done
[[ $run ]] || usage_error "the model folder is needed"
need_number --beam "$beam"
[[ $lenpen =~ ^-?[0-9]+(\.[0-9]+)?$ ]] || usage_error "--lenpen must be a number, not '$lenpen'"
[[ $engine == fairseq || $engine == ctranslate2 ]] || usage_error "--engine must be fairseq or ctranslate2, not '$engine'"
[[ ! $quantization || $engine == ctranslate2 ]] || usage_error "--quantization is for --engine ctranslate2"
use_environment python
exec python -m fairseq_rope.tools.translate "$run" --beam "$beam" --lenpen "$lenpen" --engine "$engine" \
  ${quantization:+--quantization "$quantization"}
