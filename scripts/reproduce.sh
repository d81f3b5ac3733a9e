#!/usr/bin/env bash
# Runs a recipe from raw text to a table and a report: prepare.sh, then train.sh, average.sh and score.sh for each
# architecture and seed, one after the other. It skips what is finished and continues what was killed, and a training that
# fails does not stop the others. scripts/reproduce.sh --help lists the options.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment
keep_memory

exec python "$RUN" pipeline reproduce "$@"
