#!/usr/bin/env bash
# Downloads the parts of WMT14 English-German from their public addresses, and extracts their text.
# scripts/download.sh --help lists the options.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline corpus.wmt14 "$@"
