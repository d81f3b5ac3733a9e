#!/usr/bin/env bash
# Makes the report about all runs that there are, from their result files: at a glance what is best and what it costs,
# which of the papers' claims hold here, variants; then scores with deviation over seeds and signatures, significance,
# longer sentences, costs, learning curves, what positions contribute, runs that did not finish, commands, the papers'
# figures beside them, and what scripts/benchmark.sh measured.
#
# Usage: scripts/report.sh --results FOLDER --out FOLDER [options]
#   --results FOLDER   result files (fairseq_rope/tools/results.py makes one for each run) and those of benchmark.sh;
#                      again for further folders
#   --out FOLDER       gets report.html, one file with everything, and report.md with its pictures
#   --recipe NAME      only this one
#   --about NAME       the recipe that --archs and --seeds are about (default: all)
#   --archs "A B"      architectures to have a row, also if they were not run
#   --seeds "1 2"      seeds to expect of each system
#   --baseline ARCH    what to compare with (default: sinusoidal positions, if there are results of it)
#
# Example: scripts/report.sh --results results --out /tmp/report --recipe demo
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

results=() out='' options=()
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --results) need_value "$1" $#; results+=("$2"); shift 2 ;;
    --out) need_value "$1" $#; out=$2; shift 2 ;;
    --recipe | --about | --archs | --baseline) need_value "$1" $#; options+=("$1" "$2"); shift 2 ;;
    --seeds)
      need_value "$1" $#
      [[ $2 =~ ^[0-9]+(\ +[0-9]+)*$ ]] || usage_error "--seeds must be whole numbers, not '$2'"
      options+=("$1" "$2"); shift 2 ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
[[ ${#results[@]} -gt 0 && $out ]] || usage_error "--results and --out are needed"
use_environment python
for folder in "${results[@]}"; do [[ -e $folder ]] || die "$folder not found: give the folder with the result files as --results"; done
exec python "$TOOLS/report.py" "${results[@]}" --out "$out" ${options[@]+"${options[@]}"}
