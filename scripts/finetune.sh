#!/usr/bin/env bash
# Fine-tunes a pretrained masked language model on a task, with each learning rate and seed of the recipe, and takes
# the median over seeds of the best learning rate. scripts/finetune.sh --help lists the options.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment
keep_memory

exec python "$RUN" pipeline finetuning.finetune "$@"
