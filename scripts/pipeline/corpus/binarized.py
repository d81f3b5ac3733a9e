"""Takes data that the user made with ``fairseq-preprocess`` into a folder that every later script works with.

The folder gets a copy of the files, so that they stay as a run saw them; the raw text of test sets, to score against;
the BPE codes or the model of SentencePiece, to translate with; and ``prepare.json``.
"""

import argparse
from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

from fairseq.data import Dictionary, data_utils

from fairseq_rope.checkpoints.model_folder import read_dictionary, types

from ..command import Failure, as_failure
from ..files import copy, replacing_folder, sha256, write_json
from ..prepared import NAME, Prepared, file_sizes
from ..provenance import versions
from ..text import TEXTS
from ..text.raw import check_raw
from .lines import copy_sets, find, pairs
from .preparing import preparing

REMEDY = "run fairseq-preprocess again"
GIVE = "give the file that your text was split with"


def take_in(args: argparse.Namespace) -> None:
    """Makes prepared data of binarised ones, by the options of :func:`.prepare.parse`."""
    langs, way = (args.source, args.target), TEXTS[args.subwords]
    files = find_files(args.binarized, langs)
    with as_failure():
        dictionaries = {lang: read_dictionary(files[f"dict.{lang}.txt"], REMEDY) for lang in langs}
    codes = way.check_codes(args.codes, types(dictionaries[args.source]), GIVE) if args.codes else None
    subsets = dict.fromkeys(name.split(".")[0] for name in files if name.endswith(".idx"))
    sides = {
        subset: [read_side(files[f"{subset}.{'-'.join(langs)}.{lang}.idx"], dictionaries[lang]) for lang in langs]
        for subset in subsets
    }
    prefixes = {f"test{number or ''}": prefix for number, prefix in enumerate(args.test)}
    prefixes.update({"valid": args.valid} if args.valid else {})
    for subset, prefix in prefixes.items():
        if subset not in sides:
            raise Failure(f"{args.binarized} has no set '{subset}'; there are: {' '.join(sides)}")
        check_text(prefix, dictionaries, sides[subset], args.subwords)
    with preparing(args, langs, list(prefixes)) as (steps, _):
        out = steps.folder
        for name, file in files.items():
            steps.setting(f"{name} {sha256(file)}")

        def work() -> None:
            with replacing_folder(out / "bin") as folder:
                for name, file in files.items():
                    copy(file, folder / name)

        steps.step("binarize", ["bin"], work)
        copy_sets(prefixes, out / "raw", langs)
        kept = [out / "bin" / name for name in files if name.startswith("dict.")]
        if args.codes:
            kept.append(out / way.codes)
            copy(args.codes, kept[-1])
        raw = sorted(path for path in (out / "raw").iterdir() if path.name.split(".")[-1] in langs)
        info = {
            "source": args.source,
            "target": args.target,
            "subwords": args.subwords,
            **way.found_in([each.indices for each in dictionaries.values()], codes),
            "command": args.command,
            "sets": {subset: Path(prefix).name for subset, prefix in prefixes.items()},
            "pairs": {subset: len(source) for subset, (source, _) in sides.items()},
            "sha256": {path.name: sha256(path) for path in [*kept, *raw]},
            "file_sizes": file_sizes(out),
            "versions": versions(),
        }
        write_json(out / NAME, info)
    print(f"raw text to score against: {' '.join(prefixes) or 'none'}")


def find_files(folder: Path, langs: Sequence[str]) -> Dict[str, Path]:
    """The names of the files in a prepared folder, to the user's: a pair may be named in the other direction."""
    pair, names = "-".join(langs), [f"dict.{lang}.txt" for lang in langs]
    files = {name: folder / name for name in names}
    for named in (pair, "-".join(reversed(langs))):
        for path in sorted(folder.glob(f"*.{named}.{langs[0]}.idx")):
            subset = path.name.split(".")[0]
            for end in (f"{lang}.{kind}" for lang in langs for kind in ("bin", "idx")):
                files.setdefault(f"{subset}.{pair}.{end}", folder / f"{subset}.{named}.{end}")
    names += [f"{subset}.{pair}.{langs[0]}.idx" for subset in ("train", "valid")]
    if missing := [name for name in [*names, *files] if name not in files or not files[name].is_file()]:
        raise Failure(f"{folder} has no {missing[0]}: check --binarized, --source and --target, or {REMEDY}")
    return dict(sorted(files.items()))


def read_side(index: Path, dictionary: Dictionary) -> Any:
    """The sentences in a binarised file."""
    try:
        data = data_utils.load_indexed_dataset(str(index.with_suffix("")), dictionary)
        dictionary.symbols[int(data[len(data) - 1].max())]
    except Exception as error:  # a damaged file can fail anywhere in fairseq and NumPy
        raise Failure(f"{index} cannot be used ({error or type(error).__name__}): {REMEDY}") from None
    return data


def check_text(prefix: str, dictionaries: Mapping[str, Dictionary], sides: Sequence[Any], subwords: str) -> None:
    """Raises Failure unless a corpus is the raw text of a binarised set."""
    source, target = dictionaries
    raw = list(pairs(prefix, (source, target)))
    if len(raw) != len(sides[0]):
        raise Failure(f"{prefix} has {len(raw)} pairs, but {len(sides[0])} were binarised")
    for lang, side, binarised in zip(dictionaries, zip(*raw), sides):
        tokens = [dictionaries[lang].string(line) for line in binarised]
        texts = TEXTS[subwords](Path(), Prepared(), "", lang).join(tokens)
        check_raw(texts, side, find(prefix, lang), "give the text that was binarised")
