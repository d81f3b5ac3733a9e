"""translate.sh as a conversation: each line is answered before the next one is read."""

import contextlib
import os
import pty
import select
import subprocess

import pytest

from ..commands import one_line, run, start

pytestmark = pytest.mark.slow

SENTENCES = ["The dog sees the cat.", "Every sister sees no blue picture."]
TOO_LONG = "a " * 1100


CUT = "may be cut, as the search ends after 200 tokens: split long sentences"


def cut(number):
    """What is said of a line before its answer; the model of these tests does not know when to stop."""
    return f"translate.sh: line {number}: its translation {CUT}"


@pytest.fixture(scope="module")
def expected(trained):
    done = run("scripts/translate.sh", trained, input="".join(f"{line}\n" for line in SENTENCES))
    assert f"[translate] 2 of 2 translations {CUT}\n" in done.stderr
    return done.stdout.splitlines()


class Terminal:
    """A command in a terminal, with keys that a test types; ``text`` is what it has shown so far, and these keys."""

    def __init__(self, *command):
        self.keyboard, screen = pty.openpty()
        self.process = start(*command, **dict.fromkeys(("stdin", "stdout", "stderr"), screen))
        os.close(screen)
        self.text = ""

    def __del__(self):
        self.process.kill()  # a failed test leaves it behind

    def until(self, end):
        """Waits until something comes that ends with this text; returns it."""
        before = len(self.text)
        while not self.text[before:].endswith(end):
            self._read()
        return self.text[before:]

    def type(self, keys):
        os.write(self.keyboard, keys.encode())

    def status(self):
        """Waits for the command's end; returns its exit status."""
        with contextlib.suppress(OSError):  # no process has the screen open any more
            while True:
                self._read()
        return self.process.wait(300)

    def _read(self):
        assert select.select([self.keyboard], [], [], 300)[0], self.text
        self.text += os.read(self.keyboard, 65536).decode("utf-8", errors="replace")


def test_a_terminal_gets_a_prompt_and_an_answer_to_each_line(trained, expected):
    session = Terminal("scripts/translate.sh", trained)
    assert "Ctrl-D ends" in session.until("> ")
    for number, (sentence, answer) in enumerate(zip(SENTENCES, expected), 1):
        session.type(f"{sentence}\n")
        assert session.until("\r\n> ") == f"{sentence}\r\n{cut(number)}\r\n{answer}\r\n> "
    session.type("\x04")
    assert session.status() == 0


def test_a_pipe_gets_each_answer_at_once_and_an_empty_one_for_a_line_that_cannot_be_translated(trained, expected):
    with start("scripts/translate.sh", trained, "--interactive", stdin=subprocess.PIPE, text=False) as process:

        def answer(line):
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            return process.stdout.readline().decode()

        def said():
            return process.stderr.readline().decode()

        assert answer(SENTENCES[0].encode()) == f"{expected[0]}\n" and said() == f"{cut(1)}\n"
        assert answer(b"Stra\xdfe") == "\n" and "line 2: the input is not UTF-8" in said()
        assert answer(TOO_LONG.encode()) == "\n" and "line 3: 1,100 tokens" in said()
        assert answer(b"") == "\n"
        assert answer(SENTENCES[1].encode()) == f"{expected[1]}\n" and said() == f"{cut(5)}\n"
        rest, errors = process.communicate()
    assert (rest, errors, process.returncode) == (b"", b"", 0)


def test_a_line_that_is_too_long_is_named_before_any_is_translated_or_cut(trained, expected):
    text = "".join(f"{line}\n" for line in (*SENTENCES * 150, TOO_LONG))
    failed = run("scripts/translate.sh", trained, "--beam", 1, input=text, fails=True)
    one_line(failed, "line 301: 1,100 tokens, and the model takes 1,023 at most: split it, or give --cut")
    assert failed.stdout == ""
    text = f"{TOO_LONG}\n{SENTENCES[0]}\n{'a ' * 1023}\n"
    done = run("scripts/translate.sh", trained, "--cut", input=text)
    first, second, third = done.stdout.splitlines()
    assert first == third and second == expected[0] and done.stderr.count("tokens, and the model takes") == 1
