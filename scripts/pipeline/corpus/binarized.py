"""Takes data that the user made with ``fairseq-preprocess`` into a folder that every later script works with.

The folder gets a copy of the files, so that they stay as a run saw them; the raw text of test sets, to score against;
the BPE codes or the model of SentencePiece, to translate with; and ``prepare.json``.
"""

import argparse
import re
from pathlib import Path
from typing import Any, Dict, Tuple

from fairseq.data import Dictionary, data_utils

from fairseq_rope.checkpoints.model_folder import read_dictionary, types

from ..command import Failure, as_failure, say
from ..files import copy, replacing_folder, sha256, write_json
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..prepared import NAME, Prepared, file_sizes, remove_damaged
from ..provenance import versions
from ..steps import Steps
from ..text import TEXTS
from ..text.raw import check_raw
from .lines import CorpusError, copy_sets, find, pairs

SUBSET = re.compile(r"(?:train|valid|test)[0-9]*")
REMEDY = "run fairseq-preprocess again"
GIVE = "give the file that your text was split with"


class Binarized:
    """Data that the user binarised.

    Args:
        args: the result of :func:`.prepare.parse`.

    Raises:
        Failure: files are missing, damaged, or do not belong together.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.out, self.folder, self.way = args, args.out.resolve(), args.binarized, TEXTS[args.subwords]
        self.langs: Tuple[str, str] = (args.source, args.target)
        self.prefixes = {f"test{number or ''}": prefix for number, prefix in enumerate(args.test)}
        self.prefixes.update({"valid": args.valid} if args.valid else {})
        """Subset, as fairseq calls it, to the path of its raw text without the language."""
        self.files = self._find()
        with as_failure():
            self.dictionaries = {lang: read_dictionary(self.files[f"dict.{lang}.txt"], REMEDY) for lang in self.langs}
        self.sizes = self._check()
        if args.codes and not args.codes.is_file():
            raise Failure(f"{args.codes} not found: {GIVE}")
        source = types(self.dictionaries[args.source])
        codes = self.way.check_codes(args.codes, source, GIVE) if args.codes else None
        self.entries = self.way.found_in([each.indices for each in self.dictionaries.values()], codes, args)
        self._check_marks()

    def run(self) -> None:
        """Copies what is not there yet.

        Raises:
            Failure: the raw text is not that of the binarised sets.
        """
        for subset, prefix in self.prefixes.items():
            self._check_text(subset, prefix)
        with locked(self.out, AS_LONG_AS_IT_TAKES):
            remove_damaged(self.out)
            steps = Steps(self.out)
            for name, file in self.files.items():
                steps.setting(f"{name} {sha256(file)}")
            steps.step("binarize", [f"bin/{name}" for name in self.files], self._copy)
            copy_sets(self.prefixes, self.out / "raw", self.langs, self.sizes)
            write_json(self.out / NAME, self._info())
        sets = ", ".join(f"{subset} {size:,}" for subset, size in self.sizes.items())
        print(f"pairs: {sets}\nraw text to score against: {' '.join(self.prefixes) or 'none'}")
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

    def _check_marks(self) -> None:
        """Raises Failure if a tenth of the types has the mark of other subwords than the user says."""
        for name, way in TEXTS.items():
            for lang, dictionary in self.dictionaries.items():
                found = types(dictionary)
                if name != self.args.subwords and 10 * sum(map(way.is_marked, found)) > len(found):
                    raise Failure(f"{self.files[f'dict.{lang}.txt']} has subwords of {name}: give --subwords {name}")

    def _check(self) -> Dict[str, int]:
        """The number of pairs in each set."""
        sizes: Dict[str, int] = {}
        for lang, dictionary in self.dictionaries.items():
            for name, file in self.files.items():
                if name.endswith(f".{lang}.idx"):
                    subset, size = name.split(".")[0], len(_sentences(file, dictionary))
                    if sizes.setdefault(subset, size) != size:
                        raise Failure(f"{file} has {size} sentences, and the other side {sizes[subset]}: {REMEDY}")
        return sizes

    def _check_text(self, subset: str, prefix: str) -> None:
        """Raises Failure unless a corpus is the raw text of a binarised set."""
        if subset not in self.sizes:
            raise Failure(f"{self.folder} has no set '{subset}'; there are: {' '.join(self.sizes)}")
        raw = list(pairs(prefix, self.langs))
        if len(raw) != self.sizes[subset]:
            raise CorpusError(f"{prefix} has {len(raw)} pairs, but {self.sizes[subset]} were binarised as '{subset}'")
        for side, (lang, dictionary) in zip(zip(*raw), self.dictionaries.items()):
            index = self.files[f"{subset}.{'-'.join(self.langs)}.{lang}.idx"]
            tokens = [dictionary.string(line) for line in _sentences(index, dictionary)]
            texts = self.way(self.folder, Prepared(), "", lang).join(tokens)
            check_raw(texts, side, find(prefix, lang), "give the text that was binarised")

    def _copy(self) -> None:
        with replacing_folder(self.out / "bin") as folder:
            for name, file in self.files.items():
                copy(file, folder / name)

    def _info(self) -> Dict[str, Any]:
        """The content of ``prepare.json``; copies the codes."""
        args = self.args
        kept = [self.out / "bin" / name for name in self.files if name.startswith("dict.")]
        if args.codes:
            kept.append(self.out / self.way.codes)
            copy(args.codes, kept[-1])
        raw = sorted(path for path in (self.out / "raw").iterdir() if path.name.split(".")[-1] in self.langs)
        return {
            "source": args.source,
            "target": args.target,
            "subwords": args.subwords,
            **self.entries,
            "command": args.command,
            "sets": {subset: Path(prefix).name for subset, prefix in self.prefixes.items()},
            "pairs": self.sizes,
            "sha256": {path.name: sha256(path) for path in [*kept, *raw]},
            "file_sizes": file_sizes(self.out),
            "versions": versions(),
        }


def _sentences(index: Path, dictionary: Dictionary) -> Any:
    """The sentences in a binarised file.

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
    return data
