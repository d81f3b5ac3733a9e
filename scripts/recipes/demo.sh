# shellcheck shell=bash disable=SC2034
# The embedded corpus of data/demo: minutes on two cores.
TRAIN=train VALID=valid TESTS=(test test_long)
PREPARE_FLAGS=(--merges 600 --ratio 3)
TRAIN_FLAGS=(--lr 0.004 --warmup-updates 400 --dropout 0.1 --max-tokens 2048)
MAX_UPDATE=1000 SAVE_EVERY=50
DEFAULT_ARCHS=(roformer_tiny)
