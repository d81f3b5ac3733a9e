"""The command: what is written, what is done once, and what makes it anew."""

import pytest
from sacrebleu.metrics import BLEU

from pipeline.files import write_json
from pipeline.scoring import score as command
from pipeline.scoring.statistics import COLUMNS, bleu, rows
from pipeline.steps import stamp_path

from ...disks import read_only
from .fake import SENTENCES, refused


def test_scores_and_statistics_are_written_together(fake, capsys):
    command.main(fake.arguments("--name", "a run", "--", "--sampling", "--cpu"))
    result = fake.result()
    hypotheses = (fake.run / "scores/test.hyp.de").read_text(encoding="utf-8").splitlines()
    assert hypotheses == [SENTENCES[0], "Die Katze schläft auf dem Dach.", SENTENCES[2]]
    score = BLEU().corpus_score(hypotheses, [SENTENCES]).score
    assert result["scores"]["sacrebleu"]["score"] == round(score, 2) < 100
    assert tuple(result["statistics"]) == COLUMNS and bleu(rows(result["statistics"])) == score
    assert result["statistics"]["source_words"] == [2, 2, 2] and result["sentences"] == 3
    assert (result["name"], result["subset"]) == ("a run", "test")
    assert result["settings"] == "beam 4, lenpen 0.6, --sampling --cpu"
    (call,) = fake.calls
    assert call[0] == f"{fake.data}/bin" and call[-2:] == ["--sampling", "--cpu"]
    given = {"--path": f"{fake.run}/checkpoint.pt", "--beam": "4", "--gen-subset": "test", "--target-lang": "de"}
    assert given.items() <= dict(zip(call, call[1:])).items()
    printed_table = capsys.readouterr().out.splitlines()
    assert printed_table[1] == "a run"
    assert printed_table[2].startswith("  test ") and f" {score:.2f} " in printed_table[2]
    assert printed_table[-1].startswith("sacreBLEU signature: nrefs:1|case:mixed|eff:no|tok:13a")


def test_the_table_has_the_users_name_of_a_set_if_it_is_clear(fake, capsys):
    unclear = ({"test": "a", "test1": "a"}, {"test": "\n"}, {"test": ""}, {})
    for shown, sets in [("news", {"test": "news", "test1": "a"}), *(("test", sets) for sets in unclear)]:
        write_json(fake.data / "prepare.json", {"source": "en", "target": "de", "sets": sets})
        command.main(fake.arguments())
        assert capsys.readouterr().out.splitlines()[2].split()[0] == shown
    assert fake.result()["subset"] == "test" and len(fake.calls) == 1


def test_a_set_that_was_scored_is_not_translated_again(fake, capsys):
    command.main(fake.arguments())
    first = capsys.readouterr().out
    command.main(fake.arguments())
    assert capsys.readouterr().out == first and len(fake.calls) == 1
    translations = fake.run / "scores/test.hyp.de"
    before = translations.read_bytes()
    translations.unlink()
    command.main(fake.arguments())
    assert capsys.readouterr().out == first and translations.read_bytes() == before


@pytest.mark.parametrize("averaged,said", [(["1_100", "2_200"], True), (["2_200", "2_300"], False), ([], False)])
def test_an_average_older_than_the_training_is_told(fake, capsys, averaged, said):
    names = [f"checkpoint_{name}.pt" for name in averaged]
    write_json(stamp_path(fake.run, "average"), {"settings": "".join(f"average {name} 0f\n" for name in names)})
    (fake.run / "checkpoints").mkdir()
    (fake.run / "checkpoints/checkpoint_2_300.pt").touch()
    command.main(fake.arguments())
    told = (
        "checkpoint.pt is of 200 updates, the training of 300: scripts/average.sh averages anew"
        in capsys.readouterr().err
    )
    assert told is said


@pytest.mark.parametrize("content", ["[1]", '{"scores": {}}', '{"scores":', '{"sentences": "3"}'])
def test_a_damaged_score_file_is_named(fake, content):
    command.main(fake.arguments())
    (fake.run / "scores/test.json").write_text(content)
    refused(fake, parts=["scores/test.json", ": remove it and run scripts/score.sh --run"])


def test_what_was_scored_may_be_read_only(fake, capsys):
    command.main(fake.arguments())
    first = capsys.readouterr().out
    with read_only(fake.run):
        command.main(fake.arguments())
        assert capsys.readouterr().out == first
        with pytest.raises(OSError, match="Read-only file system"):
            command.main(fake.arguments("--beam", "2"))
    assert len(fake.calls) == 1


def stamp(fake):
    return stamp_path(fake.run, "score-test")


DEPENDS_ON = {
    "checkpoint": lambda fake: (fake.run / "checkpoint.pt").write_bytes(b"others"),
    "source": lambda fake: (fake.data / "raw/test.en").write_text("one\ntwo\nthree\n"),
    "version": lambda fake: stamp(fake).write_text(
        stamp(fake).read_text().replace(f"scoring {command.VERSION}", "scoring 1")
    ),
    "scores": lambda fake: (fake.run / "scores/test.json").unlink(),
    "stamp": lambda fake: stamp(fake).unlink(),
}


@pytest.mark.parametrize("name", DEPENDS_ON)
def test_what_a_score_depends_on_makes_it_anew(fake, name):
    command.main(fake.arguments())
    DEPENDS_ON[name](fake)
    command.main(fake.arguments())
    assert len(fake.calls) == 2


@pytest.mark.parametrize("options", [("--beam", "2"), ("--lenpen", "1"), ("--", "--cpu")])
def test_other_options_make_it_anew_but_for_the_batch_and_the_name(fake, options):
    command.main(fake.arguments())
    command.main(fake.arguments("--max-tokens", "100", "--name", "x"))
    assert len(fake.calls) == 1
    command.main(fake.arguments(*options))
    assert len(fake.calls) == 2
