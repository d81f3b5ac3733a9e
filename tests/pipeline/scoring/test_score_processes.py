"""Scoring as a process among others: two at once, signals, kills."""

import signal
import time
from pathlib import Path

from sacrebleu.metrics import BLEU

from pipeline.scoring import score as command

from ...commands import ENVIRONMENT, start
from ...processes import preloaded
from .fake import SENTENCES


def started(fake, *options):
    """The command in a process of its own."""
    environ = {**ENVIRONMENT, **preloaded(), "SCRIPT": "score.sh"}
    environ["PATH"] = f"{fake.folder}:{environ['PATH']}"
    return start("python", "-m", "pipeline", "scoring.score", *fake.arguments(*options), env=environ)


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_second_call_waits_and_both_have_their_own_figures(fake):
    (fake.folder / "seconds").write_text("0.5")
    outputs = [process.communicate(timeout=120) for process in [started(fake), started(fake, "--beam", "2")]]
    shown = [output.splitlines()[2].split()[1] for output, _ in outputs]
    expected = BLEU().corpus_score([x.replace("Sofa", "Dach") for x in SENTENCES], [SENTENCES]).score
    assert shown == [f"{expected:.2f}", "100.00"], outputs
    assert not list((fake.run / "scores").glob(".*"))


def test_a_signal_ends_all_and_leaves_nothing(fake):
    (fake.folder / "seconds").write_text("100")
    process = started(fake)
    wait_for(fake.folder / "printed")
    process.send_signal(signal.SIGTERM)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGTERM and "Traceback" not in error
    assert not is_running((fake.folder / "pid").read_text())
    assert sorted(path.name for path in (fake.run / "scores").iterdir()) == ["test.log"]


def test_after_a_kill_the_same_call_gives_the_right_answer(fake):
    command.main(fake.arguments())
    right = fake.result()
    (fake.run / "checkpoint.pt").write_bytes(b"others")
    (fake.folder / "seconds").write_text("100")
    (fake.folder / "printed").unlink()
    process = started(fake)
    wait_for(fake.folder / "printed")
    process.kill()
    process.communicate()
    assert [path.name for path in (fake.run / "scores").glob(".*")] != []
    (fake.folder / "seconds").write_text("0")
    command.main(fake.arguments())
    assert fake.result()["scores"] == right["scores"] and fake.result()["checkpoint"] != right["checkpoint"]
    assert not list((fake.run / "scores").glob(".*")) and len(fake.calls) == 3
