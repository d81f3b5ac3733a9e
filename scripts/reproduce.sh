#!/usr/bin/env bash
# Runs a recipe from raw text to a table and a report: prepare.sh, then for each architecture and seed, one after the
# other, train.sh, average.sh and score.sh. What was finished before is skipped, what was killed goes on, and a training
# that fails does not stop the others. The options are in scripts/reproduce.sh --help.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python -m pipeline.reproduce "$@"
