"""What fairseq's tests import as ``tests.utils``, which its source package lacks, with the architecture replaced.

:mod:`tests.host_suite` copies this file beside them. The environment variable ``FAMILY`` names a family of
architectures of this plugin; without it, models are fairseq's own.
"""

import contextlib
import io
import os
import random
import sys
from pathlib import Path

from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.models import ARCH_CONFIG_REGISTRY, transformer
from fairseq_cli import generate, interactive, preprocess, train, validate

from fairseq_rope import RoFormerModel

FAMILY = os.environ.get("FAMILY")
FLAGS = ["--max-tokens", "500", "--num-workers", "0", "--no-progress-bar"]
LANGUAGES = ("in", "out")
PAIR = ["--source-lang", "in", "--target-lang", "out"]
REPLACED = {
    "fconv_iwslt_de_en": f"{FAMILY}_tiny" if FAMILY else "transformer_tiny",
    **({name: f"{FAMILY}_iwslt_de_en" for name in ("transformer_iwslt_de_en", "transformer_align")} if FAMILY else {}),
    **({"transformer": f"{FAMILY}_tiny"} if FAMILY else {}),  # which has heads of an even width at 8 channels
}
"""The architectures that fairseq's tests name, to those that are trained."""


class Replacement(RoFormerModel):
    """In the place of fairseq's ``TransformerModel``."""

    @classmethod
    def build_model(cls, args, task):
        ARCH_CONFIG_REGISTRY[f"{FAMILY}_base"](args)
        return RoFormerModel.build_model(args, task)


if FAMILY:
    transformer.TransformerModel = Replacement

# of other models: tests that call these are not among those that are run
create_laser_data_and_config_json = preprocess_lm_data = preprocess_summarization_data = train_language_model = None


def dummy_dictionary(vocab_size):
    words = Dictionary()
    for i in range(vocab_size):
        words.add_symbol(f"word{i}")
    return words


def create_dummy_data(data_dir, num_examples=200, maxlen=20, alignment=False):
    """Random letters as ``train``, ``valid`` and ``test`` in two languages, perhaps with alignments of the diagonal."""
    chosen = random.Random(1)
    for split, count in (("train", num_examples), ("valid", 60), ("test", 60)):
        texts = [[chosen.choices("abcdefghijkl", k=chosen.randint(1, maxlen)) for _ in range(count)] for _ in LANGUAGES]
        for lang, text in zip(LANGUAGES, texts):
            Path(data_dir, f"{split}.{lang}").write_text("".join(f"{' '.join(words)}\n" for words in text))
        if alignment:
            links = (" ".join(f"{i}-{i}" for i in range(min(map(len, pair)))) for pair in zip(*texts))
            Path(data_dir, f"{split}.align").write_text("".join(f"{line}\n" for line in links))


def preprocess_translation_data(data_dir, extra_flags=None):
    prefixes = [word for split in ("train", "valid", "test") for word in (f"--{split}pref", f"{data_dir}/{split}")]
    words = [*PAIR, *prefixes, "--thresholdtgt", "0", "--destdir", data_dir, *(extra_flags or [])]
    preprocess.main(options.get_preprocessing_parser().parse_args(words))


def _call(main, parser, words):
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, words))
    distributed_utils.call_main(cfg, main)


def train_translation_model(
    data_dir,
    arch,
    extra_flags=None,
    task="translation",
    run_validation=False,
    lang_flags=None,
    extra_valid_flags=None,
):
    lang_flags = PAIR if lang_flags is None else lang_flags
    words = ["--task", task, data_dir, "--save-dir", data_dir, "--arch", REPLACED.get(arch, arch), *lang_flags, *FLAGS]
    words += ["--optimizer", "nag", "--lr", "0.05", "--max-epoch", "1", *(extra_flags or [])]
    _call(train.main, options.get_training_parser(), words)
    if run_validation:
        path = os.path.join(data_dir, "checkpoint_last.pt")
        words = ["--task", task, data_dir, "--path", path, "--valid-subset", "valid", *lang_flags, *FLAGS]
        _call(validate.main, options.get_validation_parser(), [*words, *(extra_valid_flags or [])])


def generate_main(data_dir, extra_flags=None):
    """fairseq-generate; without flags it prints alignments, and fairseq-interactive translates two lines as well."""
    path = os.path.join(data_dir, "checkpoint_last.pt")
    words = [data_dir, "--path", path, "--beam", "3", "--max-len-b", "5", "--gen-subset", "valid", "--no-progress-bar"]
    flags = ["--print-alignment"] if extra_flags is None else extra_flags
    _call(generate.main, options.get_generation_parser(), ["--batch-size", "64", *words, *flags])
    if extra_flags is None:
        with contextlib.ExitStack() as stack:
            stack.callback(setattr, sys, "stdin", sys.stdin)
            sys.stdin = io.StringIO("a b c d\ne f\n")
            _call(interactive.main, options.get_generation_parser(interactive=True), ["--input", "-", *words, *flags])
