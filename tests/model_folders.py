"""Model folders for the tests of commands that read one."""

import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf


def run_folder(folder, arch, *changes):
    """A model folder as scripts/average.sh makes it, with an untrained model."""
    folder.mkdir()
    dictionary = Dictionary()
    for i in range(20):
        dictionary.add_symbol(f"w{i}", n=i + 1)
    for lang in ("en", "de"):
        dictionary.save(str(folder / f"dict.{lang}.txt"))
    small = ["--encoder-embed-dim", "32", "--decoder-embed-dim", "32", "--share-all-embeddings", *changes]
    command = [str(folder), "--arch", arch, "--source-lang", "en", "--target-lang", "de", *small]
    args = options.parse_args_and_arch(options.get_training_parser(), command)
    cfg = convert_namespace_to_omegaconf(args)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    history = {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 1}
    state = {"cfg": OmegaConf.to_container(cfg), "model": model.state_dict(), "optimizer_history": [history]}
    torch.save({**state, "extra_state": {"train_iterator": {"epoch": 1}}}, folder / "checkpoint.pt")
    return folder
