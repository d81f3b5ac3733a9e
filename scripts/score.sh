#!/usr/bin/env bash
# Translates a test set with a run's averaged checkpoint (fairseq-generate) and prints, side by side, the scores that papers
# call BLEU. scripts/score.sh --help lists the options.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline scoring.score "$@"
