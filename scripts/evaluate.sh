#!/usr/bin/env bash
# Evaluates a language model on a test set with a run's averaged checkpoint: loss, perplexity and, if the model predicts
# every token, bits per byte. The command below computes the loss. {placeholders} are options of scripts/evaluate.sh --help.
#
# The text is cut into blocks of the length that the model was trained with, and masked positions are drawn with seed 1,
# so models of one length are compared on the same positions.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline.scoring.evaluate \
  fairseq-validate '{data}/bin' --user-dir '{user_dir}' --task '{task}' --path '{checkpoint}' --valid-subset '{subset}' \
  --sample-break-mode none --seed 1 --max-tokens '{max_tokens}' --required-batch-size-multiple 1 --log-format json \
  -- "$@"
