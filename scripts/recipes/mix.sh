# shellcheck shell=bash disable=SC2034
# Low-resource English-German: some hundred thousand pairs of mixed text (train), newstest2013 and newstest2014. Sixteen
# thousand merges for 4 million words, sizes and dropout as for IWSLT. Its BLEU compares with nothing trained on WMT14.
TRAIN=train VALID=newstest2013 TESTS=(newstest2014)
PREPARE_FLAGS=(--merges 16000) JOIN_TEST=(2 4)
TRAIN_FLAGS=(--dropout 0.3 --warmup-updates 4000 --lr 7e-4 --weight-decay 1e-4)
MAX_UPDATE=20000 SAVE_EVERY=1000 TARGET_TOKENS=25000 BF16=yes
DEFAULT_ARCHS=(transformer_sinusoidal_iwslt_de_en roformer_iwslt_de_en)
