#!/usr/bin/env bash
# Averages the last checkpoints of a run, and makes the run a complete model folder.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
run_pipeline training.average "$@"
