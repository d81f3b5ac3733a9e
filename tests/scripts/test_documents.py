"""Documents from raw text to a translation, as a user does it."""

import json
import shutil

import pytest

from pipeline.text.segments import SEPARATOR, join_segments, split_segments
from pipeline.translation.translator import Translator

from ..commands import ROOT, one_line, run, three_sets

pytestmark = pytest.mark.slow

TRAIN = ["--arch", "roformer_tiny", "--max-update", 2, "--save-every", 1]
LENGTHS = ["--max-source-positions", 4096, "--max-target-positions", 4096]


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """The demo's sentences in documents of five, prepared, with a model that two updates have trained."""
    folder = tmp_path_factory.mktemp("documents")
    for name in ("train", "valid", "test"):
        for lang in ("en", "de"):
            lines = (ROOT / f"data/demo/{name}.{lang}").read_text(encoding="utf-8").splitlines()[:100]
            texts = ["\n".join(lines[start : start + 5]) for start in range(0, 100, 5)]
            (folder / f"{name}.{lang}").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    data, model = folder / "data", folder / "run"
    run("scripts/prepare.sh", *three_sets(folder), "--document-tokens", 40, "--merges", 100, "--out", data)
    run("scripts/train.sh", "--data", data, "--out", model, *TRAIN, "--", *LENGTHS, "--max-tokens", 2000)
    run("scripts/average.sh", "--run", model, "--data", data, "--last", 2)
    return data, model


def test_a_folder_has_growing_blocks_sentences_alone_and_blocks_of_each_test_set(documents):
    info = json.loads((documents[0] / "prepare.json").read_text())
    assert info["document_tokens"] == 40 and info["documents"]["train"] == 20
    assert info["binarised"]["sentences"]["en"]["sentences"] == info["blocks"]["sentences"] == info["cleaned"]["kept"]
    assert info["binarised"]["train"]["en"]["sentences"] == info["blocks"]["blocks"] > info["blocks"]["sentences"]
    assert info["pairs"]["test"] == 100 > info["pairs"]["test5"] == 20  # each document is one block
    assert info["pairs"]["valid"] > info["pairs"]["test10"] == 20
    assert info["sets"]["test5"] == "test-2048" and info["sets"]["test10"] == "valid-2048"
    assert all(
        side["unknown"] == info["binarised"]["test"][lang]["unknown"]
        for lang, side in info["binarised"]["test1"].items()
    )


def test_the_same_text_is_prepared_anew_as_documents_and_as_sentences(documents, tmp_path):
    """In one folder, by a user who forgot the option."""
    out = shutil.copytree(documents[0], tmp_path / "data")
    for options, pairs in (([], 119), (["--document-tokens", 40], 100)):
        run("scripts/prepare.sh", *three_sets(documents[0].parent), *options, "--merges", 100, "--out", out)
        info = json.loads((out / "prepare.json").read_text())
        assert info["pairs"]["train"] == pairs and ("documents" in info) == bool(options)
        assert ("" in (out / "bpe/train.clean.en").read_text(encoding="utf-8").splitlines()) == bool(options)


def test_documents_are_scored_whole(documents):
    data, model = documents
    for subset, segments in (("test", 100), ("test1", None)):
        flags = ["--max-len-b", 5, *([] if segments else ["--segment-separator", "<sep>"])]
        run("scripts/score.sh", "--run", model, "--data", data, "--subset", subset, "--", *flags)
        scored = json.loads((model / f"scores/{subset}.json").read_text())
        assert scored["sentences"] == 20
        assert {"sacrebleu", "chrf", "length_ratio", "right_segments"} <= set(scored["scores"])
        if segments:
            assert scored["scores"]["right_segments"]["score"] == 100 and "segment_bleu" in scored["scores"]


def test_a_search_that_would_not_be_the_one_asked_for_is_refused(documents):
    score = ["scripts/score.sh", "--data", documents[0], "--run", documents[1], "--subset", "test5"]
    one_line(run(*score, "--max-tokens", 100, fails=True), "give --max-tokens")
    for overrides, problem in (("{'rope_scalng': 'yarn'}", "'rope_scalng'"), ("5", "no dictionary")):
        one_line(run(*score, "--", "--model-overrides", overrides, fails=True), problem)


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
def test_a_text_keeps_its_lines(documents, engine):
    text = "The dog sees the cat.\nA bird sings.\n\n\nEvery sister sees no blue picture.\n\n"
    done = run("scripts/translate.sh", documents[1], "--documents", "--engine", engine, "--beam", 1, input=text)
    assert [bool(line) for line in done.stdout.split("\n")] == [bool(line) for line in text.split("\n")]


def test_documents_need_a_model_of_documents_whose_dictionaries_get_the_separator(documents, trained, tmp_path):
    one_line(run("scripts/translate.sh", trained, "--documents", input="a\n", fails=True), "leave out --documents")
    like = ["--document-tokens", 40, "--like", trained, "--out", tmp_path / "data"]
    run("scripts/prepare.sh", *three_sets(documents[0].parent), *like)
    for lang in ("en", "de"):
        old, new = (folder / f"dict.{lang}.txt" for folder in (trained, tmp_path / "data/bin"))
        assert new.read_text(encoding="utf-8") == old.read_text(encoding="utf-8") + "<sep> 0\n"


class Reversing:
    """An engine that reverses the words of each segment. Of a block with an ``x`` it loses the separators and says that
    it may be cut; of one with a ``y`` in the first segment it leaves the last one empty; one with a ``z`` it cuts."""

    def search(self, sources):
        blocks = [[" ".join(reversed(segment.split())) for segment in split_segments(source)] for source in sources]
        for block in blocks:
            if len(block) > 1 and "y" in block[0]:
                block[-1] = ""
            if len(block) > 1 and "z" in block[0]:
                block[-1] = block[-1][:1]
        found = [" ".join(block) if "x" in source else join_segments(block) for block, source in zip(blocks, sources)]
        return found, ["x" in source or (SEPARATOR in source and "z" in source) for source in sources]


def test_a_block_that_comes_back_cut_or_with_other_or_empty_segments_is_translated_by_segments(documents):
    translator = Translator(documents[1], engine="fairseq", documents=True)
    translator.engine = Reversing()
    blocks = [["a b", "c d"], ["e x", "f g"], ["h x"], ["j y", "k l"], ["m z", "n o"]]
    texts, wrong = translator.search_blocks(blocks)
    assert wrong == 3 and texts == [["b a", "d c"], ["x e", "g f"], ["x h"], ["y j", "l k"], ["z m", "o n"]]
    assert translator.cut == 2  # the segments that have the x, and not also the block


def test_a_text_is_cut_into_blocks_within_its_documents(documents):
    translator = Translator(documents[1], engine="auto", documents=True)
    assert translator.engine.hub.task.separator == SEPARATOR  # fairseq's search keeps segments together
    lines = [" ".join("a" * 1 for _ in range(n)) for n in (15, 15, 15, 0, 50, 3, 0)]
    assert translator.blocks(lines) == [[0, 1], [2], [4], [5]]  # 40 tokens at most, and a longer segment alone
    translator.engine.longest = 31  # with </s>
    assert translator.blocks(lines) == [[0], [1], [2], [4], [5]]  # no longer than the model takes
