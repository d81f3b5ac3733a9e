"""The manual: README.md stays short, and what README.md, CONTRIBUTING.md and docs/ name exists."""

import argparse
import ast
import re
import subprocess
from pathlib import Path

import pytest
import yaml

import fairseq_rope
from fairseq_rope.__main__ import _parser
from fairseq_rope.positions import POSITIONS

ROOT = Path(__file__).parent.parent
MANUAL = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *MANUAL]

CODE = re.compile(r"^```.*?^```|`[^`]+`", re.DOTALL | re.MULTILINE)
SCRIPT = re.compile(r"(?<![\w./-])scripts/[\w./-]+\.(?:sh|py)")
SUBCOMMANDS = re.compile(r"fairseq-rope +([a-z]+(?:\|[a-z]+)*)")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def code(page):
    """What stands between backticks, inline and in blocks."""
    return "\n".join(CODE.findall(page.read_text(encoding="utf-8")))


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text) <= 9000 and len(text.splitlines()) <= 150


def test_the_readme_names_every_encoding():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in POSITIONS if f"\n| `{name}` |" not in text] == []


@every_page
def test_scripts_that_a_page_names_exist(page):
    assert [name for name in SCRIPT.findall(code(page)) if not (ROOT / name).is_file()] == []


@every_page
def test_subcommands_that_a_page_names_exist(page):
    (commands,) = (a.choices for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    named = {name for names in SUBCOMMANDS.findall(code(page)) for name in names.split("|")}
    assert named <= commands.keys()


@every_page
def test_links_lead_to_files(page):
    links = LINK.findall(CODE.sub("", page.read_text(encoding="utf-8")))
    assert [link for link in links if not (page.parent / link).is_file()] == []


def test_every_page_is_in_the_navigation():
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert sorted(name for entry in nav for name in entry.values()) == [page.name for page in MANUAL]


def texts(folder):
    """The texts in the code of a folder, each as its parts between values."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Constant, ast.JoinedStr)):
                parts = getattr(node, "values", [node])
                yield [str(part.value) for part in parts if isinstance(part, ast.Constant)]
    for path in folder.glob("*.sh"):
        for message in re.findall(r'die "(.+)"', path.read_text(encoding="utf-8")):
            yield re.split(r"\$\w+", message)


def test_the_likely_errors_are_those_of_the_code():
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\S+: error: (.+)$", page.split("## Installation")[0], re.MULTILINE)
    assert len(lines) == 10
    known = [
        parts for folder in ("fairseq_rope", "scripts") for parts in texts(ROOT / folder) if sum(map(len, parts)) > 25
    ]
    unknown = [line for line in lines if not any(all(part in line for part in parts) for parts in known)]
    assert [line.split(":")[1] for line in unknown] == [" invalid choice"]  # of fairseq-train


@pytest.mark.parametrize("aligned", [True, False])
def test_one_pair_of_files_becomes_three_sets_by_a_paste_and_nothing_if_it_is_not_aligned(tmp_path, aligned):
    page = (ROOT / "docs/own-data.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```\n(part\(\).*?)^```", page, re.DOTALL | re.MULTILINE)
    for lang in ("en", "fr"):
        lines = [f"{lang}\tsentence {i} of a corpus" for i in (*range(3000), 7)]
        (tmp_path / f"all.{lang}").write_text("\n".join(lines[:-1] if lang == "fr" and not aligned else lines))
    done = subprocess.run(["bash", "-c", block], cwd=tmp_path, capture_output=True, text=True)
    sets = {path.name: path.read_text().splitlines() for path in tmp_path.glob("[tv]*.??")}
    if not aligned:
        assert done.returncode == 1 and "< 3001" in done.stdout and sets == {}
        return
    assert done.stdout + done.stderr == "" and {name: len(lines) for name, lines in sets.items()} == {
        f"{name}.{lang}": 1000 for name in ("train", "valid", "test") for lang in ("en", "fr")
    }
    english, french = (
        [line for name in ("train", "valid", "test") for line in sets[f"{name}.{lang}"]] for lang in ("en", "fr")
    )
    assert sorted(english) == sorted({f"en sentence {i} of a corpus" for i in range(3000)})
    assert [line.replace("fr", "en", 1) for line in french] == english


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (fairseq_rope.__version__, "MIT")


def test_commands_are_found():
    """Of the patterns above: they find something, in the forms that the pages use."""
    assert "scripts/demo.sh" in SCRIPT.findall(code(ROOT / "README.md"))
    assert "info" in SUBCOMMANDS.findall(code(ROOT / "README.md"))
    assert SUBCOMMANDS.findall("`fairseq-rope average|plot`") == ["average|plot"]
