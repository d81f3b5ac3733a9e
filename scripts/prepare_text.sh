#!/usr/bin/env bash
# Prepares text for language models: it checks and copies the documents, splits them into sets and into subwords or bytes,
# and binarises. The binarised files are those of `fairseq-preprocess --only-source`, byte by byte.
# scripts/prepare_text.sh --help lists the options.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline corpus.prepare_text "$@"
