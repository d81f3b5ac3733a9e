#!/usr/bin/env bash
# Averages the last checkpoints of a run (`fairseq-rope average` does the same for any folder) and makes the run a complete
# model folder: RUN/checkpoint.pt, the dictionaries, prepare.json, and the BPE codes or the model of SentencePiece.
# scripts/average.sh --help lists the options.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline training.average "$@"
