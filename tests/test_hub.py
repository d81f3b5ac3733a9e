"""``from_pretrained`` of the three classes: folders that it names, and models of another kind, which it refuses."""

import itertools

import pytest

from fairseq_rope import RoFormerLanguageModel, RoFormerMaskedModel, RoFormerModel

from .model_folders import language_run_folder, run_folder

CLASSES = {
    "roformer_tiny": RoFormerModel,
    "roformer_mlm_tiny": RoFormerMaskedModel,
    "roformer_lm_tiny": RoFormerLanguageModel,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Architecture, to a model folder."""
    made = {arch: tmp_path_factory.mktemp("hub") / "run" for arch in CLASSES}
    return {
        arch: (run_folder if arch == "roformer_tiny" else language_run_folder)(path, arch)
        for arch, path in made.items()
    }


def load(arch, folder, data="."):
    return CLASSES[arch].from_pretrained(str(folder), "checkpoint.pt", str(data))


@pytest.mark.parametrize("arch", CLASSES)
def test_what_is_missing_and_a_name_that_fairseq_would_split_or_replace_are_refused(arch, folders, tmp_path):
    """``run:2`` would read the dictionaries of ``run``."""
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/no_data"):
        load(arch, folders[arch], tmp_path / "no_data")
    with pytest.raises(OSError, match=f"{tmp_path}/checkpoint.pt"):
        load(arch, tmp_path)
    for name in ("run:2", "${run}"):
        (tmp_path / name).symlink_to(folders[arch])
        for names in ((tmp_path / name,), (folders[arch], tmp_path / name)):
            with pytest.raises(ValueError, match="rename the folder"):
                load(arch, *names)
    load(arch, tmp_path / "run:2", folders[arch])  # only the name of the data is split


def test_a_model_of_another_kind_is_refused(folders):
    for arch, other in itertools.permutations(CLASSES, 2):
        with pytest.raises(ValueError, match=CLASSES[other].__name__):
            load(arch, folders[other])


@pytest.mark.parametrize("arch", CLASSES)
def test_a_model_folder_needs_its_name_alone(arch, folders):
    assert CLASSES[arch].from_pretrained(str(folders[arch])).task.source_dictionary


@pytest.mark.parametrize("arch", ["roformer_tiny", "roformer_lm_tiny"])
def test_text_that_nobody_splits_is_refused(arch, tmp_path):
    """All of its words would be unknown. Whoever has split it gives numbers, or no prepare.json says how."""
    folder = (run_folder if arch == "roformer_tiny" else language_run_folder)(tmp_path / "run", arch)
    for subwords, remedy in (
        ("bpe", "subword_nmt"),
        ("sentencepiece", "sentencepiece"),
        ("marian", "sentencepiece"),
        ("none", ""),
    ):
        (folder / "prepare.json").write_text(f'{{"subwords": "{subwords}", "source": "en", "target": "de"}}')
        model = load(arch, folder)
        assert len(model.binarize("a king")) == 3
        if not remedy:
            assert len(model.encode("a king")) == 3
            continue
        with pytest.raises(ValueError, match=f"bpe='{remedy}'"):
            model.encode("a king")


@pytest.mark.parametrize("arch", ["roformer_mlm_tiny", "roformer_lm_tiny"])
def test_the_text_of_a_language_model_is_split_by_the_rules_of_its_language(arch, tmp_path):
    folder = language_run_folder(tmp_path / "run", arch)
    (folder / "prepare.json").write_text('{"subwords": "bpe", "source": "fr-CA", "target": "fr-CA"}')
    model = CLASSES[arch].from_pretrained(str(folder), "checkpoint.pt", tokenizer="moses", bpe="characters")
    tokenizer = model.tokenizer if arch == "roformer_lm_tiny" else model.bpe.tokenizer
    assert tokenizer.encode("l'homme") == "l&apos; homme"
