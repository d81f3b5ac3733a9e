#!/usr/bin/env bash
# Measures speed as ratios: what is compared runs in turn in one process, and is divided round by round. WHAT is train,
# decode, rope, attention or prepare; the options are in scripts/benchmark.sh --help and scripts/benchmark.sh WHAT --help.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python -m pipeline.benchmark "$@"
