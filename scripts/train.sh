#!/usr/bin/env bash
# Trains one architecture on prepared data with a command below; {placeholders} are options of scripts/train.sh --help.
#
# The first command is for translation. Its defaults are those that the RoFormer paper states: Adam (0.9, 0.98), a
# learning rate from 1e-7 to 5e-4 that then falls with the inverse square root, label smoothing 0.1. The second one is for
# language models, with the defaults of the TUPE paper: Adam (0.9, 0.999), weight decay 0.01, gradients of norm 1 at most, a
# learning rate that rises to 1e-4 and then falls to 0 by the last update. It is for recipes that name such a task.
#
# The flags of the recipe (scripts/recipes/NAME.toml) follow these words, then those behind `--` on the command line; the
# last one wins. The words from --arch on tell this run from others. If an update is to have a number of target tokens,
# Python chooses --max-tokens and --update-freq for the data and the devices.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment
# on a CPU fresh memory costs more than arithmetic: the process keeps the memory that a step frees, for the next one
export MALLOC_MMAP_MAX_=${MALLOC_MMAP_MAX_:-0} MALLOC_TRIM_THRESHOLD_=${MALLOC_TRIM_THRESHOLD_:-68719476736}

run=(--user-dir '{user_dir}' --save-dir '{out}/checkpoints' --max-update '{max_update}'
  --save-interval-updates '{save_every}' --validate-interval-updates '{save_every}' --keep-interval-updates '{keep}'
  --no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000 --log-format json --log-interval 10)
exec python "$RUN" pipeline.training.train \
  fairseq-train '{data}/bin' --source-lang '{source}' --target-lang '{target}' "${run[@]}" \
  --arch '{arch}' '{share_embeddings}' --seed '{seed}' \
  --optimizer fused_adam --adam-betas '(0.9, 0.98)' --clip-norm 0 \
  --lr-scheduler inverse_sqrt --warmup-init-lr 1e-7 --warmup-updates 4000 --lr 5e-4 \
  --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 \
  or \
  fairseq-train '{data}/bin' --required-batch-size-multiple 1 "${run[@]}" \
  --arch '{arch}' --task '{task}' '{share_embeddings}' --seed '{seed}' --sample-break-mode none \
  --optimizer fused_adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-6 --weight-decay 0.01 --clip-norm 1.0 \
  --lr-scheduler polynomial_decay --total-num-update '{max_update}' --warmup-updates 10000 --lr 1e-4 \
  --criterion '{criterion}' \
  -- "$@"
