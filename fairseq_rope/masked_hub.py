"""A trained masked language model for use from Python, on fairseq's interface."""

from pathlib import Path
from typing import Any, List, Optional, Tuple

import torch
from fairseq.data import encoders
from fairseq.models.roberta.hub_interface import RobertaHubInterface

from .wordpieces import CONTINUATION, VOCABULARY, WordPiece

MASK = "<mask>"
SPACE = "\u2581"
"""The sign for a space among tokens."""


class Splitter:
    """A tokenizer and subwords as one of fairseq's ``bpe``.

    Args:
        tokenizer: fairseq's, or None.
        bpe: fairseq's, or None; without it, text is refused.
    """

    def __init__(self, tokenizer: Any, bpe: Any) -> None:
        self.tokenizer, self._bpe = tokenizer, bpe

    @property
    def bpe(self) -> Any:
        if self._bpe is None:
            raise ValueError(
                "how to split text is not known: give from_pretrained the bpe and the tokenizer of the training, such "
                "as bpe='subword_nmt', tokenizer='moses'"
            )
        return self._bpe

    def encode(self, x: str) -> str:
        return str(self.bpe.encode(self.tokenizer.encode(x) if self.tokenizer else x))

    def decode(self, x: str) -> str:
        words = self.bpe.decode(x)
        return str(self.tokenizer.decode(words) if self.tokenizer else words)


class MaskedHub(RobertaHubInterface):
    """fairseq's interface, with a tokenizer before the subwords.

    Its ``fill_mask`` keeps spaces, and takes special symbols as answers.
    """

    bpe: Any

    def __init__(self, cfg: Any, task: Any, model: Any) -> None:
        super().__init__(cfg, task, model)
        self.bpe = Splitter(encoders.build_tokenizer(cfg.tokenizer), self.bpe)

    def encode(self, sentence: str, *addl_sentences: str, no_separator: Optional[bool] = None) -> Any:
        """As in fairseq, with the separators of the fine-tuning; before one, word pieces have one alone, as in BERT."""
        if no_separator is None:
            task: Any = self.task
            in_pretraining = None if self._has_word_pieces() else task.dictionary.eos()
            no_separator = getattr(getattr(task, "args", None) or task.cfg, "separator_token", in_pretraining) is None
        return super().encode(sentence, *addl_sentences, no_separator=no_separator)

    def _around(self, masked_input: str) -> Tuple[str, str]:
        """The tokens before and behind the mask, with the spaces beside it where spaces are tokens."""
        before, behind = masked_input.split(MASK)
        tokens = self.bpe.encode(behind.rstrip())
        if tokens.startswith(SPACE) and behind[:1] not in ("", SPACE) and not behind[0].isspace():
            tokens = tokens[len(SPACE) :].lstrip()  # SentencePiece begins every text with a space
        return self.bpe.encode(before.lstrip()), tokens

    @torch.no_grad()
    def fill_mask(self, masked_input: str, topk: int = 5) -> List[Tuple[str, float, str]]:
        """The ``topk`` likeliest words at ``<mask>``: the text with each of them, its probability, and the word.

        Raises:
            ValueError: the text has no ``<mask>`` or several, or is longer than the model's limit; ``topk`` is below 1.
        """
        dictionary: Any = self.task.source_dictionary
        if topk < 1:
            raise ValueError(f"topk must be at least 1, not {topk}")
        if masked_input.count(MASK) != 1:
            raise ValueError(
                f"the text must have one {MASK}, not {masked_input.count(MASK)}: 'The old king {MASK} a dog.'"
            )
        before, behind = self._around(masked_input)
        line = f"<s> {before} {MASK} {behind} </s>"
        tokens = dictionary.encode_line(line, append_eos=False, add_if_not_exist=False).long()
        if len(tokens) > self.model.max_positions():
            raise ValueError(
                f"the text has {len(tokens)} tokens, and the model takes {self.model.max_positions()}: shorten it"
            )
        mask = int(tokens.eq(dictionary.index(MASK)).nonzero())
        was_training = self.model.training
        self.model.eval()
        logits = self.model(tokens[None].to(self.device))[0][0, mask]
        self.model.train(was_training)
        best = logits.float().softmax(dim=0).topk(min(topk, len(dictionary)))
        words = [self.bpe.decode(dictionary[int(index)]) for index in best.indices]
        return [(self._filled(masked_input, word), float(p), word) for word, p in zip(words, best.values)]

    def _filled(self, masked_input: str, word: str) -> str:
        """The text with ``word`` at the mask; a piece such as ``##s`` goes on with the word before."""
        before, behind = masked_input.split(MASK)
        if self._has_word_pieces() and word.startswith(CONTINUATION):
            before, word = before.rstrip(), word[len(CONTINUATION) :]
        return f"{before}{word}{behind}"

    def _has_word_pieces(self) -> bool:
        return isinstance(getattr(self.bpe, "_bpe", None), WordPiece)


def bpe_options(folder: str, data: str, bpe: Any) -> Any:
    """Keyword arguments for fairseq that choose how text is split.

    By default it is as the checkpoint says, or else as ``vocab.txt`` says if it is there. fairseq's own default is to
    download the pieces of GPT-2.

    Args:
        folder: the model folder.
        data: of the dictionary; relative to ``folder`` if it begins with a dot.
        bpe: a name of ``--bpe``, or None.
    """
    places = [Path(folder), Path(folder, data) if data.startswith(".") else Path(data)]
    vocabulary = next((place / VOCABULARY for place in places if (place / VOCABULARY).is_file()), None)
    if vocabulary is not None:
        return {"bpe": bpe or "wordpiece", "wordpiece_vocab": str(vocabulary)}
    return {} if bpe is None else {"bpe": bpe}
