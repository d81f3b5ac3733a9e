"""The memory of a training's processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FORKS = """
import os
from pipeline.training import worker

worker._free_before_forks()
freed = [bytearray(b"x") * 10_000_000 for _ in range(30)]
del freed
if os.fork() == 0:
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")), flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of memory")
def test_a_process_that_loads_data_holds_no_memory_that_the_training_has_freed():
    kept = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36)}  # as environment.sh's keep_memory
    run = subprocess.run([sys.executable, "-c", FORKS], env={**os.environ, **kept}, stdout=subprocess.PIPE, check=True)
    assert int(run.stdout) < 100_000  # kilobytes; 300 MB were freed
