#!/usr/bin/env bash
# Prepares parallel text for fairseq: it checks and copies the text, normalises punctuation, removes control characters,
# tokenises (Moses, hyphens split, as in fairseq's own recipes), learns and applies joint BPE, cleans the training set, and
# binarises with a joined dictionary. scripts/prepare.sh --help lists the options.
#
# The two commands below run on all processors, in shards. The BPE codes are those of `subword-nmt
# learn-joint-bpe-and-vocab`, and the binarised files are those of `fairseq-preprocess --joined-dictionary`, byte by byte.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline.corpus.prepare \
  --tokenize 'sacremoses -q -l {lang} -j 1 normalize -c tokenize {split_hyphens}' \
  --apply-bpe 'subword-nmt apply-bpe --codes {codes}' \
  -- "$@"
