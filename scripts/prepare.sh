#!/usr/bin/env bash
# Prepares parallel text for fairseq: it checks and copies the text, splits it into subwords, cleans the training set, and
# binarises with a joined dictionary. scripts/prepare.sh --help lists the options.
#   --subwords bpe            normalise punctuation, remove control characters, tokenise (Moses, hyphens split, as in
#                             fairseq's own recipes), learn and apply joint BPE
#   --subwords sentencepiece  learn and apply one model of SentencePiece on the raw text of both sides
# It works on all processors. The BPE codes are those of `subword-nmt learn-joint-bpe-and-vocab`, and the
# binarised files are those of `fairseq-preprocess --joined-dictionary`, byte by byte.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline corpus.prepare "$@"
