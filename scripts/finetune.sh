#!/usr/bin/env bash
# Fine-tunes a pretrained masked language model on a task, with each learning rate and seed of the recipe, and takes
# the median over seeds of the best learning rate. The command below trains; {placeholders} are options of
# scripts/finetune.sh --help. The flags of the recipe follow these words, then those behind `--` on the command line.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment

exec python "$RUN" pipeline.finetuning.finetune \
  fairseq-train '{data}' --user-dir '{user_dir}' --save-dir '{out}/checkpoints' --finetune-from-model '{checkpoint}' \
  --save-interval '{epochs}' --save-interval-updates 1000000 --no-epoch-checkpoints --no-save-optimizer-state \
  --disable-validation --log-format json --log-interval 10 \
  --arch '{arch}' --task '{task}' --seed '{seed}' --criterion '{task}' --num-classes '{classes}' \
  '{regression}' --init-token 0 --separator-token 2 --max-positions '{positions}' --required-batch-size-multiple 1 \
  --optimizer fused_adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-6 --weight-decay 0.01 --clip-norm 1.0 \
  --lr-scheduler polynomial_decay --lr '{lr}' --warmup-updates '{warmup}' --total-num-update '{updates}' \
  --batch-size '{batch}' --max-epoch '{epochs}' \
  -- "$@"
