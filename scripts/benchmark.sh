#!/usr/bin/env bash
# Measures speed as ratios: candidates take turns in one process, and their times are divided round by round. WHAT is
# train or decode. scripts/benchmark.sh --help and scripts/benchmark.sh WHAT --help list the options.
#
# Like train.sh, it lets the process keep the memory that a step frees, for all candidates; MALLOC_MMAP_MAX_=65536 measures
# without that.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment
keep_memory

exec python "$RUN" pipeline benchmark.command "$@"
