"""A run, its data, and a program in the place of fairseq-generate: all that scoring needs, without a training."""

import json

import pytest

from pipeline.command import Failure
from pipeline.files import write_json
from pipeline.scoring import score as command
from pipeline.settings import data_line
from pipeline.steps import stamp_path

SENTENCES = ["Der Hund läuft heute über die Straße.", "Die Katze schläft auf dem Sofa.", "Drei Vögel singen im Baum."]
TOKENS = [f"{line[:-1]} ." for line in SENTENCES]
WORSE = [TOKENS[0], "Die Katze schläft auf dem Dach .", TOKENS[2]]

PROGRAM = """
import json, pathlib, sys
folder, flags = pathlib.Path(__file__).parent, sys.argv[1:]
(folder / "calls").open("a").write(json.dumps(flags) + "\\n")
beam = flags[flags.index("--beam") + 1]
sys.stdout.buffer.write((folder / f"output{beam}").read_bytes())
sys.stderr.write((folder / "stderr").read_text())
sys.exit(int((folder / "status").read_text()))
"""


def printed(hypotheses, targets, figure=100.0):
    """fairseq-generate's output for tokens without BPE, in an order of its own."""
    lines = ["2026-01-01 00:00:00 | INFO | fairseq.tasks.translation | [en] dictionary: 8 types"]
    for i in reversed(range(len(hypotheses))):
        lines += [f"S-{i}\tx", f"T-{i}\t{targets[i]}", f"H-{i}\t-0.5\t{hypotheses[i]}"]
        lines += [f"D-{i}\t-0.5\t{hypotheses[i]}", f"P-{i}\t-0.5 -0.5"]
    return "\n".join([*lines, own_line(figure), ""])


def own_line(figure):
    return f"Generate test with beam=4: BLEU4 = {figure:.2f}, 1.0/1.0/1.0/1.0 (BP=1.000, ratio=1.0, syslen=9, reflen=9)"


class FakeRun:
    """A trained run below ``folder``, and a program there that translates worse with a beam of 4 than with one of 2."""

    def __init__(self, folder):
        self.folder, self.run, self.data = folder, folder / "run", folder / "data"
        for sub in (self.run, self.data / "raw", self.data / "bin"):
            sub.mkdir(parents=True)
        (self.run / "checkpoint.pt").write_bytes(b"weights")
        for lang, lines in (("en", ["a source"] * len(SENTENCES)), ("de", SENTENCES)):
            (self.data / f"raw/test.{lang}").write_bytes("".join(f"{line}\n" for line in lines).encode())
            (self.data / f"bin/test.en-de.{lang}.idx").touch()
        write_json(self.data / "prepare.json", {"source": "en", "target": "de"})
        write_json(stamp_path(self.data, "binarize"), {"settings": "input x\n"})
        write_json(stamp_path(self.run, "train"), {"settings": "train\n"})  # it is trained to its end
        (self.run / "settings").write_text(f"{data_line(self.data)}\ntrain\n")
        program = folder / "fairseq-generate"
        program.write_text(f"#!/before/it/was/moved/.venv/bin/python{PROGRAM}")
        program.chmod(0o755)
        output4, output2 = printed(WORSE, TOKENS), printed(TOKENS, TOKENS)
        for name, text in (("stderr", ""), ("status", "0"), ("output4", output4), ("output2", output2)):
            (folder / name).write_text(text)

    def arguments(self, *options):
        """Those of ``pipeline.scoring.score``."""
        return ["--run", str(self.run), "--data", str(self.data), *options]

    @property
    def calls(self):
        """The flags of each start of the program."""
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def result(self):
        return json.loads((self.run / "scores/test.json").read_text(encoding="utf-8"))


def refused(fake, *options, parts=()):
    with pytest.raises(Failure) as error:
        command.main(fake.arguments(*options))
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value), error.value
    assert not list((fake.run / "scores").glob(".*"))
