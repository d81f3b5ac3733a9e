# shellcheck shell=bash disable=SC2034
# Multi30k for two cores: an eighth of the tokens of recipe multi30k (2,000 updates of half the size), and therefore a
# shorter warm-up; otherwise the same.
# shellcheck source=scripts/recipes/multi30k.sh
source "$ROOT/scripts/recipes/multi30k.sh"
SAME_DATA_AS=multi30k
TRAIN_FLAGS=(--lr 0.005 --warmup-updates 1000 --dropout 0.3 --max-tokens 4096)
MAX_UPDATE=2000 SAVE_EVERY=100
