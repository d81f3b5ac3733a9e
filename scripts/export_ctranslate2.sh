#!/usr/bin/env bash
# Exports a run's averaged checkpoint to CTranslate2, a fast engine without PyTorch: OUT is a folder for its
# ctranslate2.Translator(OUT), which takes and gives BPE tokens. What the engine cannot express is refused, and why.
#
# Usage: scripts/export_ctranslate2.sh RUN OUT [--quantization Q]
#   RUN                model folder: output of scripts/train.sh and scripts/average.sh; or a checkpoint with its
#                      dictionaries beside it
#   OUT                the folder to make
#   --quantization Q   int8, int8_float32, int8_float16, int8_bfloat16, int16, float16, bfloat16 or float32 (default)
#
# Example: scripts/export_ctranslate2.sh runs/demo/roformer_tiny/seed1 /tmp/roformer --quantization int8
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folders=() quantization=''
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --quantization) need_value "$1" $#; quantization=$2; shift 2 ;;
    -*) usage_error "unknown option '$1'" ;;
    *) folders+=("$1"); shift ;;
  esac
done
((${#folders[@]} == 2)) || usage_error "the model folder and the folder to make are needed"
use_environment python
exec python -m fairseq_rope.tools.export_ctranslate2 "${folders[@]}" ${quantization:+--quantization "$quantization"}
