"""fairseq's Adam in one pass over the parameters."""

import inspect
import math
from collections import defaultdict
from typing import Any, Callable, Dict, List, Optional

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.optim.fairseq_optimizer import FairseqOptimizer
from torch import Tensor


class FusedAdam(torch.optim.AdamW):
    """PyTorch's fused AdamW with the epsilon of fairseq's Adam.

    fairseq adds epsilon to ``sqrt(v)`` before the bias correction of ``v``, PyTorch after it. Step ``t`` of fairseq's
    Adam is step ``t`` of PyTorch's with ``epsilon / sqrt(1 - beta2^t)``. A call of the kernel has one epsilon, so it
    serves parameters that have had the same number of steps. States carry over in both directions.
    """

    supports_flat_params = True

    def __init__(self, params: Any, **kwargs: Any) -> None:
        self._steps_done: Dict[Tensor, int] = {}  # PyTorch's own counts are on the device
        super().__init__(params, fused=True, **kwargs)
        self._step_supports_amp_scaling = False  # after an overflow there is no step, and none to be counted

    def __setstate__(self, state: Dict[str, Any]) -> None:
        for group in state["param_groups"]:
            group["fused"] = True  # fairseq's state has no such entry
        super().__setstate__(state)
        self._steps_done = {p: int(values["step"]) for p, values in self.state.items()}

    def state_dict(self) -> Dict[str, Any]:
        """The state, with step counts as integers: with fp32 tensors, fairseq's bias correction would be inexact."""
        state_dict = super().state_dict()
        states = {key: {**state, "step": int(state["step"])} for key, state in state_dict["state"].items()}
        return {**state_dict, "state": states}

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        groups = self.param_groups
        self.param_groups = [part for group in groups for part in self._by_steps_done(group)]
        try:
            loss = inspect.unwrap(torch.optim.AdamW.step)(self, closure)  # PyTorch lets the hooks of a step wrap it
        finally:
            self.param_groups = groups
        for p in (p for group in groups for p in group["params"] if p.grad is not None):
            self._steps_done[p] = self._steps_done.get(p, 0) + 1
        return loss

    def _by_steps_done(self, group: Dict[str, Any]) -> List[Dict[str, Any]]:
        """Splits the group by the number of steps that its parameters have had; each part has PyTorch's epsilon."""
        parts: Dict[int, List[Tensor]] = defaultdict(list)
        for p in group["params"]:
            parts[self._steps_done.get(p, 0)].append(p)
        return [
            {**group, "params": params, "eps": group["eps"] / math.sqrt(1 - group["betas"][1] ** (steps_done + 1))}
            for steps_done, params in parts.items()
        ]


@register_optimizer("fused_adam", dataclass=FairseqAdamConfig)
class FairseqFusedAdam(FairseqAdam):
    """fairseq's ``adam`` with the same options and the same updates, in one pass over the parameters."""

    def __init__(self, cfg: FairseqAdamConfig, params: Any) -> None:
        FairseqOptimizer.__init__(self, cfg)
        if getattr(cfg, "fp16_adam_stats", False):
            raise ValueError("--fp16-adam-stats is not supported by fused_adam: leave it unset, or choose adam")
        self._optimizer = FusedAdam(params, **self.optimizer_config)

    @property
    def supports_memory_efficient_fp16(self) -> bool:
        """Raises ValueError, because fairseq asks for this only with ``--memory-efficient-fp16`` and ``-bf16``."""
        raise ValueError(
            "fused_adam keeps its states in the precision of the parameters, which is too low for "
            "--memory-efficient-fp16 and --memory-efficient-bf16: choose --optimizer adam, or --fp16 or --bf16"
        )
