"""Functions that the commands behind the scripts share: their parser, their messages, and how they end."""

import argparse
import errno
import os
import re
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Iterator, List, NoReturn, Optional, Sequence

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a file that cannot grow."""

OURS = ("pipeline", "fairseq_rope")
"""The project's own packages."""

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
"""Ends of lines, and what a terminal takes for a command."""


def one_line(message: str) -> str:
    """A message that a terminal shows as one line, whatever the names of files hold."""
    return CONTROLS.sub(" ", message)


class Failure(RuntimeError):
    """A problem that the user can solve; the message is one line and names the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


@contextmanager
def as_failure() -> Iterator[None]:
    """What the plugin refuses in this block with a ValueError, the user hears as a :class:`Failure`."""
    try:
        yield
    except ValueError as error:
        raise Failure(str(error)) from None


class Signalled(BaseException):
    """A signal that ends the command."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.name = signal.Signals(number).name[len("SIG") :]


def script_name() -> str:
    """The script that the user called; ``scripts/environment.sh`` sets it."""
    return os.environ.get("SCRIPT", "pipeline")


def say(message: str) -> None:
    """Tells the user what happens, on stderr."""
    print(f"[{script_name().removesuffix('.sh')}] {one_line(message)}", file=sys.stderr, flush=True)


class Parser(argparse.ArgumentParser):
    """A parser whose help is the module's docstring, and whose errors are one line.

    Args:
        behind: the program whose options follow ``--`` on the command line, if any: they become ``flags``.
    """

    def __init__(self, doc: Optional[str], behind: str = "", **kwargs: Any) -> None:
        self.behind = behind
        style = argparse.RawDescriptionHelpFormatter
        kwargs.setdefault("prog", f"scripts/{script_name()}")
        super().__init__(description=doc, formatter_class=style, allow_abbrev=False, **kwargs)

    def parse_args(self, words: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        if not self.behind:
            return super().parse_args(words)
        place = words.index("--") if "--" in words else len(words)
        args = super().parse_args(words[:place])
        args.flags = list(words[place + 1 :])
        return args

    def error(self, message: str) -> NoReturn:
        name = self.prog.rsplit("/", 1)[-1]
        line = one_line(message)
        if self.behind and line.startswith("unrecognized arguments"):
            line += f": options of {self.behind} follow --"
        self.exit(2, f"{name}: error: {line} (see {name} --help)\n")


def whole_number(least: int) -> Callable[[str], int]:
    """For ``type=``: a whole number of at least ``least``."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, not '{text:.40}'")
        return int(text)

    return parse


def seeds(text: str) -> List[int]:
    """For ``type=``: the random seeds in a word of the command line, which may have several."""
    return [whole_number(0)(seed) for seed in text.split()]


def decimal(least: float, most: float) -> Callable[[str], str]:
    """For ``type=``: a decimal number from ``least`` to ``most``, as it was typed."""

    def parse(text: str) -> str:
        if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text) or not least <= float(text) <= most:
            raise argparse.ArgumentTypeError(f"must be a number from {least:g} to {most:g}, not '{text:.40}'")
        return text

    return parse


BEAM, LENPEN = whole_number(1), decimal(-10, 10)
"""For ``type=``: the options of a search."""

LONGEST = 200
"""The tokens of a translation before ``</s>``, at most: fairseq-generate's default of ``--max-len-b``."""


def not_empty(text: str) -> str:
    """For ``type=``: a text that is not empty. An empty one is mostly a variable that is not set."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def to_path(text: str) -> Path:
    """For ``type=``: a path that is not empty."""
    return Path(not_empty(text))


def check_name(name: str) -> None:
    """Raises Failure if fairseq would split a name: ``12:30`` are two files."""
    if os.pathsep in name:
        raise Failure(f"{name}: fairseq splits it at '{os.pathsep}': rename the folder")


def run(main: Callable[[List[str]], None]) -> NoReturn:
    """Calls ``main`` with the command line and ends the process as a user expects.

    A :class:`Failure` or an error of the file system is one line on stderr and status 1. A signal ends the process by
    that signal, after clean-up. A closed pipe ends it in silence.
    """
    process = os.getpid()

    def end(number: int, _: Optional[FrameType]) -> None:
        if os.getpid() != process:  # a forked worker ends in silence; its parent reports
            os._exit(128 + number)
        for each in SIGNALS:  # a second signal must not disturb the clean-up
            signal.signal(each, signal.SIG_IGN)
        raise Signalled(number)

    hook = sys.unraisablehook

    def unraisable(ignored: "sys.UnraisableHookArgs") -> None:
        if not isinstance(ignored.exc_value, Signalled):
            return hook(ignored)
        number = ignored.exc_value.number  # Python ignores what a callback raises, such as logging's after a fork:
        signal.signal(signal.SIGALRM, lambda _, frame: end(number, frame))  # it is raised again, a moment later
        signal.setitimer(signal.ITIMER_REAL, 0.1)

    sys.unraisablehook = unraisable
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, end)
    try:
        main(sys.argv[1:])
        sys.stdout.flush()
    except Signalled as ended:
        _end_by(ended.number)
    except BrokenPipeError:
        _drop_output()
        _end_by(signal.SIGPIPE)
    except Failure as error:
        sys.exit(f"{script_name()}: error: {error}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in OURS:
            raise
        remedy = ": run scripts/install.sh, or install it with pip" if error.name else ""
        sys.exit(f"{script_name()}: error: {error}{remedy}")
    except OSError as error:
        _drop_output()
        sys.exit(f"{script_name()}: error: {_reason(error)}")
    sys.exit(0)


def _reason(error: OSError) -> str:
    """The file and the reason of an error of the file system, in one line."""
    place = error.filename or ("the output" if error.errno in FULL else "")
    remedy = ": make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return one_line(f"{place}{': ' if place else ''}{error.strerror or error}{remedy}")


def _drop_output() -> None:
    """Discards pending output, which Python would try to write again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_by(number: int) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise AssertionError("a process that sends itself a deadly signal ends")
