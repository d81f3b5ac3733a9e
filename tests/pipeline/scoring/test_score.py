"""The command: what is written, what is done once, and what makes it anew."""

import pytest
from sacrebleu.metrics import BLEU

from pipeline.files import write_json
from pipeline.paths import ROOT
from pipeline.provenance import code
from pipeline.scoring import score as command
from pipeline.scoring.statistics import COLUMNS, bleu, rows
from pipeline.steps import stamp_path

from ...disks import read_only
from .fake import SENTENCES, refused


def test_scores_and_statistics_are_written_together(fake, capsys):
    write_json(fake.data / "prepare.json", {"source": "en", "target": "de", "sets": {"test": "news", "test1": "a"}})
    command.main(fake.arguments("--", "--sampling", "--cpu"))
    result = fake.result()
    hypotheses = (fake.run / "scores/test.hyp.de").read_text(encoding="utf-8").splitlines()
    assert hypotheses == [SENTENCES[0], "Die Katze schläft auf dem Dach.", SENTENCES[2]]
    score = BLEU().corpus_score(hypotheses, [SENTENCES]).score
    assert result["scores"]["sacrebleu"]["score"] == round(score, 2) < 100
    assert tuple(result["statistics"]) == COLUMNS and bleu(rows(result["statistics"])) == score
    assert result["statistics"]["source_words"] == [2, 2, 2] and result["sentences"] == 3
    said = ("test", "beam 4, lenpen 0.6, --sampling --cpu", code(ROOT))
    assert (result["subset"], result["settings"], result["commit"]) == said
    (call,) = fake.calls
    assert call[0] == f"{fake.data}/bin" and call[-2:] == ["--sampling", "--cpu"]
    given = {"--path": f"{fake.run}/checkpoint.pt", "--beam": "4", "--gen-subset": "test", "--target-lang": "de"}
    assert given.items() <= dict(zip(call, call[1:])).items()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == str(fake.run) and lines[2].startswith("  news ") and f" {score:.2f} " in lines[2]
    assert lines[-1].startswith("sacreBLEU signature: nrefs:1|case:mixed|eff:no|tok:13a")


def test_a_set_that_was_scored_is_not_translated_again_and_may_be_read_only(fake, capsys):
    command.main(fake.arguments())
    first = capsys.readouterr().out
    with read_only(fake.run):
        command.main(fake.arguments("--max-tokens", "100"))
        assert capsys.readouterr().out == first
        with pytest.raises(OSError, match="Read-only file system"):
            command.main(fake.arguments("--beam", "2"))
    assert len(fake.calls) == 1


@pytest.mark.parametrize("averaged,said", [(["1_100", "2_200"], True), (["2_200", "2_300"], False), ([], False)])
def test_an_average_older_than_the_training_is_told(fake, capsys, averaged, said):
    names = [f"checkpoint_{name}.pt" for name in averaged]
    write_json(stamp_path(fake.run, "average"), {"settings": "".join(f"average {name} 0f\n" for name in names)})
    (fake.run / "checkpoints").mkdir()
    (fake.run / "checkpoints/checkpoint_2_300.pt").touch()
    command.main(fake.arguments())
    assert ("is of 200 updates, the training of 300" in capsys.readouterr().err) is said


def test_a_score_file_that_is_damaged_or_contradicts_itself_is_named(fake):
    command.main(fake.arguments())
    for other in ({"sentences": "3"}, {**fake.result(), "scores": {"sacrebleu": {"score": 99.0}}}):
        write_json(fake.run / "scores/test.json", other)
        refused(fake, parts=["scores/test.json", "remove it"])


def stamp(fake):
    return stamp_path(fake.run, "score-test")


DEPENDS_ON = {
    "checkpoint": lambda fake: (fake.run / "checkpoint.pt").write_bytes(b"others"),
    "source": lambda fake: (fake.data / "raw/test.en").write_text("one\ntwo\nthree\n"),
    "version": lambda fake: stamp(fake).write_text(
        stamp(fake).read_text().replace(f"scoring {command.VERSION}", "scoring 1")
    ),
    "translations": lambda fake: (fake.run / "scores/test.hyp.de").unlink(),
    "stamp": lambda fake: stamp(fake).unlink(),
    "beam": lambda fake: ("--beam", "2"),
    "lenpen": lambda fake: ("--lenpen", "1"),
    "flags": lambda fake: ("--", "--cpu"),
}


@pytest.mark.parametrize("name", DEPENDS_ON)
def test_what_a_score_depends_on_makes_it_anew(fake, name):
    command.main(fake.arguments())
    options = DEPENDS_ON[name](fake)
    command.main(fake.arguments(*(options if isinstance(options, tuple) else ())))
    assert len(fake.calls) == 2
