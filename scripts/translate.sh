#!/usr/bin/env bash
# Translates raw text, one sentence a line, from stdin to stdout, with a run's averaged checkpoint: beam 4 and length
# penalty 0.6, with fairseq or CTranslate2; in a terminal line by line. scripts/translate.sh --help lists the options.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline translation.translate "$@"
