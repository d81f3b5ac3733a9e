"""fairseq's beam search with the same results in fewer passes over the vocabulary and the cached states."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from ..attention import IncrementalState
from ..output_projection import output_weight
from ..stacks import PositionalTransformerDecoder

Hypothesis = Dict[str, Tensor]


class FastSequenceGenerator(SequenceGenerator):
    """A :class:`fairseq.sequence_generator.SequenceGenerator` that does less for the same hypotheses.

    What differs: the first step runs once per sentence and not once per beam, and so do the keys and values of the
    attention to the encoder, whose output is never reordered; the logits go into one buffer, are read for the best
    candidates of each beam and normalised in place; only the self-attention's cache follows the beams.

    That is for one model of this plugin and plain beam search. Ensembles, other models, sampling and other strategies,
    prefixes, constraints, n-gram blocking, language models and alignments go fairseq's own way.
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
        return _Beams(self, sample["net_input"], self.eos if bos_token is None else bos_token).search()

    def _is_plain(self) -> bool:
        model = self.model.single_model
        decoder = getattr(model, "decoder", None)
        return (
            self.model.models_size == 1
            and isinstance(decoder, PositionalTransformerDecoder)
            and not decoder.need_attn
            and all(layer.encoder_attn is not None for layer in decoder.layers)
            and output_weight(model) is not None
            and type(self.search) is BeamSearch
            and self.lm_model is None
            and self.repeat_ngram_blocker is None
            and not self.match_source_len
        )


class _Candidates(NamedTuple):
    """The ``2 x beam`` best continuations of each sentence, best first, all ``(B, 2 beam)``."""

    scores: Tensor  # sum of the log-probabilities
    beams: Tensor  # which beam is continued
    tokens: Tensor


class _Beams:
    """One search over a batch: B sentences that are not finished, each with its beams in adjacent rows."""

    def __init__(self, options: FastSequenceGenerator, net_input: Dict[str, Tensor], first_token: int) -> None:
        self.options = options
        self.model = options.model.single_model
        source = net_input["src_tokens"]
        self.beam_size, self.device = options.beam_size, source.device
        sentences = source.size(0)
        self.max_len = min(int(options.max_len_a * source.size(1) + options.max_len_b), options.max_len - 1)
        if options.min_len > self.max_len:
            raise ValueError(f"--min-len {options.min_len} is above the maximum length of {self.max_len} tokens")

        self.encoder_out = self.model.encoder.forward_torchscript(net_input)
        self.incremental_state: IncrementalState = {}  # of the decoder
        weight = output_weight(self.model)
        assert weight is not None
        self.weight = weight  # (V, C)
        rows, types = sentences * self.beam_size, self.weight.size(0)
        self.logits = self.weight.new_empty(rows, types)
        is_half = self.weight.dtype in (torch.float16, torch.bfloat16)
        self.precise_logits = self.weight.new_empty(rows, types, dtype=torch.float) if is_half else self.logits

        # one row for each sentence until the first step has told the beams apart; then one for each beam
        self.tokens = torch.full((sentences, self.max_len + 2), options.pad, device=self.device)
        self.tokens[:, 0] = first_token
        self.scores = torch.zeros(sentences, self.max_len + 1, device=self.device)  # summed up to each token
        # (B, beam): a candidate that had ended fills this place, for want of one that goes on; it ends only once
        self.has_ended = torch.zeros(sentences, self.beam_size, dtype=torch.bool, device=self.device)
        self.sentence_numbers = list(range(sentences))  # the number of each row's sentence in the batch
        self.finished: List[List[Hypothesis]] = [[] for _ in range(sentences)]

    def search(self) -> List[List[Hypothesis]]:
        """All hypotheses of each sentence, best first."""
        for step in range(self.max_len + 1):  # one more for </s>
            candidates = self._candidates(step)
            is_end = candidates.tokens.eq(self.options.eos) & candidates.scores.isfinite()
            done = self._collect_hypotheses(step, candidates, is_end)
            if len(done) == len(self.sentence_numbers):
                break
            if step == self.max_len:
                raise RuntimeError("no translation ends at the maximum length: are the model's outputs NaN?")
            self._continue_beams(step, candidates, is_end, done)
        for hypotheses in self.finished:
            hypotheses.sort(key=lambda hypothesis: -float(hypothesis["score"]))
        return self.finished

    def _candidates(self, step: int) -> _Candidates:
        log_probs, tokens = self._best_continuations(step, 2 * self.beam_size)  # (rows, W)
        if step:
            log_probs = log_probs + self.scores[:, step - 1, None]
        width, sentences = log_probs.size(1), len(self.sentence_numbers)
        continuations = len(log_probs) // sentences * self.weight.size(0) - 1  # fairseq takes no more: never pad
        count = min(2 * self.beam_size, log_probs.numel() // sentences, continuations)
        scores, place = log_probs.view(sentences, -1).topk(count)
        beams = torch.div(place, width, rounding_mode="trunc")
        return _Candidates(scores, beams, tokens.view(sentences, -1).gather(1, place))

    def _logits(self, step: int) -> Tensor:
        """The decoder's logits behind the first ``step + 1`` tokens of each row, ``(rows, V)``; in one buffer."""
        features = self.model.decoder(
            self.tokens[:, : step + 1],
            encoder_out=self.encoder_out,
            incremental_state=self.incremental_state,
            features_only=True,
        )[0][:, -1]
        logits = torch.mm(features, self.weight.t(), out=self.logits[: len(features)])
        if self.options.temperature != 1:
            logits.div_(self.options.temperature)
        return logits

    def _best_continuations(self, step: int, count: int) -> Tuple[Tensor, Tensor]:
        """Log-probabilities and tokens of at least ``count`` (or of all there are) for each row: ``(rows, W)``.

        Tokens that may not follow are left out, or among them with -inf. At the maximum length, only </s> may follow.
        """
        options, logits = self.options, self._logits(step)
        if step >= self.max_len:
            return self._forced_end(logits)
        banned = [options.pad]
        if step < options.min_len:
            banned.append(options.eos)
        if options.token_indices_to_suppress is not None:
            banned += options.token_indices_to_suppress.tolist()
        penalised = [options.unk] if options.unk_penalty else []
        best, tokens = logits.topk(min(count + len(banned) + len(penalised), logits.size(1)))
        penalised_logits = logits[:, penalised].float()
        best, log_sum = best.float(), self._log_sum_exp(logits, best[:, :1], tokens[:, :1])

        for token in banned + penalised:
            best = best.masked_fill(tokens.eq(token), -torch.inf)
        if penalised:
            best = torch.cat([best, penalised_logits - options.unk_penalty], dim=1)
            tokens = torch.cat([tokens, tokens.new_full((len(tokens), 1), options.unk)], dim=1)
        return _log_probabilities(best, log_sum), tokens

    def _forced_end(self, logits: Tensor) -> Tuple[Tensor, Tensor]:
        """Log-probability and token of </s> for each row, ``(rows, 1)``."""
        eos_logits = logits[:, [self.options.eos]].float()
        log_sum = self._log_sum_exp(logits, *logits.topk(1))
        return _log_probabilities(eos_logits, log_sum), torch.full_like(log_sum, self.options.eos, dtype=torch.long)

    def _log_sum_exp(self, logits: Tensor, highest: Tensor, token: Tensor) -> Tensor:
        """``log sum exp(logits)`` over ``(rows, V)``, in fp32: ``(rows, 1)``. In fp32 it overwrites ``logits``.

        It follows from the softmax of the ``highest`` logit, which belongs to ``token`` (both ``(rows, 1)``) and is at
        least 1/V.
        """
        probs = torch.softmax(logits, dim=-1, dtype=torch.float, out=self.precise_logits[: len(logits)])
        return highest.float() - probs.gather(1, token).log_()

    def _rows(self, beams: Tensor) -> Tensor:
        """Which row each of ``beams`` ``(B, ...)`` is; in the first step, the sentence's only one."""
        per_sentence = len(self.tokens) // len(self.sentence_numbers)
        first = torch.arange(len(self.sentence_numbers), device=self.device)[:, None] * per_sentence
        return first + beams

    def _collect_hypotheses(self, step: int, candidates: _Candidates, is_end: Tensor) -> List[int]:
        """Takes down the hypotheses that end among the best ``beam`` candidates, and tells which sentences are done.

        Args:
            is_end: ``(B, 2 beam)``, True where the candidate's token is </s>.

        Returns:
            The sentences, among those left, that have all of their hypotheses.
        """
        is_hypothesis = is_end[:, : self.beam_size] & ~self.has_ended[:, : is_end.size(1)]
        hypothesis_places = is_hypothesis.nonzero().tolist()
        if not hypothesis_places:
            return []
        index, rank = torch.tensor(hypothesis_places, device=self.device).unbind(1)
        rows = self._rows(candidates.beams)[index, rank]
        totals = candidates.scores[index, rank]
        tokens = self.tokens[rows, 1 : step + 2]
        tokens[:, step] = self.options.eos
        scores = self.scores[rows, : step + 1]
        scores[:, step] = totals
        scores = torch.cat([scores[:, :1], scores[:, 1:] - scores[:, :-1]], dim=1)  # of each token
        if self.options.normalize_scores:
            totals = totals / (step + 1) ** self.options.len_penalty
        for k, (sentence, _) in enumerate(hypothesis_places):
            hypotheses = self.finished[self.sentence_numbers[sentence]]
            if len(hypotheses) < self.beam_size:
                hypothesis = {"tokens": tokens[k], "score": totals[k], "positional_scores": scores[k]}
                hypotheses.append({**hypothesis, "attention": torch.empty(0), "alignment": torch.empty(0)})
        with_new_hypotheses = sorted({sentence for sentence, _ in hypothesis_places})
        counts = [len(self.finished[self.sentence_numbers[i]]) for i in with_new_hypotheses]
        return [i for i, n in zip(with_new_hypotheses, counts) if step == self.max_len or n == self.beam_size]

    def _continue_beams(self, step: int, candidates: _Candidates, is_end: Tensor, done: List[int]) -> None:
        """Continues each sentence that is not ``done`` with its best ``beam`` candidates that go on."""
        rows, sentences = self._rows(candidates.beams), len(self.sentence_numbers)
        best, others = is_end[:, : self.beam_size], is_end[:, self.beam_size :]
        stops = torch.cat([best | self.has_ended, others], dim=1)  # (B, 2 beam): candidates that nothing follows
        scores, tokens = candidates.scores, candidates.tokens
        if done:
            kept = torch.tensor([i for i in range(sentences) if i not in done], device=self.device)
            rows, stops, scores, tokens = rows[kept], stops[kept], scores[kept], tokens[kept]
            self.model.decoder.keep_sentences(self.incremental_state, kept)
            self.sentence_numbers = [self.sentence_numbers[i] for i in kept.tolist()]
        # those that go on first, each kind in its order
        rank = stops * stops.size(1) + torch.arange(stops.size(1), device=self.device)
        rank, chosen = rank.topk(self.beam_size, dim=1, largest=False)
        self.has_ended = rank.ge(stops.size(1))
        order = rows.gather(1, chosen).flatten()

        if order.numel() != len(self.tokens) or not torch.equal(order, torch.arange(len(order), device=self.device)):
            self.tokens, self.scores = self.tokens[order], self.scores[order]
            self.model.decoder.reorder_beams(self.incremental_state, order)
        self.tokens[:, step + 1] = tokens.gather(1, chosen).flatten()
        self.scores[:, step] = scores.gather(1, chosen).flatten()


def _log_probabilities(logits: Tensor, log_sum: Tensor) -> Tensor:
    """``logits - log_sum``; NaN becomes -inf, so that it is never chosen."""
    return (logits - log_sum).nan_to_num_(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
