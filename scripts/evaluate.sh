#!/usr/bin/env bash
# Evaluates a language model on a test set with a run's averaged checkpoint (fairseq-validate): loss, perplexity and, if the
# model predicts every token, bits per byte. The text is cut into blocks of the length that the model was trained with.
# scripts/evaluate.sh --help lists the options.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline scoring.evaluate "$@"
