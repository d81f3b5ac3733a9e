"""The memory of a training on a CPU: few compiled products are kept."""

import os
from typing import Any, Callable

KEPT = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}
"""How many compiled products oneDNN and PyTorch keep, one for each shape: 0.6 MB in bf16. A step has 27 to 42.

Both read the environment at the first product. By default each keeps 1,024: the batches of a training have ever new
shapes, so these are of no use, and a model that needs 1 GB grew to 8.
"""


def keeps_few_products(stock: Callable[..., None]) -> Callable[..., None]:
    """Makes a trainer in a process that keeps few compiled products, unless its environment says how many."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        for name, number in KEPT.items():
            os.environ.setdefault(name, number)
        stock(self, *args, **kwargs)

    return __init__
