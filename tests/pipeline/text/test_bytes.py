"""Bytes as tokens: those of fairseq, one for each byte, back to the same text."""

from fairseq.data.encoders.bytes import Bytes as FairseqBytes

from pipeline.prepared import Prepared
from pipeline.text import bytes as module
from pipeline.text.base import UNKNOWN

TEXT = ["The König, \u201ehe\u201c said: 东京 @@ ~ \x00\x7f\xa0\xad", "", "a", "\U0001f600 </s> <unk>"]
EVERY = "".join(map(chr, [*range(0x20), *range(0x7F, 0x100)])).translate({code: None for code in range(9, 14)})


def processing(tmp_path):
    return module.Bytes(tmp_path, Prepared("en", "en", "bytes"), "en", "en")


def test_tokens_are_those_of_fairseq_and_come_back_as_text(tmp_path):
    ours = processing(tmp_path)
    for text in TEXT:
        assert ours.join(ours.split([text])) == [text]
        assert ours.split([text.replace("\xa0", " ")]) == [FairseqBytes.encode(text)]  # which makes it a plain space


def test_every_byte_is_a_token_of_its_own_that_no_tool_splits_or_joins(tmp_path):
    assert len(set(module.CHARACTERS)) == 256
    assert len(processing(tmp_path).apply([EVERY])[0].split()) == len(EVERY.encode())


def test_bytes_that_are_no_text_and_unknown_tokens_do_not_stop_the_way_back(tmp_path):
    assert processing(tmp_path).text(["a <unk> ÿ b"]) == [f"a{UNKNOWN}\ufffdb"]
