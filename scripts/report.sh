#!/usr/bin/env bash
# Makes the report on all runs from their result files alone: scores with deviation over seeds, significance, longer
# sentences, costs, curves. scripts/report.sh --help lists the options.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline report.build "$@"
