#!/usr/bin/env bash
# Trains one architecture on prepared data, or continues.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
keep_memory
run_pipeline training.train "$@"
