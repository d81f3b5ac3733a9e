#!/usr/bin/env bash
# Makes a virtual environment with the project and everything it needs, at the tested versions (constraints.txt).
#
# Usage: scripts/install.sh
# Environment: VENV    folder of the environment (default: .venv in the project)
#              PYTHON  interpreter to make it from, 3.9 or later (default: python3)
#              EXTRAS  further extras of setup.py, as in EXTRAS=docs,sweep (default: none)
#              WHEELS  folder of wheels, for a machine without network: they are all that is installed, beside the
#                      packages that PYTHON has, such as torch (docs/speed.md)
# The first time it compiles fairseq (about 3 minutes). If the same versions are installed already, it does nothing.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

case ${1:-} in
  '') ;;
  --help | -h) show_help ;;
  *) printf '%s: error: unknown option %q (see %s --help)\n' "$SCRIPT" "$1" "$SCRIPT" >&2; exit 2 ;;
esac
PYTHON=${PYTHON:-python3} EXTRAS=${EXTRAS:-} WHEELS=${WHEELS:-}
wheels=()
if [[ -n $WHEELS ]]; then
  wheels=("$WHEELS"/*.whl)
  [[ -e ${wheels[0]} ]] || die "WHEELS=$WHEELS: no wheels in this folder"
  [[ -z $EXTRAS ]] || die "EXTRAS and WHEELS exclude each other: put the wheels of the extras into the folder"
fi
[[ $EXTRAS =~ ^([a-z-]+(,[a-z-]+)*)?$ ]] || die "EXTRAS='$EXTRAS': name extras with commas, as in EXTRAS=docs,sweep"
command -v "$PYTHON" >/dev/null 2>&1 || die "$PYTHON not found: install Python 3.9 or later, or set PYTHON"
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || die "Python $version is too old: 3.9 or later is needed"

# shows that a command lives; its output goes to the log
watch() { "$PYTHON" "$RUN" pipeline.alive "$VENV/install.log" "$@"; }
install() {
  if [[ -n $WHEELS ]]; then
    watch "$PYTHON" -I -m venv --system-site-packages "$VENV" || return
    # where $PYTHON is itself of an environment, the new one would see the packages behind that one alone
    "$PYTHON" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$VENV/lib/python$version/site-packages/parent.pth" || return
    watch "$VENV/bin/python" -I -m pip install --no-index --no-deps "${wheels[@]}" || return
    watch "$VENV/bin/python" -I -c 'import torch, fairseq'
    return
  fi
  # a failed attempt leaves an environment without pip behind
  "$VENV/bin/python" -I -m pip --version >/dev/null 2>&1 || watch "$PYTHON" -I -m venv "$VENV" || return
  # later versions of pip refuse the metadata of omegaconf 2.0.x, which the official fairseq needs
  case $version in 3.9 | 3.10) watch "$VENV/bin/python" -I -m pip install 'pip<24.1' || return ;; esac
  watch "$VENV/bin/python" -I -m pip install -e "${ROOT}[scripts,test,plot,export${EXTRAS:+,$EXTRAS}]"
}
stamp=$VENV/installed
settings="python $version project $ROOT extras ${EXTRAS:-none} wheels ${wheels[*]:-none} $(cat "$ROOT/setup.py" "$ROOT/constraints.txt" | sha256sum)"
if [[ -x $VENV/bin/fairseq-train && -f $stamp && $(<"$stamp") == "$settings" ]]; then
  say "installed before: $VENV"
  exit
fi
mkdir -p "$VENV"
rm -f "$stamp" "$VENV/install.log"
say "installing into $VENV: 5 minutes or less the first time (log: $VENV/install.log)"
PIP_CONSTRAINT=$ROOT/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 install ||
  die "the installation failed; the last lines of $VENV/install.log say why"
if [[ -n $EXTRAS ]]; then  # pip only warns of a name that it does not know
  known=$("$VENV/bin/python" -I -c 'from importlib.metadata import metadata; print(*metadata("fairseq_rope").get_all("Provides-Extra"))')
  for extra in ${EXTRAS//,/ }; do
    [[ " $known " == *" $extra "* ]] || die "EXTRAS has no '$extra'; there are: $known"
  done
fi
printf '%s' "$settings" >"$stamp"
