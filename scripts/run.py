"""Runs a module as ``python -m`` does, and imports nothing from the current folder.

::

    python scripts/run.py pipeline corpus.prepare --help

Python looks for modules in the folder of the file that it runs: this one. ``PYTHONSAFEPATH`` is of Python 3.11.
"""

import runpy
import signal
import sys

if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports ends the process in silence
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
