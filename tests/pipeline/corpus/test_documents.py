"""Documents for language models: where they end, which set they go to, what is refused."""

import gzip
import json

import pytest

from pipeline.command import Failure
from pipeline.corpus.documents import copy_documents, documents, find_files, held_out


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_document_ends_at_an_empty_line_and_with_its_file(write):
    files = [write("a", "\n\na 1\na 2\r\n \t\n\nb 1"), write("c", "c\n\n")]
    assert list(documents(files)) == [["a 1", "a 2"], ["b 1"], ["c"]]


def test_where_documents_have_a_first_line_empty_lines_end_none(write):
    file = write("books", "before\n# Title: a\n\nx\n\n# Title: b\n\n\ny # Title: c\n")
    assert list(documents([file], "# Title:")) == [["before"], ["# Title: a", "x"], ["# Title: b", "y # Title: c"]]


def test_each_text_of_json_lines_is_a_document(write):
    file = write("in.jsonl", "\n".join(json.dumps(each) for each in ({"A": "one\n\ntwo", "B": "three"}, {"A": " "})))
    assert list(documents([file])) == [["one", "two"], ["three"]]
    assert list(documents([file], "tw")) == [["one"], ["two"], ["three"]]


def test_a_name_stands_for_a_file_a_folder_or_the_files_that_begin_with_it(write, tmp_path):
    names = ["train.en", "train.de.gz", "training.en", "books/b/2.md", "books/a.md", "books/.hidden/x", "books/.y"]
    files = {name: write(name, "x\n") for name in names}
    assert find_files(str(files["training.en"])) == [files["training.en"]]
    assert find_files(str(tmp_path / "train")) == [files["train.de.gz"], files["train.en"]]
    assert find_files(f"{tmp_path}/books") == [files["books/a.md"], files["books/b/2.md"]]
    linked = write("elsewhere/c.md", "x\n").parent
    (tmp_path / "books/linked").symlink_to(linked)
    (tmp_path / "books/again").symlink_to(tmp_path / "books")
    assert find_files(f"{tmp_path}/books")[2:] == [tmp_path / "books/linked/c.md"]
    write("train.en~", "x\n")
    assert find_files(str(tmp_path / "train")) == [files["train.de.gz"], files["train.en"]]
    write("train.en.gz", gzip.compress(b"x\n"))
    with pytest.raises(Failure, match=r"train\.en and .*train\.en\.gz .*remove one"):
        find_files(str(tmp_path / "train"))
    with pytest.raises(Failure, match="no such file"):
        find_files(str(tmp_path / "train.e"))


def test_the_copy_has_a_line_for_a_line_and_an_empty_one_between_documents(write, tmp_path):
    sets = {"train": [write("1.gz", gzip.compress("ä b\n\nc".encode())), write("2", "d\n")], "test": [write("3", "e")]}
    copy_documents(sets, tmp_path / "raw", "en")
    assert (tmp_path / "raw/train.en").read_text(encoding="utf-8") == "ä b\n\nc\n\nd\n"
    counts = json.loads((tmp_path / "raw/train.json").read_text())
    assert counts == {"documents": 3, "lines": 5, "bytes": (tmp_path / "raw/train.en").stat().st_size}
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == "test.en test.json train.en train.json".split()


def test_documents_of_other_sets_that_are_in_the_training_set_are_counted(write, tmp_path):
    sets = {"train": [write("1", "a\nb\n\nc\n")], "valid": [write("2", "c"), write("3", "a\nb\n\na\n\nc")]}
    copy_documents(sets, tmp_path / "raw", "en")
    assert json.loads((tmp_path / "raw/valid.json").read_text())["in_train"] == 3
    assert "in_train" not in json.loads((tmp_path / "raw/train.json").read_text())


def test_documents_are_held_out_by_their_text_alone(write, tmp_path):
    texts = [f"document {number}\nwith two lines" for number in range(2000)]
    for name, order in (("one", texts), ("two", texts[::-1])):
        copy_documents({"train": [write(name, "\n\n".join(order))]}, tmp_path / f"{name}.raw", "en", percent=5)
    sizes = {}
    for subset in ("train", "valid", "test"):
        one, two = ((tmp_path / f"{name}.raw/{subset}.en").read_text().strip().split("\n\n") for name in ("one", "two"))
        assert sorted(one) == sorted(two) and {held_out(text.split("\n"), 5) for text in one} == {subset}
        sizes[subset] = len(one)
    assert sum(sizes.values()) == 2000 and all(60 < sizes[name] < 140 for name in ("valid", "test"))  # 100 +- 4 sigma


@pytest.mark.parametrize(
    "content,message",
    [(" \n\t\n\r\n\n", "no document for the set"), ('{"A": "a"}\n[1]', "line 2: "), ('{"A": 1}', "line 1: ")],
)
def test_text_that_cannot_be_used_is_refused_and_leaves_nothing(write, tmp_path, content, message):
    name = "in.jsonl" if content[:1] == "{" else "in"
    good, bad = write("good", "x"), write(name, content)
    with pytest.raises(Failure, match=message):
        copy_documents({"train": [good], "test": [bad]}, tmp_path / "raw", "en")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good", name]


def test_a_line_of_json_may_be_a_long_document(write):
    text = "A line of the book.\n" * 5001
    assert list(documents([write("in.jsonl", json.dumps({"text": text}))])) == [text.split("\n")[:-1]]
