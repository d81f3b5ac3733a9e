#!/usr/bin/env bash
# Trains one architecture on prepared data, or continues: prints the command of fairseq-train that the recipe makes, and
# runs it. The table [train] of scripts/recipes/NAME.toml has its flags; those behind `--` on the command line win.
# scripts/train.sh --help lists the options.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
use_environment
keep_memory

exec python "$RUN" pipeline training.train "$@"
