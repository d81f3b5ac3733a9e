#!/usr/bin/env bash
# Measures speed as ratios.
#
# Like train.sh, it lets the process keep the memory that a step frees, for all candidates; MALLOC_MMAP_MAX_=65536 measures
# without that.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
keep_memory
run_pipeline benchmark.command "$@"
