"""Masked and causal language models: what they start with, what they refuse, and fairseq's command lines."""

import argparse
import re

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_rope import RoFormerLanguageModel, RoFormerMaskedModel
from fairseq_rope.architectures import match_architectures
from fairseq_rope.masked_hub import MaskedHub
from fairseq_rope.positions import POSITIONS
from pipeline.finetuning.predict import predict

from .commands import USER_DIR, parameters, run
from .helpers import BOS, ENCODINGS, EOS, PAD, build, build_with
from .model_folders import binarise

TRAIN = ["--optimizer", "fused_adam", "--lr", "0.005", "--batch-size", "16", "--required-batch-size-multiple", "1"]
TRAIN += ["--log-format", "json", "--seed", "3", "--no-epoch-checkpoints", "--tokens-per-sample", "32"]
MASKED = ["--task", "masked_lm", "--criterion", "fused_masked_lm", *TRAIN]
CAUSAL = ["--task", "language_modeling", "--criterion", "fused_label_smoothed_cross_entropy", *TRAIN]
CAUSAL += ["--label-smoothing", "0", "--share-decoder-input-output-embed"]


def test_a_masked_model_starts_with_berts_values():
    for encoding in ENCODINGS:
        model = build_with(encoding, "mlm", encoder_embed_dim=64, encoder_ffn_embed_dim=128)
        for name, parameter in model.named_parameters():
            is_own = ".position." in name and POSITIONS[encoding].own_initial_values
            if parameter.dim() > 1 and parameter.requires_grad and not is_own:
                error = 0.02 / (2 * parameter.numel()) ** 0.5  # of the standard deviation
                assert abs(parameter.std() - 0.02) < 5 * error + 0.0003, name  # the row of padding is zero
        assert not model.encoder.lm_head.weight[PAD].any()


@pytest.mark.parametrize("kind", ["mlm", "lm"])
def test_the_special_symbol_of_language_models_begins_a_text(kind):
    """A masked model finds it also where the training has replaced it, and behind padding."""
    model = build_with("tupe_a", kind)
    position = (model.encoder.sentence_encoder if kind == "mlm" else model.decoder).position
    assert position.positions_of(torch.tensor([[BOS, 7, EOS, 8, EOS, PAD]])).special.tolist() == [[True] + 5 * [False]]
    replaced = position.positions_of(torch.tensor([[PAD, 9, BOS, EOS]])).special.tolist()
    assert replaced == [[False, kind == "mlm", kind == "lm", False]]
    assert build_with("tupe_a").decoder.position.config.special_idx == EOS


def test_linear_attention_has_performers_features_at_the_size_of_enwik8():
    for arch in match_architectures(["*_linear*_lm_*"]):
        features = build(arch, decoder_embed_dim=48, decoder_layers=1).decoder.layers[0].self_attn.position
        assert type(features).__name__ == ("RandomFeatures" if arch.endswith("enwik8") else "PositiveUnits")


def write_texts(folder, lines, words=None):
    """fairseq's data of ``lines``, split name to list, with the dictionary ``words`` or their own."""
    folder.mkdir(parents=True)
    if words is None:
        words = Dictionary()
        for line in lines["train"]:
            words.encode_line(line, append_eos=False)
        words.finalize(padding_factor=1)
    words.save(str(folder / "dict.txt"))
    for split, rows in lines.items():
        binarise(folder / split, [words.encode_line(row, add_if_not_exist=False) for row in rows], words)
    return words


@pytest.fixture(scope="module")
def texts(corpus, tmp_path_factory):
    """The data of language models, ``texts``, and of a task to tune them for, ``pairs``."""
    folder = tmp_path_factory.mktemp("language")
    lines = {split: (corpus / f"{split}.en").read_text(encoding="utf-8").splitlines() for split in ("train", "valid")}
    words = write_texts(folder / "texts", lines)
    short = {split: [row.split() for row in rows[:32]] for split, rows in lines.items()}
    for name, known, column in (
        ("input0", words, lambda row: " ".join(row[:5])),
        ("input1", words, lambda row: " ".join(row[5:9])),
        ("label", None, lambda row: str(len(row) % 2)),
    ):
        columns = {split: [column(row) for row in rows] for split, rows in short.items()}
        write_texts(folder / "pairs" / name, columns, known)
    return folder


def tool(name, data, *options, **kwargs):
    return run(f"fairseq-{name}", data, "--user-dir", USER_DIR, *options, **kwargs)


def last_line(done):
    return [line for line in (done.stdout + done.stderr).splitlines() if "|" in line or "Perplexity" in line][-1]


def resumed(data, tmp_path, *options):
    """Trains twice 2 updates; returns the checkpoint."""
    for updates in (2, 4):
        log = tool("train", data, *options, "--max-update", updates, "--save-dir", tmp_path / "run").stdout
    assert "Loaded checkpoint" in log and "train_ppl" in log and '"train_num_updates": "4"' in log
    assert all(value.isfinite().all() for value in parameters(tmp_path / "run/checkpoint_last.pt").values())
    return tmp_path / "run/checkpoint_last.pt"


@pytest.mark.slow
def test_a_masked_model_trains_resumes_fills_masks_and_is_tuned(texts, tmp_path):
    path = resumed(texts / "texts", tmp_path, "--arch", "tupe_r_mlm_tiny", *MASKED, "--bf16")
    evaluated = tool("validate", texts / "texts", "--path", path, *MASKED[:4], "--batch-size", 4)
    assert re.search(r"valid on 'valid' subset \| loss \d+\.\d+ \| ppl", last_line(evaluated))

    tune = ["--arch", "tupe_r_mlm_tiny", "--restore-file", path, "--reset-optimizer", "--reset-dataloader"]
    tune += ["--reset-meters", "--max-positions", 32, "--init-token", 0, "--separator-token", 2, *TRAIN[:-2]]
    tune += ["--task", "sentence_prediction", "--criterion", "sentence_prediction", "--num-classes", 2]
    log = tool("train", texts / "pairs", *tune, "--max-update", 2, "--save-dir", tmp_path / "tuned")
    assert "_accuracy" in log.stderr + log.stdout

    words, folder = argparse.Namespace(encode=str, decode=str), (str(path.parent), path.name, str(texts / "texts"))
    model = RoFormerMaskedModel.from_pretrained(*folder, tokenizer="moses", bpe="characters")
    assert model.bpe.decode(model.bpe.encode("It isn't.")) == "It isn't."
    model.bpe = words
    filled = model.fill_mask("The old king <mask> a dog .", topk=3)
    assert filled and all(text.startswith("The old king") and 0 < share < 1 for text, share, _ in filled)
    model = RoFormerMaskedModel.from_pretrained(str(tmp_path / "tuned"), path.name, str(texts / "pairs"), bpe=None)
    model.bpe = words
    pair = model.encode("The old king", "sees a dog .")
    predicted, again = (model.predict("sentence_classification_head", pair) for _ in range(2))
    assert predicted.shape == (1, 2) and predicted.exp().sum().isclose(torch.tensor(1.0))
    assert torch.equal(predicted, again)  # without dropout

    model.task.load_dataset("valid")  # finetune.sh predicts it in its order, which fairseq's batches do not have
    texts_of = [sample["net_input.src_tokens"] for sample in model.task.dataset("valid")]
    head = [model.predict("sentence_classification_head", text, return_logits=True) for text in texts_of]
    lead = torch.cat(head).detach() @ torch.tensor([-1.0, 1.0])
    state = torch.load(tmp_path / "tuned" / path.name, weights_only=False)
    state["model"]["classification_heads.sentence_classification_head.out_proj.bias"][0] += lead.mean()
    torch.save(state, tmp_path / "centred.pt")
    labels = model.task.label_dictionary
    expected = [labels[labels.nspecial + int(each > lead.mean())] for each in lead]
    assert predict(tmp_path / "centred.pt", texts / "pairs") == expected and len(set(expected)) == 2


@pytest.mark.slow
def test_a_causal_model_trains_resumes_is_evaluated_and_generates(texts, tmp_path):
    fp16 = ["--fp16", "--fp16-init-scale", "4"]
    path = resumed(texts / "texts", tmp_path, "--arch", "transformer_learned_untied_lm_tiny", *CAUSAL, *fp16)
    common = ["--path", path, "--tokens-per-sample", 32, "--batch-size", 4, "--gen-subset", "valid"]
    losses = []
    for window in (0, 16):
        options = [*common, "--sample-break-mode", "none", "--context-window", window]
        evaluated = last_line(tool("eval-lm", texts / "texts", *options))
        losses.append(float(re.search(r"Loss \(base 2\): ([\d.]+),", evaluated)[1]))
    assert losses[0] != losses[1] and max(losses) < 20
    options = [*common, "--sample-break-mode", "eos", "--task", "language_modeling", "--prefix-size", 2]
    generated = tool("generate", texts / "texts", *options, "--beam", 2, "--max-len-b", 40).stdout
    assert generated.count("\nH-") + generated.startswith("H-") > 2
    model = RoFormerLanguageModel.from_pretrained(str(path.parent), path.name, str(texts / "texts"))
    assert model.models[0].decoder.position.config.max_positions == 32
    assert model.sample("the old king", beam=2, max_len_b=9).startswith("the old king")


def test_encodings_made_for_length_begin_with_their_papers_values_in_masked_models():
    """Where tables begin with BERT's N(0, 0.02), KERPLE would hardly see a distance."""
    kerple, fire, pope = (
        build_with(name, "mlm").encoder.sentence_encoder.position for name in ("kerple", "fire", "pope")
    )
    assert kerple.rates.min() >= 0 and kerple.rates.mean() > 0.3
    assert fire.output.std() > 0.06
    assert not pope.delta.any()


def test_a_tied_head_takes_no_parameters_of_another_one():
    tied, untied = (build("roformer_mlm_tiny", untie_weights_roberta=untie) for untie in (False, True))
    with pytest.raises(ValueError, match="--untie-weights-roberta"):
        tied.load_state_dict(untied.state_dict())
    untied.load_state_dict(tied.state_dict())
    assert torch.equal(untied.encoder.lm_head.weight, tied.encoder.sentence_encoder.embed_tokens.weight)
    tied.load_state_dict(untied.state_dict())


def hub_of(model, **config):
    task = argparse.Namespace(source_dictionary=model.encoder.dictionary, dictionary=model.encoder.dictionary, **config)
    hub = MaskedHub(argparse.Namespace(tokenizer=None, bpe=None), task, model)
    hub.bpe = argparse.Namespace(encode=str, decode=str)  # splits at spaces
    return hub


def test_sentences_are_separated_as_in_the_fine_tuning():
    model = build("roformer_mlm_tiny")
    for options, separators in (({"separator_token": 2}, 3), ({"separator_token": None}, 2), ({}, 3)):
        for place in ("cfg", "args"):  # fairseq's older tasks have args
            tokens = hub_of(model, **{place: argparse.Namespace(**options)}).encode("w5 w6", "w7").tolist()
            assert tokens.count(model.encoder.dictionary.eos()) == separators


@pytest.mark.parametrize("training", [False, True])
def test_a_masked_word_is_filled_in_without_dropout_and_the_mode_stays(training):
    model = build("roformer_mlm_tiny", dropout=0.5).train(training)
    hub = hub_of(model)
    assert hub.fill_mask("w5 <mask> w7") == hub.fill_mask("w5 <mask> w7")
    assert all(module.training == training for module in model.modules())
