"""Starts a command: ``scripts/run.py pipeline training.train [options]`` calls ``main`` of that module."""

import sys
from importlib import import_module

from .command import run

if __name__ == "__main__":
    name = sys.argv.pop(1)
    run(lambda argv: import_module(f"pipeline.{name}").main(argv))
