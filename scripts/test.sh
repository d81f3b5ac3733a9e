#!/usr/bin/env bash
# Installs the project and runs all of its checks: ruff, mypy, pytest, and import-linter, shellcheck and mkdocs if
# they are installed; pytest runs on all cores. This takes 4 to 10 minutes on two cores, 5 more the first time.
#
# Usage: scripts/test.sh [pytest options]
#
# Example: scripts/test.sh -m "not slow" -k rope
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

[[ ${1:-} != --help && ${1:-} != -h ]] || show_help
"$ROOT/scripts/install.sh"
use_environment
cd "$ROOT"
say "ruff, mypy, import-linter, shellcheck"
ruff check .
ruff format --check .
mypy
if command -v lint-imports >/dev/null 2>&1; then
  lint-imports
else
  say "import-linter is not installed, it needs Python 3.11: imports are not checked"
fi
if command -v shellcheck >/dev/null 2>&1; then
  shellcheck -x scripts/*.sh tests/*.sh .ci/run
else
  say "shellcheck is not installed: the scripts are not checked (apt-get install shellcheck)"
fi
if command -v mkdocs >/dev/null 2>&1; then
  say "mkdocs build --strict"
  site=$(mktemp -d)
  mkdocs build --strict --quiet --site-dir "$site"
  rm -r "$site"
else
  say "mkdocs is not installed: the manual is not built (EXTRAS=docs scripts/install.sh)"
fi
say "pytest"
exec python -m pytest -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder "$@"
