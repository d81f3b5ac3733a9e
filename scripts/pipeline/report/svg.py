"""A figure as SVG: the same input gives the same bytes, whatever the user's own settings are. Needs matplotlib.

Imports nothing of this package.
"""

import io
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def to_svg(width: float, height: float, salt: str, draw: Callable[["Figure"], None]) -> str:
    """The content of the SVG file of what ``draw`` puts in a figure of so many inches.

    Args:
        salt: makes the ids in the file.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.hashsalt": salt, "svg.fonttype": "path", "font.size": 10})
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        output = io.StringIO()
        metadata: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(output, format="svg", metadata=metadata)
    return output.getvalue()
