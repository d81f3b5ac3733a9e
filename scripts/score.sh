#!/usr/bin/env bash
# Translates a test set with a run's averaged checkpoint and prints, side by side, the scores that papers call BLEU.
# The command below translates. {placeholders} are options of scripts/score.sh --help; words behind -- there go to
# fairseq-generate.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline.scoring.score \
  fairseq-generate '{data}/bin' --source-lang '{source}' --target-lang '{target}' --user-dir '{user_dir}' \
  --task fast_translation --path '{checkpoint}' --gen-subset '{subset}' --beam '{beam}' --lenpen '{lenpen}' \
  --max-tokens '{max_tokens}' '{post_process}' --scoring bleu \
  -- "$@"
