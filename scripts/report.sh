#!/usr/bin/env bash
# Makes the report about all runs that there are, from their result files alone: scores with deviation over seeds,
# significance, the papers' claims, longer sentences, costs, curves. The options are in scripts/report.sh --help.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python -m pipeline.report.build "$@"
