#!/usr/bin/env bash
# Translates raw text.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
run_pipeline translation.translate "$@"
