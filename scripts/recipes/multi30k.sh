# shellcheck shell=bash disable=SC2034
# Multi30k, task 1 (29,000 captions): the text-only hyper-parameters of Wu et al. 2021 for a 4-layer, 128-wide model;
# their 2 x 4,096 tokens of an update are one batch here.
TRAIN=train VALID=val TESTS=(test_2016_flickr)
PREPARE_FLAGS=(--merges 8000) JOIN_TEST=(2 4)
TRAIN_FLAGS=(--lr 0.005 --warmup-updates 2000 --dropout 0.3 --max-tokens 8192)
MAX_UPDATE=8000 SAVE_EVERY=400
DEFAULT_ARCHS=(roformer_multi30k)
