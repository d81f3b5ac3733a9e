"""The folders of the project."""

from pathlib import Path

SCRIPTS = Path(__file__).parents[1]
ROOT = SCRIPTS.parent
USER_DIR = ROOT / "fairseq_rope"

RUN = SCRIPTS / "run.py"
"""Runs a module as ``python -m`` does, but imports nothing from the current folder."""
