#!/usr/bin/env bash
# Measures speed, as ratios: what is compared runs in turn in one process, and is divided round by round. Prints a table
# (medians, quartiles, times as fast as the baseline: more than 1 is faster, share of the machine's own measured
# matrix-multiply peak) and what it belongs to. Runs on one GPU where there is one, else on the CPU.
#
# Usage: scripts/benchmark.sh WHAT [options] [-- fairseq-train flags, for the models of train and decode]
#   train       a training step by fairseq's own Trainer, against fairseq's transformer, loss and optimizer
#   decode      beam search with outputs of equal length, also of CTranslate2, against fairseq's model and search
#   rope        RoPE on queries and keys, against a copy of them
#   attention   one self-attention by length, against fairseq's own
#   prepare     scripts/prepare.sh, against the plain chain of the libraries' own commands
#   --repeats N      measured rounds (default: 5; rope: 21, prepare: 3)
#   --device D       cpu or cuda (default: cuda where there is one)
#   --out [PATH]     also write JSON, to a file or to benchmark-WHAT-DEVICE.json in a folder (without PATH: results)
#   train, decode:
#   --archs A [B..]  to compare; for train ARCH[:CRITERION[:OPTIMIZER]][@PRECISION], and `stock` for fairseq's own
#   train:
#   --precision P    fp32, bf16 (fairseq's --bf16) or autocast (default: fp32)
#   --memory         also the peak memory of a step, each candidate in a process of its own
#   decode:
#   --sentences N [M..]  of a batch (default: 64 1)
# and more: scripts/benchmark.sh WHAT --help
#
# Environment: VENV             folder of the virtual environment (default: .venv in the project)
#              OMP_NUM_THREADS  threads (default: all cores)
# Example: scripts/benchmark.sh train --archs roformer_base --memory --out
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  --help | -h) show_help ;;
  train | decode | rope | attention | prepare) ;;
  -*) usage_error "unknown option '$1'" ;;
  '') usage_error "train, decode, rope, attention or prepare is needed" ;;
  *) usage_error "nothing to measure '$1': train, decode, rope, attention or prepare" ;;
esac
use_environment python
exec python -m fairseq_rope.benchmark "$@"
