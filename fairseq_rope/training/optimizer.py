"""fairseq's Adam in one pass over the parameters."""

import math
from typing import Any, Callable, Dict, Optional

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.optim.fairseq_optimizer import FairseqOptimizer


class FusedAdam(torch.optim.AdamW):
    """PyTorch's fused AdamW with the epsilon of fairseq's Adam.

    fairseq adds epsilon to ``sqrt(v)`` before the bias correction of ``v``, PyTorch after it: step ``t`` of the one is
    step ``t`` of the other with ``epsilon / sqrt(1 - beta2^t)``. States carry over in both directions.
    """

    supports_flat_params = True
    supports_memory_efficient_fp16 = False  # the states of half-precision parameters would be in half precision

    def __init__(self, params: Any, **kwargs: Any) -> None:
        super().__init__(params, fused=True, **kwargs)

    def __setstate__(self, state: Dict[str, Any]) -> None:
        for group in state["param_groups"]:
            group["fused"] = True  # not in a state of fairseq's
        super().__setstate__(state)

    def state_dict(self) -> Dict[str, Any]:
        """With whole numbers of steps, as fairseq's Adam needs them: in fp32 tensors its bias correction is inexact."""
        state_dict = super().state_dict()
        states = {key: {**state, "step": int(state["step"])} for key, state in state_dict["state"].items()}
        return {**state_dict, "state": states}

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        epsilons = [group["eps"] for group in self.param_groups]
        for group in self.param_groups:
            step_counts = (self.state[p]["step"] for p in group["params"] if self.state.get(p))
            steps_done = int(next(step_counts, 0))
            group["eps"] /= math.sqrt(1 - group["betas"][1] ** (steps_done + 1))
        try:
            return super().step(closure)
        finally:
            for group, epsilon in zip(self.param_groups, epsilons):
                group["eps"] = epsilon


@register_optimizer("fused_adam", dataclass=FairseqAdamConfig)
class FairseqFusedAdam(FairseqAdam):
    """fairseq's ``adam``, with the same options and the same updates."""

    def __init__(self, cfg: FairseqAdamConfig, params: Any) -> None:
        FairseqOptimizer.__init__(self, cfg)
        if getattr(cfg, "fp16_adam_stats", False):
            raise ValueError("--fp16-adam-stats is not supported by fused_adam: leave it unset, or choose adam")
        self._optimizer = FusedAdam(params, **self.optimizer_config)
