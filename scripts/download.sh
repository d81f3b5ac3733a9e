#!/usr/bin/env bash
# Downloads WMT14 English-German.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
run_pipeline corpus.wmt14 "$@"
