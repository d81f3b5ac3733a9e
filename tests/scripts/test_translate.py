"""translate.sh as a conversation: each line is answered before the next one is read."""

import signal
import subprocess

import pytest

from ..commands import ENVIRONMENT, ROOT, run
from ..processes import preloaded
from ..terminals import CTRL_C, CTRL_D, Terminal

pytestmark = pytest.mark.slow

SENTENCES = ["The dog sees the cat.", "Every sister sees no blue picture."]
TOO_LONG = "a " * 1100


@pytest.fixture(scope="module")
def expected(trained):
    return run("scripts/translate.sh", trained, input="".join(f"{line}\n" for line in SENTENCES)).stdout.splitlines()


@pytest.mark.parametrize(("key", "status"), [(CTRL_D, 0), (CTRL_C, -signal.SIGINT)])
def test_a_terminal_gets_a_prompt_and_an_answer_to_each_line(trained, expected, key, status):
    session = Terminal("scripts/translate.sh", trained)
    hint = "[translate] type a sentence and press Enter; Ctrl-D ends\r\n"
    assert session.until("> ") == f"[translate] loading the model\r\n{hint}> "
    for sentence, answer in zip(SENTENCES, expected):
        session.type(f"{sentence}\n")
        assert session.until("\r\n> ") == f"{sentence}\r\n{answer}\r\n> "
    session.type(key)
    assert session.status() == status
    assert session.text.rpartition("> ")[2].strip("^CD\b") == "\r\n"


def test_on_the_screen_there_is_nothing_but_translations(trained, expected):
    words = f"printf '%s\\n' '{SENTENCES[0]}' | scripts/translate.sh {trained}"
    session = Terminal("bash", "-c", words)
    assert session.status() == 0 and session.text == f"{expected[0]}\r\n"


def test_a_pipe_gets_each_answer_at_once_and_an_empty_one_for_a_line_that_cannot_be_translated(trained, expected):
    command = ["scripts/translate.sh", str(trained), "--interactive"]
    streams = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with subprocess.Popen(command, cwd=ROOT, env={**ENVIRONMENT, **preloaded()}, **streams) as process:

        def answer(line):
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            return process.stdout.readline().decode()

        assert answer(SENTENCES[0].encode()) == f"{expected[0]}\n"
        assert answer(b"Stra\xdfe") == "\n"
        assert process.stderr.readline().decode() == (
            "translate.sh: line 2: the input is not UTF-8 (byte 4): convert it with iconv\n"
        )
        assert answer(TOO_LONG.encode()) == "\n"
        said = process.stderr.readline().decode()
        assert said.startswith("translate.sh: line 3: ") and said.endswith("tokens: split it\n")
        assert answer(b"") == "\n"
        assert answer(SENTENCES[1].encode()) == f"{expected[1]}\n"
        rest, errors = process.communicate()
    assert (rest, errors, process.returncode) == (b"", b"", 0)
