"""translate.sh as a conversation: each line is answered before the next one is read."""

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


def test_a_terminal_gets_an_answer_to_each_line(trained, expected):
    """Until Ctrl-D."""
    terminal = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))"
    typed = "".join(f"{line}\n" for line in SENTENCES) + "\x04"
    shown = run("python", "-c", terminal, "scripts/translate.sh", trained, input=typed).stdout
    assert [line for line in shown.replace("> ", "").splitlines() if line in expected] == expected
    assert "Ctrl-D ends" in shown
