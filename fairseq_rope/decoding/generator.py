"""fairseq's beam search with the same results in fewer passes over the vocabulary and the cached states."""

from typing import Any, Dict, List, Optional

from fairseq.modules import FairseqDropout
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from ..output_projection import output_weight
from ..stacks import PositionalTransformerDecoder
from .beams import Beams, Hypothesis


class FastSequenceGenerator(SequenceGenerator):
    """A :class:`fairseq.sequence_generator.SequenceGenerator` that does less for the same hypotheses.

    It differs in these points. The first step runs once per sentence, not once per beam. The keys and values of the
    attention to the encoder also exist once per sentence, and the encoder's output is never reordered. The logits go
    into one buffer, are read for the best candidates of each beam, and are normalised in place. Only the cache of the
    self-attention follows the beams.

    This serves one model of this plugin and plain beam search. For ensembles, other models, sampling and other
    strategies, prefixes, constraints, n-gram blocking, language models, alignments and dropout (which has a mask for
    each beam), it calls fairseq's own search.
    """

    def _generate(
        self,
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> List[List[Hypothesis]]:
        if prefix_tokens is not None or constraints is not None or not self._is_plain():
            return super()._generate(sample, prefix_tokens, constraints, bos_token)
        return Beams(self, sample["net_input"], self.eos if bos_token is None else bos_token).search()

    def _is_plain(self) -> bool:
        model = self.model.single_model
        decoder = getattr(model, "decoder", None)
        return (
            self.model.models_size == 1
            and isinstance(decoder, PositionalTransformerDecoder)
            and not decoder.need_attn
            and not any(isinstance(module, FairseqDropout) and _is_active(module) for module in model.modules())
            and all(layer.encoder_attn is not None for layer in decoder.layers)
            and output_weight(model) is not None
            and type(self.search) is BeamSearch
            and self.lm_model is None
            and self.repeat_ngram_blocker is None
            and not self.match_source_len
        )


def _is_active(dropout: FairseqDropout) -> bool:
    return dropout.p > 0 and (dropout.training or dropout.apply_during_inference)
