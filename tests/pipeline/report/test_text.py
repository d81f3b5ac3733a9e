"""The report on language models: directions, words, tables, published figures."""

import pytest

from pipeline.report.render import answers

from .made_results import part, recipe, result, row, table
from .made_text import LEARNED, ROTARY, TUPE, folders, model, text, tuned

OF_TRANSLATION = ("BLEU", "bootstrap", "sentence", "target tokens", "Kept", "kept", "pairs", "score.sh", "decoding",
                  "significant", "not translation", "| p |")  # fmt: skip


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


def test_a_difference_over_some_seeds_says_so(tmp_path):
    for arch, seed, value in ((LEARNED, 1, 14.0), (LEARNED, 2, 22.0), (ROTARY, 1, 15.0)):
        model(tmp_path, arch, value, seed)
    assert "it has +1.00 over the common seeds (not tested" in text(tmp_path)


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
