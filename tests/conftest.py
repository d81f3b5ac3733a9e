"""For all tests: one thread, since the models are too small to gain from more and other work then disturbs less."""

import os

import torch

torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the commands that tests start
