"""Starts a command: ``scripts/run.py pipeline training.train [options]`` calls ``main`` of that module."""

import sys
from importlib import import_module

from .command import run

if __name__ == "__main__":
    run(import_module(f"pipeline.{sys.argv.pop(1)}").main)
