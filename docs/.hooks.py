"""Docstrings name classes in Sphinx's way, ``:class:`Name```, and end a paragraph before code with ``::``."""

import re
from typing import Any

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):(?=<code>)")


def on_page_content(html: str, **_: Any) -> str:
    """Leaves the name alone, as code."""
    html = re.sub(r"(:(?:attr|class|data|func|meth|mod):<code>)[~.]+", r"\1", html)
    return ROLE.sub("", html).replace("::</p>", ":</p>").replace("<p>:</p>", "")
