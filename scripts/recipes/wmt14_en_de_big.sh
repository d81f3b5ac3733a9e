# shellcheck shell=bash disable=SC2034
# As wmt14_en_de with the schedule of Vaswani et al. 2017 for big: 300,000 updates, average of the last 20 checkpoints,
# 600 updates (10 minutes on their 8 GPUs) apart.
# shellcheck source=scripts/recipes/wmt14_en_de.sh
source "$ROOT/scripts/recipes/wmt14_en_de.sh"
SAME_DATA_AS=wmt14_en_de
MAX_UPDATE=300000 SAVE_EVERY=600 AVERAGE_LAST=20
DEFAULT_ARCHS=(transformer_sinusoidal_big roformer_big)
