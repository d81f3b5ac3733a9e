#!/usr/bin/env bash
# Evaluates a language model.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
run_pipeline scoring.evaluate "$@"
