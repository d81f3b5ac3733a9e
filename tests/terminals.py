"""Commands in a terminal: a pty of 80 columns, with keys that a test types."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import termios

from .commands import start

CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """A command in a terminal of its own; ``text`` is what it has shown so far, with the keys that it echoed."""

    def __init__(self, *command):
        self.keyboard, screen = pty.openpty()
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), screen)
        self.process = start(*command, **streams, preexec_fn=_like_a_shell)
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


def _like_a_shell():
    """In the new process: the terminal is its own, and Ctrl-C ends it (pytest's workers ignore that)."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
