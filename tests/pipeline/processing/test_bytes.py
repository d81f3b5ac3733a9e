"""Bytes as tokens: those of fairseq, one for each byte, back to the same text."""

import io
import types

from fairseq.data.encoders.bytes import Bytes as FairseqBytes

from pipeline.prepared import Prepared
from pipeline.processing import bytes as module
from pipeline.processing.base import UNKNOWN

TEXT = ["The König, \u201ehe\u201c said: 东京 @@ ~ \x00\x7f\xa0\xad", "", "a", "\U0001f600 </s> <unk>"]
EVERY = "".join(map(chr, [*range(0x20), *range(0x7F, 0x100)])).translate({code: None for code in range(9, 14)})


def processing(tmp_path):
    return module.Bytes(tmp_path, Prepared("en", "en", "bytes"), "en", "en")


def test_tokens_are_those_of_fairseq_and_come_back_as_text(tmp_path):
    ours = processing(tmp_path)
    for text in TEXT:
        (tokens,) = ours.split([text])
        assert ours.join([tokens]) == [text]
        assert "\xa0" in text or tokens == FairseqBytes.encode(text)  # fairseq's makes it a plain space


def test_every_byte_is_a_token_of_its_own_that_no_tool_splits_or_joins():
    assert len(set(module.CHARACTERS)) == 256
    assert module.encode(bytes(range(256))).split() == module.CHARACTERS
    assert len(module.encode(EVERY.encode()).split()) == len(EVERY.encode())


def test_bytes_that_are_no_text_and_unknown_tokens_do_not_stop_the_way_back(tmp_path):
    assert processing(tmp_path).text(["a <unk> ÿ b"]) == [f"a{UNKNOWN}\ufffdb"]


def test_as_a_command_it_makes_a_line_of_each_line(monkeypatch):
    written = io.BytesIO()
    text = "a b\n\nä\x85\u2028".encode()
    streams = (io.BytesIO(text), written)
    for name, stream in zip(("stdin", "stdout"), streams):
        monkeypatch.setattr(module.sys, name, types.SimpleNamespace(buffer=stream))
    module.main([])
    lines = written.getvalue().decode("utf-8").split("\n")
    assert lines[:2] == ["a \u2581 b", ""] and len(lines) == 4 and len(lines[2].split()) == len("ä\x85\u2028".encode())
