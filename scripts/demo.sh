#!/usr/bin/env bash
# Installs the project, then runs the recipe `demo` on the corpus in data/demo: it trains, averages and scores a RoFormer.
# This takes 3 to 10 minutes on two cores, up to 5 of them for the installation, and seconds if it was done before.
#
# Usage: scripts/demo.sh [options of scripts/reproduce.sh]
#
# Example: scripts/demo.sh --archs "roformer_tiny transformer_none_tiny"
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

[[ ${1:-} != --help && ${1:-} != -h ]] || show_help
say "step 1 of 2: installation, up to 5 minutes the first time"
"$ROOT/scripts/install.sh"
say "step 2 of 2: prepare, train, average and score, about 5 minutes for each architecture"
exec "$ROOT/scripts/reproduce.sh" demo "$@"
