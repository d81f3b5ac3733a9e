#!/usr/bin/env bash
# Runs a recipe from raw text to a table and a report.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
keep_memory
run_pipeline reproduce "$@"
