"""fairseq's beam search with the same results in fewer passes over the vocabulary and the cached states."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.modules import FairseqDropout
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from ..interception import is_unchanged
from ..output_projection import output_weight, tell_once
from ..stacks import PositionalTransformerDecoder
from .beams import Beams, Hypothesis
from .incremental import IncrementalDecoder
from .packed import PackedDecoder, is_plain, packed_weights
from .segments import SegmentDecoder

SEGMENTS = "--segment-separator"


class FastSequenceGenerator(SequenceGenerator):
    """A :class:`fairseq.sequence_generator.SequenceGenerator` that does less for the same hypotheses.

    It differs in these points. The first step runs once per sentence, not once per beam. The keys and values of the
    attention to the encoder also exist once per sentence, and the encoder's output is never reordered. The logits go
    into one buffer, are read for the best candidates of each beam, and are normalised in place. Only the cache of the
    self-attention follows the beams. The decoder's weights are copied once into the layout in which a CPU reads them
    fastest, and a step takes few operations. Sums are rounded in another order than fairseq's, so hypotheses with
    nearly equal scores may change places. With ``packs_weights = False`` the decoder's modules do the steps; only
    fairseq's own search has the same scores to the last bit.

    This serves one model of this plugin and plain beam search. For ensembles, other models, sampling and other
    strategies, prefixes, constraints, n-gram blocking, language models, alignments, dropout (which has a mask for each
    beam), double precision and hooks on the output projection, it calls fairseq's own search.
    """

    packs_weights = True
    """Whether the steps work on copies of the decoder's weights."""

    target_tag: Optional[int] = None
    """The token with which every translation begins: a part of its length, with a score of 0; in fairseq's own search,
    with the model's."""

    separators: Optional[Tuple[int, int]] = None
    """The token between segments, of source and translation: :class:`.SegmentDecoder` keeps each beside its source."""

    def _generate(
        self,
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> List[List[Hypothesis]]:
        if prefix_tokens is not None or constraints is not None or not self._is_plain():
            if self.separators is not None:
                raise ValueError(
                    f"{SEGMENTS} is for plain beam search with one model of this plugin: leave it out, or sampling, "
                    "prefixes, n-gram blocking, ensembles, dropout, --output-bias and the like"
                )
            tell_once("search translates")
            if prefix_tokens is None and self.target_tag is not None:
                source = sample["net_input"]["src_tokens"]
                prefix_tokens = source.new_full((len(source), 1), self.target_tag)
            return super()._generate(sample, prefix_tokens, constraints, bos_token)
        net_input = sample["net_input"]
        with torch.inference_mode():
            encoder_out = self.model.single_model.encoder.forward_torchscript(net_input)
            decoder = self.decoder_behind(encoder_out, net_input["src_tokens"])
            first_tokens = [self.eos if bos_token is None else bos_token]
            first_tokens += [] if self.target_tag is None else [self.target_tag]
            found = Beams(self, net_input["src_tokens"], decoder, first_tokens).search()
        # outside, the copies can be used like any tensor, also in a training
        return [[{name: x.clone() for name, x in hypothesis.items()} for hypothesis in beams] for beams in found]

    def decoder_behind(self, encoder_out: Dict[str, List[Tensor]], source: Tensor) -> IncrementalDecoder:
        """The model's decoder behind the encoder's output for a batch, ``source`` ``(B, S)``."""
        model = self.model.single_model
        weight = output_weight(model)
        assert weight is not None
        device = weight.device.type
        autocasts = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        packs = self.packs_weights and not autocasts  # the copies have one precision
        weights = packed_weights(model.decoder, weight) if packs else None
        if weights is None:
            if self.separators is not None:
                raise ValueError(
                    f"{SEGMENTS} needs copies of the decoder's weights, which --unpacked-weights, autocast, hooks and "
                    "some kinds of layers rule out: leave it out, or those"
                )
            return IncrementalDecoder(model.decoder, encoder_out, weight)
        if self.separators is not None:
            special = (self.separators, self.pad, self.eos)
            return SegmentDecoder(source, *special, model.decoder, encoder_out, weight, weights)
        return PackedDecoder(model.decoder, encoder_out, weight, weights)

    @staticmethod
    def can_align(model: Any) -> bool:
        """Whether a search with :attr:`separators` serves this model, as far as that depends on the model."""
        return output_weight(model) is not None and is_plain(model.decoder)

    def _is_plain(self) -> bool:
        model = self.model.single_model
        decoder, weight = getattr(model, "decoder", None), output_weight(model)
        return (
            self.model.models_size == 1
            and isinstance(decoder, PositionalTransformerDecoder)
            and is_unchanged(decoder, "extract_features", "extract_features_scriptable")
            and weight is not None
            and weight.dtype != torch.float64  # the sums are in fp32
            and not decoder.need_attn
            and not (decoder.training and decoder.decoder_layerdrop > 0)
            and not any(isinstance(module, FairseqDropout) and _is_active(module) for module in model.modules())
            and all(layer.encoder_attn is not None for layer in decoder.layers)
            and type(self.search) is BeamSearch
            and self.lm_model is None
            and self.repeat_ngram_blocker is None
            and not self.match_source_len
        )


def _is_active(dropout: FairseqDropout) -> bool:
    return dropout.p > 0 and (dropout.training or dropout.apply_during_inference)
