"""A small document - headings, paragraphs, lists, tables, listings, pictures - as Markdown and as HTML.

Text is a string, or a sequence of strings, :class:`Code` and :class:`Strong`; both forms escape what would be markup.
The HTML is one well-formed file that needs nothing else: style and pictures are inside.
Imports nothing of this package.
"""

import re
from dataclasses import dataclass
from html import escape
from typing import List, Sequence, Union


@dataclass(frozen=True)
class Code:
    """Text in a fixed font."""

    text: str


@dataclass(frozen=True)
class Strong:
    """Bold text."""

    text: str


Inline = Union[str, Code, Strong]
Text = Union[Inline, Sequence[Inline]]


@dataclass(frozen=True)
class Heading:
    level: int
    text: Text


@dataclass(frozen=True)
class Paragraph:
    text: Text


@dataclass(frozen=True)
class Bullets:
    items: Sequence[Text]


@dataclass(frozen=True)
class Table:
    """The first column names the row. It is aligned to the left, as the columns with the numbers ``left`` are."""

    header: Sequence[Text]
    rows: Sequence[Sequence[Text]]
    left: Sequence[int] = ()


@dataclass(frozen=True)
class Listing:
    """Lines as they are."""

    text: str


@dataclass(frozen=True)
class Picture:
    """An SVG image, and the name of its file for Markdown."""

    file: str
    svg: str
    caption: str


Block = Union[Heading, Paragraph, Bullets, Table, Listing, Picture]


def _parts(text: Text) -> Sequence[Inline]:
    return [text] if isinstance(text, (str, Code, Strong)) else text


def _markdown_text(text: Text, in_table: bool = False) -> str:
    pieces = []
    for part in _parts(text):
        if isinstance(part, Code):
            content = part.text.replace("|", r"\|") if in_table else part.text
            fence = "`" * (max((len(run) for run in re.findall("`+", content)), default=0) + 1)
            space = " " if content.startswith("`") or content.endswith("`") else ""
            pieces.append(f"{fence}{space}{content}{space}{fence}")
        else:
            plain = part if isinstance(part, str) else part.text
            escaped = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", plain).replace("&", "&amp;").replace("<", "&lt;")
            pieces.append(escaped if isinstance(part, str) else f"**{escaped}**")
    return " ".join("".join(pieces).split("\n"))


def plain(text: Text) -> str:
    """The text without any markup, for a terminal."""
    return "".join(part if isinstance(part, str) else part.text for part in _parts(text))


def _markdown_block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_markdown_text(block.text)}"
    if isinstance(block, Paragraph):
        return _markdown_text(block.text)
    if isinstance(block, Bullets):
        return "\n".join(f"- {_markdown_text(item)}" for item in block.items)
    if isinstance(block, Table):
        marks = ["---" if i == 0 or i in block.left else "---:" for i in range(len(block.header))]
        rows = [[_markdown_text(cell, in_table=True) for cell in row] for row in [block.header, *block.rows]]
        return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], marks, *rows[1:]])
    if isinstance(block, Listing):
        fence = "`" * max(3, max((len(run) for run in re.findall("`+", block.text)), default=0) + 1)
        return f"{fence}\n{block.text}\n{fence}"
    return f"![{_markdown_text(block.caption)}]({block.file})"


def to_markdown(blocks: Sequence[Block]) -> str:
    """The document as GitHub's Markdown; pictures are files beside it."""
    return "\n\n".join(_markdown_block(block) for block in blocks) + "\n"


def _html_text(text: Text) -> str:
    pieces = []
    for part in _parts(text):
        if isinstance(part, str):
            pieces.append(escape(part))
        else:
            tag = "code" if isinstance(part, Code) else "strong"
            broken = escape(part.text).replace("_", "_<wbr/>")  # where a long name may go on in the next line
            pieces.append(f"<{tag}>{broken}</{tag}>")
    return "".join(pieces)


def _html_row(cells: Sequence[Text], header: bool, left: Sequence[int]) -> str:
    pieces = []
    for i, cell in enumerate(cells):
        tag = 'th scope="col"' if header else 'th scope="row"' if i == 0 else "td"
        align = ' class="left"' if i == 0 or i in left else ""
        pieces.append(f"<{tag}{align}>{_html_text(cell)}</{tag.split()[0]}>")
    return f"<tr>{''.join(pieces)}</tr>"


def _html_block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{_html_text(block.text)}</h{block.level}>"
    if isinstance(block, Paragraph):
        return f"<p>{_html_text(block.text)}</p>"
    if isinstance(block, Bullets):
        return "<ul>\n" + "\n".join(f"<li>{_html_text(item)}</li>" for item in block.items) + "\n</ul>"
    if isinstance(block, Table):
        body = "\n".join(_html_row(row, False, block.left) for row in block.rows)
        head = _html_row(block.header, True, block.left)
        table = f"<table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        return f'<div class="scroll" tabindex="0">{table}</div>'
    if isinstance(block, Listing):
        return f'<pre tabindex="0">{escape(block.text)}</pre>'
    caption = escape(block.caption)
    image = f'<div class="picture" role="img" aria-label="{caption}">{_inline_svg(block)}</div>'
    return f"<figure>\n{image}\n<figcaption>{caption}</figcaption>\n</figure>"


def _inline_svg(picture: Picture) -> str:
    """The image without its prolog; its ids are made different from those of other images on the page."""
    svg = picture.svg[picture.svg.index("<svg") :].strip()
    prefix = re.sub(r"\W", "-", picture.file)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    return re.sub(r"(url\(|href=\")#", rf"\1#{prefix}-", svg)


STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1c1e21; --soft: #5b616b; --line: #d5d9df; --panel: #f4f5f7; }
@media (prefers-color-scheme: dark) {
  :root { --page: #15171a; --ink: #e4e6ea; --soft: #9aa1ac; --line: #363b43; --panel: #1f2227; }
}
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 80rem; margin: 0 auto; padding: 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { font-size: 1.35rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
h3 { font-size: 1.1rem; margin-top: 1.8rem; }
p, ul { max-width: 50rem; }
code, pre { font: .9em/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
pre { background: var(--panel); padding: .8rem; overflow-x: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { font-weight: normal; }
thead th { color: var(--soft); vertical-align: bottom; border-bottom-width: 2px; white-space: normal; }
.left { text-align: left; }
td.left { white-space: normal; min-width: 6rem; max-width: 24rem; }
tbody tr:hover { background: var(--panel); }
figure { margin: 1rem 0 1.5rem; }
.picture { background: #fff; border: 1px solid var(--line); padding: .5rem; overflow-x: auto; }
.picture svg { display: block; width: 100%; min-width: 34rem; max-width: 60rem; height: auto; margin: 0 auto; }
figcaption { color: var(--soft); font-size: .92rem; margin-top: .3rem; }
@media (max-width: 40rem) {
  table { font-size: .85rem; }
  tbody th { white-space: normal; }
}
"""


def to_html(blocks: Sequence[Block], title: str) -> str:
    """The document as one HTML file, for wide and narrow screens, light and dark."""
    body: List[str] = [_html_block(block) for block in blocks]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head>\n<meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>\n</head>",
            "<body>\n<main>",
            *body,
            "</main>\n</body>\n</html>\n",
        ]
    )
