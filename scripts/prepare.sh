#!/usr/bin/env bash
# Prepares parallel text for fairseq.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
run_pipeline corpus.prepare "$@"
