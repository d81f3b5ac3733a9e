"""The report on language models and fine-tuning: directions, words, tables, published figures."""

import math
import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.command import Failure
from pipeline.report.data import Wanted, read_report
from pipeline.report.render import answers, to_html, to_markdown

from .made_results import markdown, part, recipe, result, row, table

LEARNED, ROTARY, TUPE = "transformer_learned_mlm_tiny", "roformer_mlm_tiny", "tupe_a_mlm_tiny"
OF_TRANSLATION = ("BLEU", "bootstrap", "sentence", "target tokens", "Kept", "kept", "pairs", "score.sh", "decoding",
                  "significant", "not translation", "| p |")  # fmt: skip


def scores(**values):
    return {key: {"score": value, "signature": "fairseq-validate"} for key, value in values.items()}


def model(
    folder, arch, perplexity, seed=1, task="masked_lm", name="books", variant="", blocks="blocks", tokens=500, **more
):
    """The result file of a language model; ``test_long`` is another text."""
    sets = {"test": perplexity, "test_long": perplexity + 1, "valid": perplexity + 2}
    tests = {
        key: {"subset": key, "sentences": 7, "settings": blocks, "scores": scores(perplexity=value, loss=4.5, **more)}
        for key, value in sets.items()
    }
    run = {"command": "scripts/train.sh", "flags": f"--arch {arch}", "versions": {}, "machine": "m", "task": task}
    counts = {unit: {"train": number} for unit, number in (("documents", 3), ("bytes", 4000), ("tokens", 1000))}
    counts["tokens"] |= dict.fromkeys(sets, tokens)
    points = {"updates": [10, 20], "seconds": [5, 9], "nll": [9.0, math.log2(perplexity)]}
    curve, data = {"train": points, "valid": points}, {**counts, "merges": 60}
    entries = {"recipe": name, "run": run, "tests": tests, "data": data, "curve": curve}
    return result(folder / name, arch, seed, variant, more=entries)


def tuned(
    folder,
    arch,
    task,
    seed=1,
    rate="3e-05",
    name="glue",
    count=5,
    shortened=None,
    chance=None,
    way="",
    how="",
    **values,
):
    """The result file of a fine-tuning; ``way`` are settings of the pretraining, ``how`` its own."""
    test = {"subset": "dev", "sentences": 9, "settings": f"median of {count} seeds, learning rate {rate}"}
    run = {"command": f"scripts/finetune.sh {task}", "flags": f"--arch {arch}", "versions": {}, "machine": "m"}
    tests = {task: {**test, "scores": scores(**values), "chance": chance or {}}}
    data = {"examples": {"train": 20, "valid": 9}, "shortened": shortened or {}}
    grid = [{"learning_rate": 3e-5, "seed": 1}]
    more = {"recipe": f"{name}_{task}", "run": run, "tests": tests, "data": data, "grid": grid}
    more["settings"] = f"train {way} --seed {seed}\nfinetune {task}{how}\n"
    return result(folder / f"{len(task)}{way}", arch, seed, more=more)


def folders(folder):
    return read_report(sorted(folder.iterdir()), Wanted())


def text(folder):
    return to_markdown(folders(folder))


def markdown_of(paths):
    return to_markdown(read_report(paths, Wanted()))


def test_the_lowest_perplexity_is_the_best_and_learned_positions_are_the_baseline(tmp_path):
    for seed in (1, 2):
        model(tmp_path, LEARNED, 20.0 + seed, seed)
        model(tmp_path, ROTARY, 15.0 + seed / 2, seed)
        model(tmp_path, "transformer_learned_t5_mlm_tiny", 30.0, seed)
    made = recipe(tmp_path / "books", "books")
    assert made["baseline"].label == (LEARNED, "") and made["answer"]["best"].label == (ROTARY, "")
    found = row(made, ROTARY)["differences"]["test"]
    assert found.better and found.value == -5.75 and found.p is None
    assert [one["longer"] for one in made["sets"]] == [False] * 3  # test_long has no longer blocks
    assert "Where there is one seed, nothing shows how much trainings differ." not in text(tmp_path)
    model(tmp_path, "tupe_r_mlm_tiny", 31.0)
    assert "Where there is one seed, nothing shows how much trainings differ." in text(tmp_path)
    cells = table(text(tmp_path), "Recipe")
    assert cells["header"][2:4] == ["perplexity ↓ `test`", "difference"] and cells["`roformer_mlm_tiny`"][1][:2] == "**"
    assert "15.75 perplexity ↓" in answers(folders(tmp_path)) and "\u22125.75 (not tested, 2 seeds" in text(tmp_path)


def test_a_report_on_text_alone_has_no_words_of_translation(tmp_path):
    for arch, value in ((LEARNED, 20.0), (ROTARY, 15.0), (TUPE, 21.0)):
        model(tmp_path, arch, value)
        model(tmp_path, arch, value + 1, variant="x")
        tuned(tmp_path, arch, "CoLA", matthews=value)
    made = text(tmp_path)
    assert [word for word in OF_TRANSLATION if word in made] == []
    assert "3 training documents, 4,000 bytes, 1,000 tokens, 60 BPE merges" in made and "7 lines." in made
    assert "tokens 5,000" in part(made, "Costs")
    assert "scripts/evaluate.sh" in made and "perplexity, loss: `fairseq-validate`" in made
    assert "Not tested there:" in part(made, "Variants")
    claims = part(made, "The papers' claims")
    assert "- `books`: 1 in line, 1 against." in claims and "**against** +1.00 |" in claims


def test_beside_translation_both_are_explained(tmp_path):
    result(tmp_path / "small", "transformer_sinusoidal_tiny", test=0.3)
    result(tmp_path / "small", "roformer_tiny", test=0.1)
    model(tmp_path, LEARNED, 20.0)
    report = folders(tmp_path)
    assert [one["name"] for one in report.recipes] == ["small", "books"]
    made = text(tmp_path)
    assert "sacrebleu's own p" in made and "no difference is tested" in made and "target tokens" in made


def test_bits_per_byte_have_their_digits_and_table_6_stands_beside(tmp_path):
    for arch, value in (("transformer_linear_learned_lm_tiny", 9.0), ("roformer_linear_lm_tiny", 8.0)):
        model(tmp_path, arch, value, task="language_modeling", bits_per_byte=2.1234)
    made = text(tmp_path)
    assert recipe(tmp_path / "books", "books")["baseline"].label[0] == "transformer_linear_learned_lm_tiny"
    assert table(made, "Scores on `test`")["`roformer_linear_lm_tiny`"] == ["2.123", "4.500"]
    published = part(made, "Published figures")
    assert "of another size and other data" in published and "TUPE" not in published
    assert table(made, "Published figures")["`roformer`"] == ["2.759", "15.78"]


def test_fine_tunings_are_compared_over_common_seeds(tmp_path):
    for arch, gain in ((LEARNED, 0.0), (ROTARY, 1.0)):
        tuned(tmp_path, arch, "CoLA", 1, matthews=50.0 + gain)
        tuned(tmp_path, arch, "RTE", 1, accuracy=70.0)
    tuned(tmp_path, LEARNED, "CoLA", 2, matthews=60.0)
    assert table(text(tmp_path), "Fine-tuning")[f"`{ROTARY}`"][-1] == "+0.50"


def test_models_that_were_pretrained_in_several_ways_are_told_apart_in_every_task(tmp_path):
    for way, gain in (("b", 0.0), ("a", 1.0)):
        for task, metric in (("CoLA", "matthews"), ("RTE", "accuracy")):
            for seed in (1, 2)[: 2 if task == "CoLA" or way == "b" else 1]:
                tuned(tmp_path, ROTARY, task, seed, way=way, **{metric: 50.0 + gain})
    tuned(tmp_path, ROTARY, "RTE", 2, way="c", accuracy=90.0)
    made = table(text(tmp_path), "Fine-tuning")
    assert made[f"`{ROTARY}` (pretraining 1)"][:3] == ["1, 2", "**51.00±0.00** (3e-05)", "51.00 (3e-05)"]
    assert made[f"`{ROTARY}` (pretraining 2)"][:3] == ["1, 2", "50.00±0.00 (3e-05)", "50.00±0.00 (3e-05)"]
    assert made[f"`{ROTARY}` (pretraining 3)"][1:3] == ["not run", "**90.00** (3e-05)"]


def test_a_difference_over_some_seeds_says_so(tmp_path):
    for arch, seed, value in ((LEARNED, 1, 14.0), (LEARNED, 2, 22.0), (ROTARY, 1, 15.0)):
        model(tmp_path, arch, value, seed)
    assert "it has +1.00 over the common seeds (not tested" in text(tmp_path)


def test_a_model_with_several_pretrainings_stays_the_baseline(tmp_path):
    for way, seeds in (("b", (1, 2)), ("a", (1,))):
        for seed in seeds:
            tuned(tmp_path, LEARNED, "CoLA", seed, way=way, matthews=50.0)
    tuned(tmp_path, ROTARY, "CoLA", matthews=60.0)
    tuned(tmp_path, ROTARY, "SCM", name="scm", way="c", accuracy=60.0)  # another table
    (made, _) = folders(tmp_path).tuned
    assert made["baseline"].arch == LEARNED and (ROTARY, "") in made["labels"]


def test_systems_that_were_fine_tuned_otherwise_say_so_with_one_name_in_each_task(tmp_path):
    for task, metric in (("CoLA", "matthews"), ("RTE", "accuracy")):
        for epochs in (3, 10):
            for seed in (1, 2)[: 1 + (task == "CoLA")]:
                tuned(tmp_path / str(epochs), ROTARY, task, seed, how=f" epochs {epochs} batch 32", **{metric: epochs})
    made = table(markdown_of(sorted(tmp_path.glob("*/*"))), "Fine-tuning")
    assert [made[f"`{ROTARY}` (epochs {epochs} batch 32)"][-2] for epochs in (3, 10)] == ["3.00", "10.00"]


def test_fine_tuning_is_one_table_of_systems_and_tasks(tmp_path):
    for arch, gain in ((LEARNED, 0.0), (TUPE, 4.0)):
        for seed in (1, 2):
            tuned(tmp_path, arch, "CoLA", seed, f"{seed + 1}e-05", matthews=20.0 + gain)
        cut = {"train": 3, "valid": 1} if gain else {"train": 2, "valid": 0}
        scored = dict(pearson=70.0 + gain, spearman=60.0)
        tuned(tmp_path, arch, "STS-B", shortened=cut, chance={"pearson": 0.5, "x": 9.0}, **scored)
    tuned(tmp_path, ROTARY, "CoLA", matthews=90.0)
    report = folders(tmp_path)
    made = text(tmp_path)
    assert not report.recipes and "glue, fine-tuning: 3 systems, 2 tasks." in answers(report)
    assert f"Best on average: {TUPE}, 49.00." in answers(report) and "it has +4.00 (not tested)" in answers(report)
    assert table(made, "Fine-tuning") == {
        "header": ["system", "seeds", "CoLA Matthews ↑", "STS-B Pearson ↑", "STS-B Spearman ↑", "average ↑",
                   "difference"],
        f"`{TUPE}`": ["1, 2", "24.00±0.00 (2e-05 / 3e-05)", "**74.00** (3e-05)", "**60.00**", "49.00", "+4.00"],
        f"`{LEARNED}`": ["1, 2", "20.00±0.00 (2e-05 / 3e-05)", "70.00 (3e-05)", "**60.00**", "45.00", "baseline"],
        f"`{ROTARY}`": ["1", "**90.00** (3e-05)", "not run", "not run", "", ""],
    }  # fmt: skip
    shortened = "Shortened for lack of room, in training and validation: STS-B 3 and 1."
    assert shortened in made
    assert "median of 5 trainings" in made and "CoLA 9" in made
    assert "The most frequent label has: STS-B Pearson 0.50.\n" in made
    assert table(made, "Published figures")["`tupe_r`"][-1] == "84.90"


def test_a_recipe_of_fine_tuning_can_be_the_only_one(tmp_path):
    tuned(tmp_path, ROTARY, "SCM", name="scm", accuracy=55.0, count=1)
    model(tmp_path, LEARNED, 20.0)
    paths = sorted(tmp_path.iterdir())
    assert [one["name"] for one in read_report(paths, Wanted("scm")).tuned] == ["scm"]
    assert not read_report(paths, Wanted("scm")).recipes and not read_report(paths, Wanted("books")).tuned
    made = markdown(tmp_path / "3")
    assert "is no result" in made and "average" not in part(made, "Fine-tuning") and "Published" not in made
    with pytest.raises(Failure, match="the baseline 'x' has no result"):
        read_report(paths, Wanted(baseline="x"))


def test_pictures_say_that_nothing_was_tested(tmp_path):
    pytest.importorskip("matplotlib")
    from pipeline.report.pictures import ALIKE, UNTESTED, draw

    model(tmp_path, LEARNED, 20.0)
    model(tmp_path, ROTARY, 15.0)
    report = folders(tmp_path)
    draw(report)
    assert set(report.recipes[0]["pictures"]) == {"valid-updates", "train-updates"}
    drawn = report.pictures["scores.svg"].lower()
    assert UNTESTED.lower() in drawn and ALIKE not in drawn


def test_names_in_files_of_fine_tuning_are_escaped(tmp_path):
    nasty = "<b>a|b</b> *c* `d`"
    tuned(tmp_path / "x", "`|<i>", nasty, name="<u>", accuracy=50.0)
    tuned(tmp_path / "x", "`|<i>", "SCM", name="<u>", accuracy=50.0)
    page = ElementTree.fromstring(to_html(text(tmp_path / "x"), {}))
    assert not {"b", "i", "u", "em"} & {element.tag for element in page.find("body/main").iter()}
    assert {len(line) for line in next(page.iter("table")).iter("tr")} == {6}


def test_models_are_compared_on_the_same_blocks(tmp_path):
    model(tmp_path, ROTARY, 16.0)
    model(tmp_path, TUPE, 8.0, blocks="other blocks")
    report = folders(tmp_path)
    assert [system.arch for system in report.recipes[0]["ran"]] == [ROTARY]
    reasons = [reason.partition(" than ")[0] for _, reason in report.broken]
    assert reasons == ["has other sentences, blocks or tokens in test"]


def test_perplexities_of_other_tokens_are_not_compared(tmp_path):
    model(tmp_path, ROTARY, 16.0)
    model(tmp_path, TUPE, 8.0, tokens=900)
    assert [system.arch for system in folders(tmp_path).recipes[0]["ran"]] == [ROTARY]
