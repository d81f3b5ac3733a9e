#!/usr/bin/env bash
# Evaluates a language model on a test set with a run's averaged checkpoint: loss, perplexity and, if the model predicts
# every token, bits per byte. The command below computes the loss. {placeholders} are options of scripts/evaluate.sh --help.
#
# The text is cut into blocks of the length that the model was trained with. Of a masked model, 15% of the positions are
# masked as in BERT, with seed 1, however it was trained: models of one length are compared on the same positions.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline.scoring.evaluate \
  fairseq-validate '{data}/bin' --user-dir '{user_dir}' --task '{task}' --path '{checkpoint}' --valid-subset '{subset}' \
  --model-overrides "{{'mask_prob': 0.15, 'leave_unmasked_prob': 0.1, 'random_token_prob': 0.1, 'mask_stdev': 0.0, \
    'mask_multiple_length': 1, 'mask_whole_words': False, 'freq_weighted_replacement': False, 'shorten_method': 'none'}}" \
  --sample-break-mode none --seed 1 --max-tokens '{max_tokens}' --required-batch-size-multiple 1 --log-format json \
  -- "$@"
