# shellcheck shell=bash disable=SC2034
# The setting of Shaw et al. 2018 for base, which 26.5 and 26.8 in the RoFormer paper come from: as wmt14_en_de, but
# feed-forward layers of 1,024 and the last checkpoint alone.
# shellcheck source=scripts/recipes/wmt14_en_de.sh
source "$ROOT/scripts/recipes/wmt14_en_de.sh"
SAME_DATA_AS=wmt14_en_de
TRAIN_FLAGS+=(--encoder-ffn-embed-dim 1024 --decoder-ffn-embed-dim 1024)
AVERAGE_LAST=1
DEFAULT_ARCHS=(transformer_sinusoidal_base transformer_shaw_base)
