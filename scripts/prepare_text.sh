#!/usr/bin/env bash
# Prepares text for language models: it checks and copies the documents, splits them into sets and into subwords or bytes,
# and binarises. scripts/prepare_text.sh --help lists the options.
#
# The commands below run on all processors, in shards. The binarised files are those of `fairseq-preprocess --only-source`.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline.corpus.prepare_text \
  --tokenize 'sacremoses -q -l {language} -j 1 normalize -c tokenize {split_hyphens}' \
  --apply-bpe 'subword-nmt apply-bpe --codes {codes}' \
  --apply-sentencepiece 'python {run} pipeline.processing.pieces {model}' \
  --apply-bytes 'python {run} pipeline.processing.bytes' \
  -- "$@"
