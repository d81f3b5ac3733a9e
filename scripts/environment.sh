# shellcheck shell=bash
# What every script begins with: the project's folder, its virtual environment, and where Python finds its modules.
# Environment: VENV    folder of the virtual environment (default: .venv in the project); used when it exists
# in place of a closed stream (`ssh HOST '... >&- 2>&-'`), a process would write to the next file that it opens
[[ -e /dev/fd/0 ]] || exec < /dev/null
[[ -e /dev/fd/1 ]] || exec > /dev/null
[[ -e /dev/fd/2 ]] || exec 2> /dev/null
unset CDPATH  # with it, cd may go elsewhere, and prints where
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SCRIPT=$(basename "$0")
VENV=${VENV:-$ROOT/.venv}
[[ $VENV == /* ]] || VENV=$PWD/$VENV
RUN=$ROOT/scripts/run.py
export ROOT RUN SCRIPT VENV
export PYTHONUNBUFFERED=1 PYTHONUTF8=1 PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}
# threads that wait for each other spin, which makes a training three times slower beside another busy process; so they
# spin shortly and sleep (the threads of GNU's OpenMP, which PyTorch has on Linux)
[[ -n ${OMP_WAIT_POLICY:-} ]] || export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000}
# Python must not import modules from the current folder: run.py prevents it here, PYTHONSAFEPATH (Python 3.11 and later)
# in other processes; an empty entry of PYTHONPATH would be that folder
entries=:${PYTHONPATH:-}:
while [[ $entries == *::* ]]; do entries=${entries//::/:}; done
export PYTHONPATH=$ROOT:$ROOT/scripts${entries%:} PYTHONSAFEPATH=1

say() { printf '[%s] %s\n' "${SCRIPT%.sh}" "$*" >&2; }
die() { printf '%s: error: %s\n' "$SCRIPT" "$*" >&2; exit 1; }

# On a CPU fresh memory costs more than arithmetic: a process keeps the memory that it frees, for its next allocations.
keep_memory() {
  [[ -n ${MALLOC_MMAP_MAX_:-} ]] || export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=68719476736
}

# The comment at the head of the calling script is its help.
show_help() { sed -n '2,/^[^#]/{/^#/{s/^# \{0,1\}//;p;};}' "$0"; exit 0; }

# The tools of the environment; an installed one comes first.
use_environment() {
  [[ ! -x $VENV/bin/python ]] || export PATH=$VENV/bin:$PATH
  local tool
  for tool in python fairseq-train; do
    command -v "$tool" >/dev/null 2>&1 || die "$tool not found: run scripts/install.sh, or activate an environment with the project installed"
  done
}

# Becomes a command of the pipeline; the docstring of its module is its help.
run_pipeline() { use_environment; exec python "$RUN" pipeline "$@"; }
