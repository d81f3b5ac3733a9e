"""Model folders and binarised data for the tests of commands that read them."""

import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import data_file_path, index_file_path, make_builder
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf


def run_folder(folder, arch, *changes):
    """A model folder as scripts/average.sh makes it, with an untrained model."""
    small = ["--encoder-embed-dim", "32", "--decoder-embed-dim", "32", "--share-all-embeddings", *changes]
    return _made(folder, ["dict.en.txt", "dict.de.txt"], arch, "--source-lang", "en", "--target-lang", "de", *small)


def multilingual_run_folder(folder, arch, *changes):
    """A model folder of English, German and French with one dictionary, as fairseq's task of several languages has it;
    its model has large random weights, and an end that is likely now and then."""
    languages = ["--lang-pairs", "en-de,en-fr,de-en", "--langs", "en,de,fr", "--fixed-dictionary", folder / "dict.txt"]
    small = ["--encoder-embed-dim", "32", "--decoder-embed-dim", "32"]
    task = ["--task", "translation_multi_simple_epoch", *map(str, languages)]
    torch.manual_seed(1)
    _made(folder, ["dict.txt"], arch, *task, *small, *changes)
    state = torch.load(folder / "checkpoint.pt", weights_only=False)
    for name, value in state["model"].items():
        if name.endswith(("embed_tokens.weight", "output_projection.weight")) or "encoder_attn." in name:
            value.normal_(std=0.4)
    last = max(name for name in state["model"] if name.endswith("final_layer_norm.bias") and name.startswith("decoder"))
    state["model"][last].fill_(1)  # the features of each position sum to the width of the model,
    output = state["model"]["decoder.output_projection.weight"]
    output[Dictionary().pad()] = -10  # so <pad> has no probability, as in a trained model
    output[Dictionary().eos()] *= 2.5
    torch.save(state, folder / "checkpoint.pt")
    (folder / "prepare.json").write_text('{"subwords": "none"}')
    return folder


def language_run_folder(folder, arch):
    """A folder of an untrained language model, and the dictionary of its data."""
    task = "masked_lm" if "_mlm_" in arch else "language_modeling"
    return _made(folder, ["dict.txt"], arch, "--task", task, "--tokens-per-sample", "32")


def _made(folder, dictionaries, arch, *words):
    folder.mkdir()
    dictionary = Dictionary()
    for i in range(20):
        dictionary.add_symbol(f"w{i}", n=i + 1)
    for name in dictionaries:
        dictionary.save(str(folder / name))
    args = options.parse_args_and_arch(options.get_training_parser(), [str(folder), "--arch", arch, *words])
    cfg = convert_namespace_to_omegaconf(args)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    history = {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 1}
    state = {"cfg": OmegaConf.to_container(cfg), "model": model.state_dict(), "optimizer_history": [history]}
    torch.save({**state, "extra_state": {"train_iterator": {"epoch": 1}}}, folder / "checkpoint.pt")
    return folder


def binarise(prefix, rows, words):
    """``rows`` of tokens as ``fairseq-preprocess`` leaves them, in files that begin with ``prefix``."""
    builder = make_builder(data_file_path(str(prefix)), "mmap", vocab_size=len(words))
    for row in rows:
        builder.add_item(row.int())
    builder.finalize(index_file_path(str(prefix)))
