"""Masked and causal language models: what they start with, what they refuse, and fairseq's command lines."""

import argparse
import re

import pytest
import torch
from fairseq.benchmark.dummy_lm import DummyLMConfig, DummyLMTask
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import data_file_path, index_file_path, make_builder
from fairseq.models import build_model

from fairseq_rope import RoFormerLanguageModel, RoFormerMaskedModel
from fairseq_rope.architectures import match_architectures

from .commands import ROOT, USER_DIR, parameters, run
from .helpers import BOS, ENCODINGS, EOS, FP32, PAD, build, build_with, sentences

TRAIN = ["--optimizer", "fused_adam", "--lr", "0.005", "--batch-size", "16", "--required-batch-size-multiple", "1"]
TRAIN += ["--log-format", "json", "--seed", "3", "--no-epoch-checkpoints", "--tokens-per-sample", "32"]
MASKED = ["--task", "masked_lm", "--criterion", "fused_masked_lm", *TRAIN]
CAUSAL = ["--task", "language_modeling", "--criterion", "fused_label_smoothed_cross_entropy", *TRAIN]
CAUSAL += ["--label-smoothing", "0", "--share-decoder-input-output-embed"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_masked_model_starts_with_berts_values(encoding):
    model = build_with(encoding, "mlm", encoder_embed_dim=64, encoder_ffn_embed_dim=128)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and parameter.requires_grad:
            error = 0.02 / (2 * parameter.numel()) ** 0.5  # of the standard deviation
            assert abs(parameter.std() - 0.02) < 5 * error + 0.0003, name  # the row of padding is zero
    assert not model.encoder.lm_head.weight[PAD].any()


@pytest.mark.parametrize("kind", ["mlm", "lm"])
def test_the_special_symbol_of_language_models_begins_a_text(kind):
    """A masked model finds it also where the training has replaced it, and behind padding."""
    model = build_with("tupe_a", kind)
    position = (model.encoder.sentence_encoder if kind == "mlm" else model.decoder).position
    assert position.steps(torch.tensor([[BOS, 7, EOS, 8, EOS, PAD]])).special.tolist() == [[True] + 5 * [False]]
    replaced = position.steps(torch.tensor([[PAD, 9, BOS, EOS]])).special.tolist()
    assert replaced == [[False, kind == "mlm", kind == "lm", False]]
    assert build_with("tupe_a").decoder.position.stack.special_idx == EOS


def test_a_masked_model_without_positions_is_fairseqs_with_the_same_weights():
    stock = build("fairseq_transformer_mlm_tiny", no_token_positional_embeddings=True)
    ours = build("transformer_none_mlm_tiny", seed=1)
    ours.load_state_dict(stock.state_dict())
    tokens = sentences(3, 9)
    tokens[1, 6:] = PAD
    masked = tokens.eq(tokens[0, 2])
    with torch.no_grad():
        torch.testing.assert_close(
            ours(tokens, masked_tokens=masked)[0], stock(tokens, masked_tokens=masked)[0], **FP32
        )


def test_given_embeddings_get_the_token_type_as_well():
    model, tokens = build("roformer_mlm_tiny", token_type_embedding=True), sentences(2, 5)
    words = model.encoder.sentence_encoder.embed_tokens(tokens)
    with torch.no_grad():
        expected, given, other = (
            model.encoder.extract_features(tokens, **more)[0]
            for more in ({}, {"token_embeddings": words}, {"token_embeddings": 2 * words})
        )
    torch.testing.assert_close(given, expected)
    assert not torch.allclose(other, expected)


def test_a_causal_model_without_positions_is_fairseqs_with_the_same_weights():
    stock = build("fairseq_transformer_lm_tiny", no_token_positional_embeddings=True)
    ours = build("transformer_none_lm_tiny", seed=1)
    ours.load_state_dict(stock.state_dict())
    tokens = sentences(3, 9)
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens)[0], stock(tokens)[0], **FP32)


@pytest.mark.parametrize(
    "arch, options, message",
    [
        ("roformer_mlm_tiny", dict(mha_heads_to_keep=2), "--mha-heads-to-keep is not supported here: an encoding"),
        ("roformer_mlm_tiny", dict(alibi_split_directions=True), "--alibi-split-directions belongs to .* alibi"),
        ("roformer_mlm_tiny", dict(max_positions=(64, 64)), "a masked model needs --task masked_lm, or"),
        ("transformer_learned_mlm_tiny", dict(max_positions=0), "--max-positions must be at least 1, not 0"),
        ("roformer_linear_mlm_tiny", dict(attention_dropout=0.1), "leave --attention-dropout at 0"),
        ("roformer_lm_tiny", dict(adaptive_input=True), "--adaptive-input is not supported here: the embeddings"),
        ("roformer_lm_tiny", dict(character_embeddings=True), "--character-embeddings is not supported here"),
        ("roformer_lm_tiny", dict(decoder_learned_pos=True), "--decoder-learned-pos is not supported here"),
        ("transformer_alibi_lm_tiny", dict(alibi_split_directions=True), "which the encoder does not use"),
    ],
)
def test_what_a_language_model_cannot_have_is_refused_by_name(arch, options, message):
    with pytest.raises(ValueError, match=message):
        build(arch, **options)


def test_a_causal_model_takes_its_longest_text_from_any_task():
    task = DummyLMTask(DummyLMConfig(max_target_positions=16, dict_size=50))  # has no args
    assert build_model(argparse.Namespace(arch="roformer_lm_tiny"), task).max_positions() == 16


def test_a_text_beyond_the_table_is_refused_with_the_flag_of_its_kind():
    for kind, flag in (("mlm", "--max-positions"), ("lm", "--max-target-positions")):
        model = build_with("learned_untied", kind, max_positions=6, max_target_positions=6)
        with pytest.raises(ValueError, match=f"a sentence of 7 tokens is longer .* larger {flag},"):
            model(sentences(1, 7))


def test_linear_attention_has_no_dropout_and_performers_features_at_the_size_of_enwik8():
    architectures = match_architectures(["*_linear*_lm_*"])
    assert len(architectures) == 2 * 4
    for arch in architectures:
        features = build(arch, decoder_embed_dim=48, decoder_layers=1).decoder.layers[0].self_attn.position
        assert type(features).__name__ == ("RandomFeatures" if arch.endswith("enwik8") else "PositiveUnits")


def binarise(folder, lines, words=None):
    """fairseq's data of ``lines``, split name to list, with the dictionary ``words`` or their own."""
    folder.mkdir(parents=True)
    if words is None:
        words = Dictionary()
        for line in lines["train"]:
            words.encode_line(line, append_eos=False)
        words.finalize(padding_factor=1)
    words.save(str(folder / "dict.txt"))
    for split, rows in lines.items():
        builder = make_builder(data_file_path(str(folder / split)), "mmap", vocab_size=len(words))
        for row in rows:
            builder.add_item(words.encode_line(row, add_if_not_exist=False).long())
        builder.finalize(index_file_path(str(folder / split)))
    return words


@pytest.fixture(scope="module")
def texts(corpus, tmp_path_factory):
    """The data of language models, ``texts``, and of two tasks to tune them for, ``pairs``."""
    folder = tmp_path_factory.mktemp("language")
    lines = {split: (corpus / f"{split}.en").read_text(encoding="utf-8").splitlines() for split in ("train", "valid")}
    words = binarise(folder / "texts", lines)
    for name, part in dict(input0=slice(0, 5), input1=slice(5, 9), input2=slice(2, 6)).items():
        parts = {split: [" ".join(row.split()[part]) for row in rows[:32]] for split, rows in lines.items()}
        binarise(folder / "pairs" / name, parts, words)
    labels = {split: [str(len(row) % 2) for row in rows[:32]] for split, rows in lines.items()}
    binarise(folder / "pairs/label", labels)
    for split, rows in labels.items():  # the task sentence_ranking reads text
        (folder / f"pairs/label/{split}.label").write_text("\n".join(rows) + "\n")
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
    return tmp_path / "run/checkpoint_last.pt"


@pytest.mark.slow
def test_a_masked_model_trains_resumes_fills_masks_and_is_tuned(texts, tmp_path):
    path = resumed(texts / "texts", tmp_path, "--arch", "tupe_r_mlm_tiny", *MASKED)
    evaluated = tool("validate", texts / "texts", "--path", path, *MASKED[:4], "--batch-size", 4)
    assert re.search(r"valid on 'valid' subset \| loss \d+\.\d+ \| ppl", last_line(evaluated))

    tune = ["--arch", "tupe_r_mlm_tiny", "--restore-file", path, "--reset-optimizer", "--reset-dataloader"]
    tune += ["--reset-meters", "--max-positions", 32, "--init-token", 0, "--separator-token", 2, *TRAIN[:-2]]
    for task in ("sentence_prediction", "sentence_ranking"):
        options = ["--task", task, "--criterion", task, "--num-classes", 2, "--max-update", 2]
        log = tool("train", texts / "pairs", *tune, *options, "--save-dir", tmp_path / task)
        assert "_accuracy" in log.stderr + log.stdout, log.stdout[-900:]

    words = type("Words", (), dict(encode=str, decode=str))()
    folder = str(path.parent), path.name, str(texts / "texts")
    with pytest.raises(ValueError, match="how to split text is not known: give from_pretrained the bpe"):
        RoFormerMaskedModel.from_pretrained(*folder).encode("The old king")
    model = RoFormerMaskedModel.from_pretrained(*folder, tokenizer="moses", bpe="characters")
    assert model.bpe.encode("It isn't.") == "I t ▁ i s n ▁ & a p o s ; t ▁ ."
    assert model.bpe.decode(model.bpe.encode("It isn't.")) == "It isn't."
    model.bpe = words
    filled = model.fill_mask("The old king <mask> a dog .", topk=3)
    assert filled and all(text.startswith("The old king") and 0 < share < 1 for text, share, _ in filled)
    model = RoFormerMaskedModel.from_pretrained(
        str(tmp_path / "sentence_prediction"), path.name, str(texts / "pairs"), bpe=None
    )
    model.bpe = words
    pair = model.encode("The old king", "sees a dog .")
    predicted, again = (model.predict("sentence_classification_head", pair) for _ in range(2))
    assert predicted.shape == (1, 2) and predicted.exp().sum().isclose(torch.tensor(1.0))
    assert torch.equal(predicted, again)  # without dropout


@pytest.mark.slow
def test_a_causal_model_trains_resumes_is_evaluated_and_generates(texts, tmp_path):
    path = resumed(texts / "texts", tmp_path, "--arch", "transformer_learned_untied_lm_tiny", *CAUSAL)
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
    assert model.models[0].decoder.position.stack.max_positions == 32
    assert model.sample("the old king", beam=2, max_len_b=9).startswith("the old king")
    with pytest.raises(ValueError, match="has no masked model: it is a RoFormerLanguageModel"):
        RoFormerMaskedModel.from_pretrained(str(path.parent), path.name, str(texts / "texts"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["roformer_mlm_tiny", *MASKED, "--bf16", "--checkpoint-activations"],
        ["tupe_a_lm_tiny", *CAUSAL, "--fp16", "--fp16-init-scale", "4", "--add-bos-token"],
    ],
)
def test_training_options_of_language_models(texts, tmp_path, options):
    log = tool("train", texts / "texts", "--arch", *options, "--max-update", 2, "--save-dir", tmp_path)
    assert '"valid_num_updates": "2"' in log.stderr + log.stdout
    assert all(value.isfinite().all() for value in parameters(tmp_path / "checkpoint_last.pt").values())


@pytest.mark.slow
def test_a_language_model_of_a_configuration_trains_and_is_evaluated(texts, tmp_path):
    page = (ROOT / "docs/language-models.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "causal.yaml").write_text(text, encoding="utf-8")
    train = ["fairseq-hydra-train", "--config-dir", tmp_path, "--config-name", "causal"]
    train += [f"common.user_dir={USER_DIR}", f"task.data={texts / 'texts'}", "dataset.batch_size=4"]
    train += [f"model.decoder_{name}={size}" for name, size in dict(layers=1, embed_dim=32, ffn_embed_dim=32).items()]
    run(*train, "optimization.max_update=2", "task.tokens_per_sample=32", cwd=tmp_path)
    options = ["--path", tmp_path / "checkpoints/checkpoint_last.pt", "--tokens-per-sample", 32, "--batch-size", 4]
    options += ["--context-window", 16]  # the task's blocks are shorter than the model's longest text
    assert "Perplexity" in last_line(tool("eval-lm", texts / "texts", *options, "--gen-subset", "valid"))
