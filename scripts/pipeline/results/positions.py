"""The numbers about a model's positions that the report draws: the entry ``positions`` of a result file."""

from pathlib import Path
from typing import Any, Dict

from ..command import Failure
from ..files import sha256

LENGTH = 32  # positions of the correlations


def positions_of(run: Path) -> Dict[str, Any]:
    """The entry for a model folder; :mod:`fairseq_rope.inspection.terms` defines the numbers.

    It has ``checkpoint``, a short hash, and ``encoder`` and ``decoder`` where there is something to draw: ``encoding``,
    and either ``correlations`` (heads x queries x keys, null where a query does not see a key) or ``dim``, ``base`` and
    ``stretch`` of RoPE.

    Raises:
        Failure: a file of the run is missing or cannot be used.
    """
    from fairseq_rope.checkpoints.model_folder import load_model  # imports fairseq
    from fairseq_rope.inspection.summary import summary

    try:
        sides = summary(load_model(run), LENGTH)
    except ValueError as error:
        raise Failure(str(error)) from None
    return {"checkpoint": sha256(run / "checkpoint.pt")[:16], **sides}
