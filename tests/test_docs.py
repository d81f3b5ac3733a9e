"""The manual: README.md stays short, and what README.md, CONTRIBUTING.md and docs/ name exists."""

import argparse
import functools
import operator
import re
import subprocess
from pathlib import Path

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


def code(page):
    """What stands between backticks, inline and in blocks."""
    return "\n".join(CODE.findall(page.read_text(encoding="utf-8")))


def test_readme_and_manual_are_short_and_the_readme_names_every_encoding():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text) <= 8000 and len(text.splitlines()) <= 150
    assert sum(len(page.read_text(encoding="utf-8")) for page in MANUAL) <= 100_000
    assert [name for name in POSITIONS if f"\n| `{name}` |" not in text] == []


def test_scripts_subcommands_and_files_that_a_page_names_exist():
    (commands,) = (a.choices for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    for page in PAGES:
        assert [name for name in SCRIPT.findall(code(page)) if not (ROOT / name).is_file()] == [], page
        assert {name for names in SUBCOMMANDS.findall(code(page)) for name in names.split("|")} <= commands.keys(), page
        links = LINK.findall(CODE.sub("", page.read_text(encoding="utf-8")))
        assert [link for link in links if not (page.parent / link).is_file()] == [], page


def test_every_page_is_in_the_navigation():
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert sorted(name for entry in nav for name in entry.values()) == [page.name for page in MANUAL]


def test_one_pair_of_files_becomes_three_sets_by_a_paste(tmp_path):
    page = (ROOT / "docs/own-data.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```\n(part\(\).*?)^```", page, re.DOTALL | re.MULTILINE)
    for lang in ("en", "fr"):
        (tmp_path / f"all.{lang}").write_text("\n".join(f"{lang}\tsentence {i}" for i in (*range(3000), 7)))
    subprocess.run(["bash", "-c", block], cwd=tmp_path, check=True)
    names = ("train", "valid", "test")
    english, french = ([(tmp_path / f"{n}.{lang}").read_text().splitlines() for n in names] for lang in ("en", "fr"))
    assert [len(lines) for lines in english] == [1000] * 3
    assert [[line.replace("fr", "en", 1) for line in lines] for lines in french] == english
    assert sorted(functools.reduce(operator.iadd, english, [])) == sorted({f"en sentence {i}" for i in range(3000)})


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (fairseq_rope.__version__, "MIT")
