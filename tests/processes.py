"""Commands without the seconds that their imports take: a server imports fairseq once and forks for each of them.

:func:`preloaded` names what such an environment has of its own; its temporary files go when the server ends. Its
``python -m MODULE``, ``python scripts/run.py MODULE``, ``fairseq-*``, ``sacremoses`` and ``subword-nmt`` are clients of
the server, also when a script or torchrun starts them. A client hands over its arguments, folder, environment and open
files, passes signals on, and ends as the forked process ends. What a terminal or ``os.killpg`` sends to a whole group
(Ctrl-C, a hang-up, a kill) reaches the forked process and all that it has started; SIGTERM reaches that process alone.
All else in this environment is the real tool.
"""

import atexit
import contextlib
import fcntl
import functools
import importlib
import inspect
import json
import logging
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import uuid
import warnings
from pathlib import Path

TOOLS = Path(sys.executable).parent
ADDRESS = "server"
RUN = str(Path(__file__).parent.parent / "scripts/run.py")
PRELOADED = [
    *("fairseq_rope", "fairseq_rope.checkpoints.average", "fairseq_rope.info", "pipeline.results"),
    *(f"fairseq_cli.{name}" for name in ("train", "generate", "interactive", "validate", "preprocess", "eval_lm")),
    *("fairseq.data.data_utils_fast", "torch.distributed.run", "torch._dynamo", "torch.profiler"),
    *("sacrebleu", "sacremoses.cli", "subword_nmt.subword_nmt", "tqdm"),
]
PROGRAMS = ["python", "sacremoses", "subword-nmt", *sorted(path.name for path in TOOLS.glob("fairseq-*"))]
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
LIKE_THE_SERVER = ("PYTHONPATH", "OMP_NUM_THREADS", "PYTHONHASHSEED")
"""With other values of these in its environment, a command runs in a Python of its own."""

CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
entries = lambda text: text and set(text.split(":"))  # scripts add to PYTHONPATH what it has
alike = all(entries(os.environ.get(name)) == entries(value) for name, value in {environ!r}.items())
if not alike or name == "python" and words[words[:1] == ["-u"] :][:1] not in (["-m"], [{run!r}]):
    os.execv(os.path.join({tools!r}, name), [os.path.join({tools!r}, name), *words])
files = [int(file) for file in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + file)]
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
numbers = set({signals!r})
ignored = [number for number in numbers if signal.getsignal(number) == signal.SIG_IGN]
call = dict(name=name, words=words, cwd=os.getcwd(), environ=dict(os.environ), files=files, ignored=ignored)
call["client"] = os.getpid()
call = json.dumps(call).encode()
socket.send_fds(server, [len(call).to_bytes(8, "little")], files)
server.sendall(call)
for number in numbers.difference(ignored):
    signal.signal(number, lambda number, _: server.send(bytes([number])))
status = int.from_bytes(server.recv(4) or b"\\1", "little", signed=True)
if status < 0:
    if status != -signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@functools.lru_cache
def preloaded():
    """PATH, VENV and TMPDIR of the clients; all processes of one pytest run share a server, which ends with it."""
    shared = "PYTEST_XDIST_WORKER" in os.environ
    name = f"fairseq_rope-tests-{os.environ['PYTEST_XDIST_TESTRUNUID'] if shared else uuid.uuid4().hex}"
    folder = Path(tempfile.gettempdir(), name)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        while not (folder / ADDRESS).exists():
            assert folder.exists()
            time.sleep(0.02)
    else:
        try:
            _start_server(folder, os.getppid() if shared else os.getpid())
        except BaseException:  # the other processes do not wait for it
            shutil.rmtree(folder)
            raise
    temporary, path = tempfile.mkdtemp(dir=folder), [folder / "bin", TOOLS, os.environ["PATH"]]
    return {"PATH": os.pathsep.join(map(str, path)), "VENV": str(folder), "TMPDIR": temporary}


def _start_server(folder, owner):
    """Writes the clients, and starts the server; it ends when the process ``owner`` has ended."""
    address, tools = str(folder / ADDRESS), folder / "bin"
    environ = {name: os.environ.get(name) for name in LIKE_THE_SERVER}
    names = dict(python=sys.executable, tools=str(TOOLS), address=address, run=RUN, signals=[*map(int, PASSED_ON)])
    text = CLIENT.format(environ=environ, **names)
    tools.mkdir()
    for name in PROGRAMS:
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    words = [sys.executable, "-m", "tests.processes", address, str(owner)]
    server = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    while not os.path.exists(address):
        assert server.poll() is None
        time.sleep(0.02)


def serve(address, owner):
    """Answers clients until the process ``owner`` has ended."""
    for name in PRELOADED:
        importlib.import_module(name)
    # torchrun asks for the source of each frame, and inspect would look for this one among thousands of modules
    inspect.modulesbyfile["<frozen runpy>"] = "runpy"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{address}.new")
    listening.listen(64)
    listening.settimeout(1)
    os.rename(f"{address}.new", address)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while os.path.exists(f"/proc/{owner}"):
        with contextlib.suppress(socket.timeout):
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _attend(connection, Path(address).parent / "bin")
            connection.close()
    shutil.rmtree(Path(address).parent)


def _attend(connection, tools):
    """Forks a process for one client, passes signals on to it, and says how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection.setblocking(True)
    size, files, _, _ = socket.recv_fds(connection, 8, 250)
    call = b""
    while len(call) < int.from_bytes(size, "little"):
        part = connection.recv(1 << 20)
        if not part:  # the client was killed
            os._exit(1)
        call += part
    child = os.fork()
    if child == 0:
        connection.close()
        _become(files, tools, **json.loads(call))
    os.setpgid(child, child)
    for file in [0, 1, 2, *files]:
        os.close(file)
    ended = os.pidfd_open(child)
    while ended not in select.select([connection, ended], [], [])[0]:
        number = (connection.recv(1) or [signal.SIGKILL])[0]
        (os.kill if number == signal.SIGTERM else os.killpg)(child, number)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(status.to_bytes(4, "little", signed=True))
    os._exit(0)


def _become(received, tools, client, name, words, cwd, environ, files, ignored):
    """Runs the command in this process, with the client's files under the numbers that they have there."""
    os.setpgid(0, 0)
    os.getppid = functools.partial(_parent, os.getpid(), client, os.getppid)
    copies = [fcntl.fcntl(file, fcntl.F_DUPFD, 500) for file in received]
    os.closerange(0, 500)
    for copy, number in zip(copies, files):
        os.dup2(copy, number)
    os.closerange(500, 500 + 2 * len(copies))
    defaults = {signal.SIGINT: signal.default_int_handler}  # the server may ignore what the client does not
    for number in PASSED_ON:
        signal.signal(number, signal.SIG_IGN if number in ignored else defaults.get(number, signal.SIG_DFL))
    os.environ.clear()
    os.environ.update(environ)
    tempfile.tempdir = None  # the server's, which another TMPDIR replaces
    os.chdir(cwd)
    sys.stdin, sys.stdout, sys.stderr = (open(file, "w" if file else "r", buffering=1) for file in range(3))  # noqa: SIM115
    sys.executable = str(tools / "python")
    if environ.get("PYTHONWARNINGS") == "ignore":
        warnings.simplefilter("ignore")
    for handler in list(logging.getLogger().handlers):
        logging.getLogger().removeHandler(handler)
    for module in [module for module in sys.modules if module.startswith("fairseq_cli.")]:
        del sys.modules[module]  # importing them sets up the log on this process's stderr
    status = 1
    try:
        _run(name, words)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _parent(command, client, stock):
    """Of a command the parent of its client, so that it notices when that ends."""
    if os.getpid() != command:
        return stock()
    return int(Path(f"/proc/{client}/stat").read_text().rsplit(")", 1)[1].split()[1])


def _run(name, words):
    words = words[words[0] == "-u" :] if name == "python" else [str(TOOLS / name), *words]
    if words[0] == "-m":
        sys.argv = words[1:]
        if not os.environ.get("PYTHONSAFEPATH"):
            sys.path.insert(0, os.getcwd())
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])
