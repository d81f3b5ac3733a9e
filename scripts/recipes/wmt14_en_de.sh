# shellcheck shell=bash disable=SC2034
# WMT14 English-German, as in table 1 of the RoFormer paper: 37,000 joint merges, 25,000 target tokens per update, 100,000
# updates, average of the last five checkpoints, which are 1,500 updates apart (10 minutes on the 8 GPUs of Vaswani et al.
# 2017). The dropout is that of the architecture: 0.1 for base, 0.3 for big.
DOWNLOAD=yes
TRAIN=train VALID=newstest2013 TESTS=(newstest2014)
PREPARE_FLAGS=(--merges 37000) JOIN_TEST=(2 4)
TRAIN_FLAGS=(--warmup-updates 4000)
TARGET_TOKENS=25000 BF16=yes
MAX_UPDATE=100000 SAVE_EVERY=1500 AVERAGE_LAST=5
DEFAULT_ARCHS=(transformer_sinusoidal_base roformer_base)
