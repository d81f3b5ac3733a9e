#!/usr/bin/env bash
# Translates a test set and scores it.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
run_pipeline scoring.score "$@"
