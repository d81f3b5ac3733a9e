"""Commands of fairseq and of the scripts as functions, each in a process of its own, but without its start.

Importing fairseq takes longer than most of what tests ask of it. A server process, one for each process of pytest,
imports it once; every command is a fork of the server.
"""

import importlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from contextlib import suppress
from pathlib import Path

from pipeline import command

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        *("tests.processes", "fairseq_rope", "fairseq_cli.train", "fairseq_cli.generate"),
        *("pipeline.corpus.prepare", "pipeline.corpus.binarize", "pipeline.training.train", "pipeline.scoring.score"),
    ]
)


def call(function, argv, cwd, environ, stdin=None):
    """What ``subprocess.run`` would return of a command whose entry point is ``function``, as ``module:name``."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("in", "out", "err")]
        files[0].write_text(stdin or "", encoding="utf-8")
        words = [str(word) for word in argv]
        process = SERVER.Process(target=_call, args=(function, words, str(cwd), environ, files))
        process.start()
        process.join()
        out, err = (file.read_text(encoding="utf-8", errors="replace") for file in files[1:])
    return subprocess.CompletedProcess(words, process.exitcode, out, err)


def _call(function, argv, cwd, environ, files):
    """Runs in the fork."""
    for number, file in enumerate(files):
        handle = os.open(file, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(handle, number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    sys.argv = argv
    if environ.get("PYTHONWARNINGS") == "ignore":
        warnings.simplefilter("ignore")
    module, name = function.split(":")
    status = 1
    try:
        main = getattr(importlib.import_module(module), name)
        if module.startswith("pipeline."):
            command.run(main)
        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)
