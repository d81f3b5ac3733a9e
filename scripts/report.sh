#!/usr/bin/env bash
# Makes the report on all runs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
run_pipeline report.build "$@"
