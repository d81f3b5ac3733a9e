"""Takes data that the user made with ``fairseq-preprocess`` into a folder that every later script works with.

The folder gets a copy of the files, so that they stay as a run saw them; the raw text of test sets, to score against;
the BPE codes or the model of SentencePiece, to translate with; and ``prepare.json``.
"""

import argparse
import re
import shutil
from pathlib import Path
from typing import Any, Dict, Tuple

from fairseq.data import Dictionary, data_utils

from fairseq_rope.checkpoints.files import CheckpointError
from fairseq_rope.checkpoints.model_folder import read_dictionary

from ..command import Failure, say
from ..files import copy, sha256, write_json
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..prepared import MODELS, NAME
from ..processing.kinds import KINDS
from ..provenance import versions
from ..steps import Steps
from .text import copy_sets

SUBSET = re.compile(r"(?:train|valid|test)[0-9]*")
REMEDY = "run fairseq-preprocess again"


class Binarized:
    """Data that the user binarised.

    Args:
        args: the result of :func:`.options.parse`.

    Raises:
        Failure: files are missing, damaged, or do not belong together.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.out, self.folder = args, args.out.resolve(), args.binarized
        self.langs: Tuple[str, str] = (args.source, args.target)
        self.files = self._find()
        self.sizes = self._check()
        if args.codes and not args.codes.is_file():
            raise Failure(f"{args.codes} not found: give the file that your text was split with")
        if args.codes:
            KINDS[args.subwords].read(args.codes, "give the file that your text was split with")

    def run(self) -> None:
        """Copies what is not there yet.

        Raises:
            Failure: the raw text is not that of the binarised sets.
        """
        prefixes = {f"test{number or ''}": prefix for number, prefix in enumerate(self.args.test)}
        prefixes.update({"valid": self.args.valid} if self.args.valid else {})
        for subset in prefixes:
            if subset not in self.sizes:
                raise Failure(f"{self.folder} has no set '{subset}'; there are: {' '.join(self.sizes)}")
        with locked(self.out, AS_LONG_AS_IT_TAKES):
            copy_sets(prefixes, self.out / "raw", self.langs, self.sizes)
            steps = Steps(self.out)
            for name, file in self.files.items():
                steps.setting(f"{name} {sha256(file)}")
            steps.step("binarize", [f"bin/{name}" for name in self.files], self._copy)
            write_json(self.out / NAME, self._info())
        sets = ", ".join(f"{subset} {size:,}" for subset, size in self.sizes.items())
        print(f"pairs: {sets}\nraw text to score against: {' '.join(prefixes) or 'none'}")
        say(f"prepared: {self.args.out}")

    def _find(self) -> Dict[str, Path]:
        """The names of the files in a prepared folder, to the user's: a pair may be named in the other direction."""
        if not self.folder.is_dir():
            raise Failure(f"{self.folder} not found: give the --destdir of fairseq-preprocess")
        files = {f"dict.{lang}.txt": self.folder / f"dict.{lang}.txt" for lang in self.langs}
        pair = "-".join(self.langs)
        for named in (pair, "-".join(reversed(self.langs))):
            ending = f".{named}.{self.langs[0]}.idx"
            subsets = [path.name[: -len(ending)] for path in sorted(self.folder.glob(f"*{ending}"))]
            for subset in filter(SUBSET.fullmatch, subsets):
                for name in (f"{lang}.{kind}" for lang in self.langs for kind in ("bin", "idx")):
                    files.setdefault(f"{subset}.{pair}.{name}", self.folder / f"{subset}.{named}.{name}")
        needed = [f"{subset}.{pair}.{self.langs[0]}.idx" for subset in ("train", "valid")]
        missing = [name for name in needed if name not in files]
        missing += [file.name for file in files.values() if not file.is_file()]
        if missing:
            raise Failure(f"{self.folder} has no {missing[0]}: check --source and --target, or {REMEDY}")
        return dict(sorted(files.items()))

    def _check(self) -> Dict[str, int]:
        """The number of pairs in each set."""
        sizes: Dict[str, int] = {}
        for lang in self.langs:
            try:
                dictionary = read_dictionary(self.files[f"dict.{lang}.txt"], REMEDY)
            except CheckpointError as error:
                raise Failure(str(error)) from None
            for name, file in self.files.items():
                if name.endswith(f".{lang}.idx"):
                    subset, size = name.split(".")[0], _sentences(file, dictionary)
                    if sizes.setdefault(subset, size) != size:
                        raise Failure(f"{file} has {size} sentences, and the other side {sizes[subset]}: {REMEDY}")
        return sizes

    def _copy(self) -> None:
        temporary, folder = self.out / "bin.tmp", self.out / "bin"
        shutil.rmtree(temporary, ignore_errors=True)
        for name, file in self.files.items():
            copy(file, temporary / name)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)

    def _info(self) -> Dict[str, Any]:
        """The content of ``prepare.json``; copies the codes."""
        args = self.args
        kept = [self.out / "bin" / name for name in self.files if name.startswith("dict.")]
        if args.codes:
            kept.append(self.out / MODELS[args.subwords])
            copy(args.codes, kept[-1])
        raw = sorted(path for path in (self.out / "raw").iterdir() if path.name.split(".")[-1] in self.langs)
        return {
            "source": args.source,
            "target": args.target,
            "subwords": args.subwords,
            "hyphens": "kept" if args.keep_hyphens else "split",
            "command": args.command,
            "pairs": self.sizes,
            "sha256": {path.name: sha256(path) for path in [*kept, *raw]},
            "versions": versions(),
        }


def _sentences(index: Path, dictionary: Dictionary) -> int:
    """The number of sentences in a binarised file.

    Raises:
        Failure: the file is damaged, or the dictionary is not its own; the last sentence tells.
    """
    try:
        data = data_utils.load_indexed_dataset(str(index.with_suffix("")), dictionary)
        last = data[len(data) - 1]
        if not 0 <= int(last.min()) <= int(last.max()) < len(dictionary):
            raise ValueError("its tokens are not in the dictionary")
    except Exception as error:  # a damaged file can fail anywhere in fairseq and NumPy
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise Failure(f"{index} cannot be used ({reason}): {REMEDY}") from None
    return len(data)
