#!/usr/bin/env bash
# Fine-tunes pretrained masked language models.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
keep_memory
run_pipeline finetuning.finetune "$@"
