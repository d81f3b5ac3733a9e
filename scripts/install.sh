#!/usr/bin/env bash
# Makes a virtual environment with the project and everything it needs, at the tested versions (constraints.txt).
#
# Usage: scripts/install.sh
# Environment: VENV    folder of the environment (default: .venv in the project)
#              PYTHON  interpreter to make it from, 3.10 or later (default: that of the environment; of a new one
#                      python3.12 if there is one, as fairseq has a wheel for it; else python3, which compiles for 3 minutes)
#              EXTRAS  further extras of setup.py, as in EXTRAS=docs,sweep (default: those of before)
# pip's own variables hold, such as PIP_NO_INDEX and PIP_FIND_LINKS. What is installed already is not installed again.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

[[ ${1:-} != --help && ${1:-} != -h ]] || show_help
(($# == 0)) || { printf '%s: error: unknown option %q (see %s --help)\n' "$SCRIPT" "$1" "$SCRIPT" >&2; exit 2; }
if [[ -n ${PYTHON:-} ]] || ! "$VENV/bin/python" -Ic 'import pip' 2>/dev/null; then  # a killed call leaves half of one
  for python in ${PYTHON:-python3.12 python3}; do  # pyenv's python3.12 may be a stub, Debian's may lack ensurepip
    ! "$python" -Ic 'import sys, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || break
  done
  "$python" -I -m venv "$VENV" || die "$python makes no environment: install Python 3.10 or later with venv, or set PYTHON"
fi
"$VENV/bin/python" -Ic 'import sys; sys.exit(sys.version_info < (3, 10))' || die "$VENV has a Python before 3.10: remove it, and set PYTHON to a later one"
wanted="$("$VENV/bin/python" -V) $(cat "$ROOT/setup.py" "$ROOT/constraints.txt" | cksum)"
{ IFS= read -r before; IFS= read -r extras; IFS= read -r owner; } 2>/dev/null <"$VENV/installed" || true
if [[ ${before:-} == "$wanted" && ${EXTRAS:-$extras} == "$extras" && -d ${owner:-} ]]; then
  [[ $owner == "$ROOT" ]] || say "its command fairseq-rope is that of $owner"
  say "installed before: $VENV"
  exit
fi
EXTRAS=${EXTRAS:-${extras:-}}
say "installing into $VENV: 5 minutes or less the first time"
export PIP_CONSTRAINT=$ROOT/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
pip() { "$VENV/bin/python" -I -m pip install "$@" >&2 || die "the installation failed: the lines above say why"; }
# the official fairseq needs omegaconf 2.0.x, whose metadata later versions of pip refuse
"$VENV/bin/python" -Ic 'import sys; sys.exit(sys.version_info < (3, 11))' || pip 'pip<24.1'
pip -e "${ROOT}[scripts,test,plot,export${EXTRAS:+,$EXTRAS}]"
printf '%s\n' "$wanted" "${EXTRAS:-}" "$ROOT" >"$VENV/installed"
