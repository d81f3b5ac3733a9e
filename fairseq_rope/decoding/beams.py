"""The beams of one batch of sentences: finds candidates, collects those that end, and continues the others."""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from .incremental import IncrementalDecoder

BLOCK = 128  # columns

Hypothesis = Dict[str, Tensor]


class _Candidates(NamedTuple):
    """The ``2 x beam`` best continuations of each sentence, best first, all ``(B, 2 beam)``."""

    scores: Tensor  # sum of the log-probabilities
    beams: Tensor  # the beam to continue
    tokens: Tensor


class _Continuations(NamedTuple):
    """The next beams of each sentence, all ``(B, beam)``."""

    rows: Tensor  # the row of the batch to continue
    tokens: Tensor
    scores: Tensor
    has_ended: Tensor  # True if only a candidate that ends was left for this beam


class Beams:
    """One search over a batch: B unfinished sentences, each with its beams in adjacent rows.

    A step waits for the device once.

    Args:
        options: fairseq's generator, with the options.
        source: the tokens of B sentences, ``(B, S)``.
        decoder: behind the encoder's output for these sentences.
        first_tokens: with which every hypothesis begins: ``</s>``, and tokens whose score is 0, of a translation.
    """

    def __init__(
        self, options: SequenceGenerator, source: Tensor, decoder: IncrementalDecoder, first_tokens: Sequence[int]
    ) -> None:
        self.options, self.decoder = options, decoder
        self.beam_size, self.device = options.beam_size, source.device
        sentences = source.size(0)
        self.max_len = min(int(options.max_len_a * source.size(1) + options.max_len_b), options.max_len - 1)
        if self.beam_size < 1:
            raise ValueError(f"--beam {self.beam_size}: a search has at least 1 beam")
        if options.min_len > self.max_len:
            raise ValueError(f"--min-len {options.min_len} is above the maximum length of {self.max_len} tokens")

        weight = decoder.weight
        rows, self.types = sentences * self.beam_size, weight.size(0)
        self.logits = weight.new_empty(rows, self.types)
        is_half = weight.dtype in (torch.float16, torch.bfloat16)
        self.precise_logits = weight.new_empty(rows, self.types, dtype=torch.float) if is_half else self.logits

        # one row for each sentence until the first step has made different beams; then one for each beam
        self.tokens = torch.full((sentences, self.max_len + 2), options.pad, device=self.device)
        for place, token in enumerate(first_tokens):
            self.tokens[:, place] = token
        self.first_step = len(first_tokens) - 1
        for step in range(self.first_step):
            decoder.features(self.tokens[:, : step + 1])  # into its cache
        self.scores = torch.zeros(sentences, self.max_len + 1, device=self.device)  # summed up to each token
        # (B, beam): too few candidates go on, and one that had ended fills this place; it ends only once
        self.has_ended = torch.zeros(sentences, self.beam_size, dtype=torch.bool, device=self.device)
        self.hypothesis_counts = torch.zeros(sentences, dtype=torch.long, device=self.device)
        self.sentence_numbers = list(range(sentences))  # the number of each row's sentence in the batch
        self.finished: List[List[Hypothesis]] = [[] for _ in range(sentences)]
        suppressed = options.token_indices_to_suppress
        self.suppressed: List[int] = [] if suppressed is None else suppressed.tolist()

    def search(self) -> List[List[Hypothesis]]:
        """All hypotheses of each sentence, best first."""
        for step in range(self.first_step, self.max_len + 1):  # one more for </s>
            candidates = self._candidates(step)
            is_end = candidates.tokens.eq(self.options.eos) & candidates.scores.isfinite()
            is_hypothesis = is_end[:, : self.beam_size] & ~self.has_ended[:, : is_end.size(1)]
            following = self._continuations(candidates, is_end) if step < self.max_len else None
            ends, rows_stay = self._wait_for(is_hypothesis, following)
            done = self._collect_hypotheses(step, candidates, is_hypothesis, ends)
            if len(done) == len(self.sentence_numbers):
                break
            if following is None:
                raise RuntimeError("no translation ends at the maximum length: are the model's outputs NaN?")
            self._continue_beams(step, following, done, rows_stay)
        scores = iter(torch.stack([h["score"] for hypotheses in self.finished for h in hypotheses]).tolist())
        for hypotheses in self.finished:
            by_score = sorted([(-next(scores), i) for i in range(len(hypotheses))])
            hypotheses[:] = [hypotheses[i] for _, i in by_score]
        return self.finished

    def _wait_for(self, is_hypothesis: Tensor, following: Optional[_Continuations]) -> Tuple[List[List[bool]], bool]:
        """The answers that decide how the search goes on, in the only transfer of a step from the device.

        Returns:
            ``is_hypothesis`` ``(B, beam)``, and whether every beam continues the row that it has.
        """
        answers = is_hypothesis.flatten()
        if following is not None and following.rows.numel() == len(self.tokens):
            places = torch.arange(len(self.tokens), device=self.device)
            answers = torch.cat([answers, following.rows.flatten().eq(places).all()[None]])
        known, width = answers.tolist(), is_hypothesis.size(1)
        ends = [known[i : i + width] for i in range(0, is_hypothesis.numel(), width)]
        return ends, len(known) > is_hypothesis.numel() and known[-1]

    def _candidates(self, step: int) -> _Candidates:
        log_probs, tokens = self._best_continuations(step, 2 * self.beam_size)  # (rows, W)
        if step:
            log_probs = log_probs + self.scores[:, step - 1, None]
        width, sentences = log_probs.size(1), len(self.sentence_numbers)
        continuations = len(log_probs) // sentences * self.types - 1  # fairseq takes no more, so never pad
        count = min(2 * self.beam_size, log_probs.numel() // sentences, continuations)
        scores, place = log_probs.view(sentences, -1).topk(count)
        beams = torch.div(place, width, rounding_mode="trunc")
        return _Candidates(scores, beams, tokens.view(sentences, -1).gather(1, place))

    def _logits(self, step: int) -> Tensor:
        """The decoder's logits behind the first ``step + 1`` tokens of each row, ``(rows, V)``."""
        logits = self.decoder.logits(self.tokens[:, : step + 1], self.logits)
        if self.options.temperature != 1:
            logits.div_(self.options.temperature)
        return logits

    def _best_continuations(self, step: int, count: int) -> Tuple[Tensor, Tensor]:
        """Log-probabilities and tokens of the best ``count`` or more candidates for each row: ``(rows, W)``.

        Tokens that may not follow are missing or have -inf. At the maximum length, only </s> may follow.
        """
        options, logits = self.options, self._logits(step)
        if step >= self.max_len:
            return self._forced_end(logits)
        banned = [options.pad]
        if step < options.min_len:
            banned.append(options.eos)
        banned += self.suppressed
        penalised = [options.unk] if options.unk_penalty else []
        best, tokens = largest(logits, min(count + len(banned) + len(penalised), logits.size(1)))
        penalised_logits = logits[:, options.unk : options.unk + len(penalised)].to(torch.float, copy=True)
        best, log_sum = best.float(), self._log_sum_exp(logits, best[:, :1], tokens[:, :1])

        for token in banned + penalised:
            best = best.masked_fill(tokens.eq(token), -torch.inf)
        if penalised:
            best = torch.cat([best, penalised_logits - options.unk_penalty], dim=1)
            tokens = torch.cat([tokens, tokens.new_full((len(tokens), 1), options.unk)], dim=1)
        return _log_probabilities(best, log_sum), tokens

    def _forced_end(self, logits: Tensor) -> Tuple[Tensor, Tensor]:
        """Log-probability and token of </s> for each row, ``(rows, 1)``."""
        eos_logits = logits[:, self.options.eos, None].to(torch.float, copy=True)
        log_sum = self._log_sum_exp(logits, *logits.max(dim=1, keepdim=True))
        return _log_probabilities(eos_logits, log_sum), torch.full_like(log_sum, self.options.eos, dtype=torch.long)

    def _log_sum_exp(self, logits: Tensor, highest: Tensor, token: Tensor) -> Tensor:
        """``log sum exp(logits)`` over ``(rows, V)``, in fp32: ``(rows, 1)``. In fp32 it overwrites ``logits``.

        It is derived from the softmax of the ``highest`` logit, which belongs to ``token`` (both ``(rows, 1)``); that
        probability is at least 1/V.
        """
        probs = torch.softmax(logits, dim=-1, dtype=torch.float, out=self.precise_logits[: len(logits)])
        return highest.float() - probs.gather(1, token).log_()

    def _rows(self, beams: Tensor) -> Tensor:
        """The row of each of ``beams`` ``(B, ...)``; in the first step, the only row of its sentence."""
        per_sentence = len(self.tokens) // len(self.sentence_numbers)
        first = torch.arange(len(self.sentence_numbers), device=self.device)[:, None] * per_sentence
        return first + beams

    def _collect_hypotheses(
        self, step: int, candidates: _Candidates, is_hypothesis: Tensor, ends: List[List[bool]]
    ) -> List[int]:
        """Collects the hypotheses that end among the best ``beam`` candidates, and finds the sentences that are done.

        Args:
            is_hypothesis: ``(B, beam)``, True if a candidate is a hypothesis.
            ends: the same as lists.

        Returns:
            The remaining sentences that now have all of their hypotheses.
        """
        sentences = [i for i, sentence in enumerate(ends) for is_end in sentence if is_end]  # of each hypothesis
        if not sentences:
            return []
        self.hypothesis_counts += is_hypothesis.sum(1)
        places = _true_places(is_hypothesis.flatten(), len(sentences))
        index = torch.div(places, is_hypothesis.size(1), rounding_mode="trunc")
        rank = places - index * is_hypothesis.size(1)
        rows = self._rows(candidates.beams)[index, rank]
        totals = candidates.scores[index, rank]
        tokens = self.tokens[rows, 1 : step + 2]
        tokens[:, step] = self.options.eos
        scores = self.scores[rows, : step + 1]
        scores[:, step] = totals
        scores = torch.cat([scores[:, :1], scores[:, 1:] - scores[:, :-1]], dim=1)  # of each token
        if self.options.normalize_scores:
            totals = totals / (step + 1) ** self.options.len_penalty
        for k, sentence in enumerate(sentences):
            hypotheses = self.finished[self.sentence_numbers[sentence]]
            if len(hypotheses) < self.beam_size:
                hypothesis = {"tokens": tokens[k], "score": totals[k], "positional_scores": scores[k]}
                hypotheses.append({**hypothesis, "attention": torch.empty(0), "alignment": torch.empty(0)})
        counts = {i: len(self.finished[self.sentence_numbers[i]]) for i in sentences}
        return [i for i, count in counts.items() if step == self.max_len or count == self.beam_size]

    def _continuations(self, candidates: _Candidates, is_end: Tensor) -> _Continuations:
        """The best ``beam`` candidates of each sentence that go on."""
        best, others = is_end[:, : self.beam_size], is_end[:, self.beam_size :]
        stops = torch.cat([best | self.has_ended, others], dim=1)  # (B, 2 beam): candidates that end
        # those that go on come first, each kind in its order
        rank = stops * stops.size(1) + torch.arange(stops.size(1), device=self.device)
        rank, chosen = rank.topk(self.beam_size, dim=1, largest=False)
        rows, tokens, scores = self._rows(candidates.beams), candidates.tokens, candidates.scores
        rows, tokens, scores = (x.gather(1, chosen) for x in (rows, tokens, scores))
        return _Continuations(rows, tokens, scores, has_ended=rank.ge(stops.size(1)))

    def _continue_beams(self, step: int, following: _Continuations, done: List[int], rows_stay: bool) -> None:
        """Continues each sentence that is not ``done``."""
        if done:
            left = [i for i in range(len(self.sentence_numbers)) if i not in done]
            kept = _true_places(self.hypothesis_counts < self.beam_size, len(left))
            following = _Continuations(*(value[kept] for value in following))
            self.hypothesis_counts = self.hypothesis_counts[kept]
            self.decoder.keep(kept)
            self.sentence_numbers = [self.sentence_numbers[i] for i in left]
        if done or not rows_stay:
            order = following.rows.flatten()
            self.decoder.reorder(order, None if done else self.tokens[:, : step + 1])
            self.tokens, self.scores = self.tokens[order], self.scores[order]
        self.has_ended = following.has_ended
        self.tokens[:, step + 1] = following.tokens.flatten()
        self.scores[:, step] = following.scores.flatten()


def _true_places(values: Tensor, count: int) -> Tensor:
    """The places where ``values`` ``(N,)`` are True, ``(count,)``; knowing their number saves a wait for the device."""
    return values.long().argsort(descending=True, stable=True)[:count]


def _log_probabilities(logits: Tensor, log_sum: Tensor) -> Tensor:
    """``logits - log_sum``; NaN becomes -inf, so it is never chosen."""
    return (logits - log_sum).nan_to_num_(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)


def largest(x: Tensor, count: int) -> Tuple[Tensor, Tensor]:
    """``x.topk(count)``, on a CPU by way of the maximum of each block of columns, which is three times as fast.

    The ``count`` blocks with the largest maxima have the ``count`` largest numbers in them. Equal numbers may come in
    another order than from ``topk``.

    Args:
        x: ``(N, V)``.

    Returns:
        Values and columns, largest first, both ``(N, count)``.
    """
    width = x.size(1)
    blocks = width // BLOCK
    if x.device.type != "cpu" or blocks < 2 * count:
        return tuple(x.topk(count))  # type: ignore[return-value]
    whole = blocks * BLOCK
    maxima = x[:, :whole].unflatten(1, (blocks, BLOCK)).amax(dim=-1)
    if whole < width:
        maxima = torch.cat([maxima, x[:, whole:].amax(dim=-1, keepdim=True)], dim=1)
    columns = (maxima.topk(count)[1][..., None] * BLOCK + torch.arange(BLOCK)).flatten(1)  # (N, count * BLOCK)
    beyond = columns >= width
    columns.clamp_(max=width - 1)  # a row of -inf chooses them, too
    candidates = x.gather(1, columns).masked_fill_(beyond, -torch.inf)
    values, places = candidates.topk(count)
    return values, columns.gather(1, places)
