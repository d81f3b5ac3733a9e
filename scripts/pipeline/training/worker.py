"""One process of a training, as torchrun starts it: ``fairseq-train`` that ends with its launcher.

torchrun starts its workers again when one crashes. This helps only if there is a new checkpoint. Without one, a worker
gives up at once, so an error that comes back does not repeat.
"""

import ctypes
import functools
import math
import os
import sys
from pathlib import Path
from typing import Any, Dict, Optional

from ..files import copy
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..processes import end_with_parent
from .checkpoints import LAST, by_updates, newest_updates

STARTED_FROM = ".started_from"
"""A file in the run with the updates of its newest checkpoint when training began."""

PATIENCE = "patience"
"""The entry of a checkpoint's ``extra_state`` with what ``--patience`` counts."""

GOING_ON = "fairseq-train ended before its time"


def main() -> None:
    end_with_parent()
    folder = Path(sys.argv[sys.argv.index("--save-dir") + 1])
    if int(os.environ.get("RANK", 0)) == 0:
        held = locked(folder, AS_LONG_AS_IT_TAKES)  # until this process ends: who outlives its launcher writes last
        held.__enter__()
        _check_progress(folder, restarts=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)))
    from fairseq_cli.train import cli_main  # the first import of fairseq sets up the log

    _name_by_updates()
    _keep_patience()
    _fail_without_memory()
    _free_before_forks()
    sys.argv[0] = "fairseq-train"
    cli_main()


def _check_progress(folder: Path, restarts: int) -> None:
    """Ends the process if it is a restart without a new checkpoint since the previous start."""
    note, updates = folder.parent / STARTED_FROM, newest_updates(folder)
    if restarts:
        if updates <= int(note.read_text()):
            print("crashed again without a new checkpoint: it is not started once more", file=sys.stderr)
            sys.exit(1)
        print(f"{GOING_ON}: going on from update {updates}", file=sys.stderr, flush=True)
    note.write_text(str(updates))


def _name_by_updates() -> None:
    """Lets fairseq name a checkpoint by its updates at the end of an epoch, too, and keep as many as asked for.

    fairseq would only write ``checkpoint_last.pt`` there. If epochs are short, too few would be left to average.
    """
    from fairseq import checkpoint_utils

    stock = checkpoint_utils.save_checkpoint

    @functools.wraps(stock)
    def save_checkpoint(cfg: Any, trainer: Any, epoch_itr: Any, val_loss: Optional[float]) -> Any:
        saved = stock(cfg, trainer, epoch_itr, val_loss)
        saves = trainer.should_save_checkpoint_on_current_rank  # the official fairseq returns nothing
        updates, folder = trainer.get_num_updates(), Path(cfg.save_dir)
        if saves and epoch_itr.end_of_epoch() and updates % cfg.save_interval_updates == 0:
            copy(folder / LAST, folder / f"checkpoint_{epoch_itr.epoch}_{updates}.pt")
            for _, old in by_updates(folder)[cfg.keep_interval_updates :]:
                old.unlink()
        return saved

    checkpoint_utils.save_checkpoint = save_checkpoint


def _keep_patience() -> None:
    """Lets checkpoints carry the best loss and the count of ``--patience``; a training that it ended does not go on.

    fairseq keeps them as attributes of a function alone, so a continued training would begin both anew. The validation
    at the last update does not count in a longer training, which validates there only if it saves.
    """
    from fairseq.trainer import Trainer
    from fairseq_cli.train import should_stop_early

    save, load = Trainer.save_checkpoint, Trainer.load_checkpoint
    kept: Dict[str, Any] = {}

    @functools.wraps(save)
    def save_checkpoint(self: Any, filename: str, extra_state: Dict[str, Any]) -> Any:
        if self.get_num_updates() % self.cfg.checkpoint.save_interval_updates == 0:
            kept.update(vars(should_stop_early))
        return save(self, filename, {**extra_state, PATIENCE: dict(kept)})

    @functools.wraps(load)
    def load_checkpoint(self: Any, filename: str, *args: Any, reset_meters: bool = False, **options: Any) -> Any:
        extra_state = load(self, filename, *args, reset_meters=reset_meters, **options)
        if extra_state and not reset_meters:  # which --finetune-from-model does: that training is another one
            kept.update(extra_state.get(PATIENCE, {}))
            vars(should_stop_early).update(kept)
            if 0 < self.cfg.checkpoint.patience <= vars(should_stop_early).get("num_runs", 0):
                self.cfg.optimization.stop_min_lr = math.inf  # makes fairseq end before the first update
        return extra_state

    Trainer.save_checkpoint, Trainer.load_checkpoint = save_checkpoint, load_checkpoint


def _fail_without_memory() -> None:
    """Lets an update fail for which the memory is too small; fairseq would leave out its batch with a warning."""
    from fairseq.trainer import Trainer

    stock = Trainer.train_step

    @functools.wraps(stock)
    def train_step(self: Any, samples: Any, raise_oom: bool = True) -> Any:
        return stock(self, samples, raise_oom)  # which calls this method again when a loss is scaled anew

    Trainer.train_step = train_step


def _free_before_forks() -> None:
    """Gives memory that was kept for later back before each fork, where the C library can.

    A process that loads data is forked at every epoch and validation, and would hold its copy of all that was kept,
    which doubles the memory of a training on a CPU.
    """
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        os.register_at_fork(before=functools.partial(trim, 0))


if __name__ == "__main__":
    main()
