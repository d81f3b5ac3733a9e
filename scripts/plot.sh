#!/usr/bin/env bash
# Draws what positions contribute, as a PNG file. Needs matplotlib, which scripts/install.sh installs.
#
# Usage: scripts/plot.sh decay --out FILE.png [options]      RoPE's long-term decay (RoFormer, Fig. 2)
#        scripts/plot.sh tupe RUN --out FILE.png [options]   correlations of positions that TUPE learned (TUPE, Fig. 5)
#        scripts/plot.sh bias RUN --out FILE.png [options]   any encoding's effective position bias, measured on
#                                                            random words, for each layer and head
#   RUN                  model folder: output of scripts/train.sh and scripts/average.sh
#   decay:
#   --rope-dim "N N"     channels of a head (default: 128), one line each
#   --rope-base "X X"    bases of the frequencies (default: 10000), one line each
#   --max-distance N     (default: 250)
#   tupe and bias:
#   --side SIDE          encoder or decoder (default: encoder)
#   --length N           positions (default: 64 for tupe, 32 for bias)
#   bias:
#   --sentences N        random sentences to average over (default: 256)
#   --seed N             of these sentences (default: 1)
#   --by-distance        the mean by distance j - i, in place of heat maps
#
# Environment: VENV  folder of the virtual environment (default: .venv in the project)
# Example: scripts/plot.sh bias runs/demo/roformer_tiny/seed1 --side decoder --out bias.png
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

kind='' run='' out='' arguments=() number='[0-9]+(\.[0-9]+)?(e[0-9]+)?'
while (($#)); do
  case $kind:$1 in
    *:--help | *:-h) show_help ;;
    *:--out) need_value "$1" $#; out=$2; shift 2 ;;
    decay:--rope-dim | decay:--rope-base)
      need_value "$1" $#
      read -ra values <<<"$2"
      [[ ${values[*]} =~ ^$number(\ $number)*$ ]] || usage_error "$1 must be one or more numbers, not '$2'"
      [[ $1 != --rope-dim ]] || for value in "${values[@]}"; do need_number "$1" "$value"; done
      arguments+=("$1" "${values[@]}"); shift 2 ;;
    decay:--max-distance | tupe:--length | bias:--length | bias:--sentences | bias:--seed)
      need_value "$1" $#; need_number "$1" "$2"; arguments+=("$1" "$2"); shift 2 ;;
    tupe:--side | bias:--side)
      need_value "$1" $#
      [[ $2 == encoder || $2 == decoder ]] || usage_error "$1 must be encoder or decoder, not '$2'"
      arguments+=("$1" "$2"); shift 2 ;;
    bias:--by-distance) arguments+=("$1"); shift ;;
    *:-*) usage_error "unknown option '$1'${kind:+ for $kind}" ;;
    :decay | :tupe | :bias) kind=$1; shift ;;
    :*) usage_error "no picture '$1': decay, tupe or bias" ;;
    decay:*) usage_error "decay takes no model folder, but '$1' is given" ;;
    *) [[ ! $run ]] || usage_error "one model folder, please, not also '$1'"; run=$1; shift ;;
  esac
done
[[ $kind ]] || usage_error "decay, tupe or bias is needed"
[[ $out == *.png ]] || usage_error "--out FILE.png is needed"
[[ $kind == decay || $run ]] || usage_error "the model folder is needed"
use_environment python
exec python -m fairseq_rope.tools.pictures "$kind" ${run:+"$run"} ${arguments[@]+"${arguments[@]}"} --out "$out"
