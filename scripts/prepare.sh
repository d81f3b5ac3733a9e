#!/usr/bin/env bash
# Prepares parallel text for fairseq: checked copies, punctuation normalised, control characters removed, Moses
# tokenisation (hyphens split, as fairseq's own recipes do), joint BPE, cleaning of the training set, and binarised data
# with a joined dictionary. The options are in scripts/prepare.sh --help.
#
# The two commands below run on all processors, in shards. BPE is learned as `subword-nmt learn-joint-bpe-and-vocab`
# learns it, and binarised as `fairseq-preprocess --joined-dictionary` does it: the files are the same, byte by byte.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python -m pipeline.corpus.prepare \
  --tokenize 'sacremoses -q -l {lang} -j 1 normalize -c tokenize {split_hyphens}' \
  --apply-bpe 'subword-nmt apply-bpe --codes {codes}' \
  -- "$@"
