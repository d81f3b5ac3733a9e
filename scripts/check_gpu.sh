#!/usr/bin/env bash
# Tests, measures and trains on a GPU, part by part. Call it again: it skips the parts that are done and continues the
# trainings that were cut. scripts/check_gpu.sh --help lists parts and options; docs/speed.md says how it runs on a
# machine without network.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline.gpu.check "$@"
