#!/usr/bin/env bash
# All checks of the project: installs it, then ruff, mypy, shellcheck (where installed) and pytest on all cores. About 20
# minutes on two cores, 5 more the first time.
#
# Usage: scripts/test.sh [pytest options]
#
# Example: scripts/test.sh -m "not slow" -k rope
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[[ ${1:-} != --help && ${1:-} != -h ]] || show_help
say "installation, up to 5 minutes the first time"
"$ROOT/scripts/install.sh"
use_environment ruff mypy pytest
cd "$ROOT"
say "ruff, mypy, shellcheck"
ruff check .
ruff format --check .
mypy
if command -v shellcheck >/dev/null 2>&1; then
  shellcheck -x scripts/*.sh scripts/recipes/*.sh .ci/run
else
  say "shellcheck is not installed: the scripts are not checked (apt-get install shellcheck)"
fi
say "pytest, about 20 minutes on two cores"
exec python -m pytest -n auto --maxprocesses 8 --dist worksteal "$@"
