#!/usr/bin/env bash
# Makes a virtual environment with the project and everything it needs, at the tested versions (constraints.txt).
#
# Usage: scripts/install.sh
# Environment: VENV    folder of the environment (default: .venv in the project)
#              PYTHON  interpreter to make it from, 3.9 or later (default: python3)
# The first time it compiles fairseq (about 3 minutes); done before with the same versions, it is skipped.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
PYTHON=${PYTHON:-python3}
command -v "$PYTHON" >/dev/null 2>&1 || die "$PYTHON not found: install Python 3.9 or later, or set PYTHON"
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
[[ $("$PYTHON" -c 'import sys; print(sys.version_info >= (3, 9))') == True ]] || die "Python $version is too old: 3.9 or later is needed"

install() {
  # one without pip is what a failed attempt leaves behind
  "$VENV/bin/python" -m pip --version >/dev/null 2>&1 || "$PYTHON" -m venv "$VENV" || die "cannot make a virtual environment: install python3-venv"
  say "installing into $VENV: 5 minutes or less the first time (log: $VENV/install.log)"
  export PIP_CONSTRAINT=$ROOT/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
  {
    # the metadata of omegaconf 2.0.x, which the official fairseq wants, is refused by later versions of pip
    if [[ $version == 3.9 || $version == 3.10 ]]; then "$VENV/bin/python" -m pip install 'pip<24.1'; fi &&
      "$VENV/bin/python" -m pip install -e "${ROOT}[test,plot,export]"
  } >"$VENV/install.log" 2>&1 || log_failure "$VENV/install.log" pip
}
mkdir -p "$VENV"
setting "python $version project $ROOT $(cat "$ROOT/setup.py" "$ROOT/constraints.txt" | sha256sum)"
step "$VENV" install bin/fairseq-train install
