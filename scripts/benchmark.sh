#!/usr/bin/env bash
# Measures speed as ratios: candidates take turns in one process, and their times are divided round by round. WHAT is
# train, decode, rope, attention, criterion or prepare. scripts/benchmark.sh --help and scripts/benchmark.sh WHAT --help
# list the options.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline.benchmark "$@"
