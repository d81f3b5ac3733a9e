"""Supervised alignments: fairseq's ``transformer_align`` with the same weights, every encoding, and a training."""

import argparse

import pytest
import torch
from fairseq import options
from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment,
)
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.sequence_generator import SequenceGeneratorWithAlignment
from fairseq.trainer import Trainer
from fairseq.utils import extract_hard_alignment

from fairseq_rope.alignment import Alignment, requested_alignment

from .commands import TRAIN, fairseq, run
from .helpers import ENCODINGS, EOS, FP32, PAD, build, build_with, decoder_input, pad, sentences, task

NO_DROPOUT = dict(dropout=0.0, share_all_embeddings=False)


def sample():
    """Two sentences with alignments: rows (source, target) of indices into the batch, and their weights."""
    source, target = pad(sentences(2, 6), left=2), pad(sentences(2, 5, seed=2), right=1)
    width = target.size(1)
    pairs = torch.tensor([[2, 0], [3, 1], [6, 4], [5, width], [4, width + 2]])
    weights = torch.tensor([1.0, 1.0, 0.5, 1.0, 1.0])
    net_input = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}
    net_input["prev_output_tokens"] = pad(decoder_input(sentences(2, 5, seed=2)), right=1)
    count = int(target.ne(PAD).sum())
    return dict(net_input=net_input, target=target, ntokens=count, alignments=pairs, align_weights=weights)


def trained_by(model, lambda_=0.05):
    """The loss, its share of the alignments, and the gradients of ``lambda_`` times that share plus the rest."""
    criterion = LabelSmoothedCrossEntropyCriterionWithAlignment(task(), False, 0.1, lambda_)
    model.train()
    model.zero_grad()
    loss, _, log = criterion(model, sample())
    loss.backward()
    return loss.item(), log["alignment_loss"], {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize(
    "flags",
    [
        dict(),
        dict(alignment_layer=1),
        dict(alignment_heads=3),
        dict(alignment_layer=2, alignment_heads=4, full_context_alignment=True),
    ],
)
def test_loss_and_gradients_equal_those_of_transformer_align(flags):
    layers = dict(decoder_layers=6, encoder_attention_heads=4, decoder_attention_heads=4, **NO_DROPOUT)
    stock = build("transformer_align", encoder_layers=2, **layers, **flags)
    ours = build("transformer_sinusoidal_tiny", seed=1, **layers, **{"alignment_layer": 4, **flags})
    state = {name: value for name, value in stock.state_dict().items() if name in ours.state_dict()}
    ours.load_state_dict(state)
    (loss, share, gradients), (stock_loss, stock_share, stock_gradients) = trained_by(ours), trained_by(stock)
    assert (loss, share) == (pytest.approx(stock_loss, rel=1e-5), pytest.approx(stock_share, rel=1e-5))
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, stock_gradients[name], **FP32, msg=name)


@pytest.mark.parametrize("full_context", [False, True])
def test_every_encoding_learns_alignments(full_context):
    """Nothing but the alignments asks for another gradient of the attention to the encoder."""
    name = "decoder.layers.1.encoder_attn.q_proj.weight"
    for encoding in ENCODINGS:
        model = build_with(encoding, alignment_layer=1, full_context_alignment=full_context, **NO_DROPOUT)
        with_alignments, without = (trained_by(model, lambda_)[2][name].clone() for lambda_ in (10.0, 0.0))
        assert not torch.allclose(with_alignments, without, atol=1e-4), encoding


def test_alignments_of_the_data_are_learned_by_one_head_of_the_last_layer_but_one():
    cfg, words = build("roformer_tiny", decoder_layers=3).cfg, task()
    assert requested_alignment(cfg, words) is None
    for of_task in ("cfg", "args"):  # fairseq's older tasks have the latter
        asks = argparse.Namespace(**{of_task: argparse.Namespace(load_alignments=True)})
        assert requested_alignment(cfg, asks) == Alignment(layer=1, heads=1, full_context=False)


@pytest.mark.parametrize("full_context", [False, True])
def test_a_search_prints_the_alignments_that_were_learned(full_context):
    options = dict(alignment_layer=0, alignment_heads=2, full_context_alignment=full_context)
    model = build("roformer_tiny", decoder_layers=3, **options).eval()
    source = pad(sentences(2, 6), left=2)
    batch = {"net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}}
    model.make_generation_fast_(need_attn=True)
    search = SequenceGeneratorWithAlignment([model], task().target_dictionary, beam_size=1, print_alignment="hard")
    for i, (hypothesis,) in enumerate(search.generate([model], batch)):
        target = hypothesis["tokens"][None]
        words = batch["net_input"]["src_tokens"][i : i + 1]
        attn = model(words, words.ne(PAD).sum(1), decoder_input(target))[1]["attn"][0]
        expected = extract_hard_alignment(attn[0], words[0], target[0], PAD, EOS)
        assert hypothesis["alignment"] == expected and len(expected) > 1


WITH_ALIGNMENT = "label_smoothed_cross_entropy_with_alignment"


def test_a_training_whose_alignments_would_be_ignored_is_refused(tmp_path):
    words = [str(tmp_path / "bin"), *"--cpu --distributed-world-size 1 --arch roformer_tiny --optimizer adam".split()]
    for criterion, flags, message in (
        (
            "fused_label_smoothed_cross_entropy",
            ["--load-alignments"],
            f"does not learn alignments: .* {WITH_ALIGNMENT}",
        ),
        ("cross_entropy", ["--load-alignments"], "--criterion cross_entropy does not learn alignments"),
        (WITH_ALIGNMENT, [], "has no alignments to learn: give --load-alignments"),
        (WITH_ALIGNMENT, ["--load-alignments"], r"bin has no train\.align\.\*: .*fairseq-preprocess --align"),
    ):
        parser = options.get_training_parser()
        args = options.parse_args_and_arch(parser, [*words, "--criterion", criterion, *flags])
        with pytest.raises(ValueError, match=message):
            Trainer(convert_namespace_to_omegaconf(args), None, None, None)


@pytest.mark.slow
def test_a_training_with_load_alignments(data, tmp_path):
    for split in ("train", "valid"):
        for lang in ("en", "de"):
            lines = (data / f"bpe/{split}.{lang}").read_text(encoding="utf-8").splitlines(keepends=True)[:60]
            (tmp_path / f"{split}.{lang}").write_text("".join(lines), encoding="utf-8")
        (tmp_path / f"{split}.align").write_text("0-0 1-1\n" * len(lines), encoding="utf-8")
    text = ["--trainpref", tmp_path / "train", "--validpref", tmp_path / "valid", "--align-suffix", "align"]
    words = ["--srcdict", data / "bin/dict.en.txt", "--tgtdict", data / "bin/dict.de.txt"]
    run("fairseq-preprocess", "-s", "en", "-t", "de", *text, *words, "--destdir", tmp_path / "bin")
    flags = [*TRAIN, "--criterion", WITH_ALIGNMENT, "--load-alignments"]
    flags += ["--arch", "roformer_tiny", "--max-update", 2, "--save-dir", tmp_path / "run"]
    done = fairseq("train", tmp_path, *flags)
    assert '"train_alignment_loss"' in done.stdout + done.stderr
    trained = torch.load(tmp_path / "run/checkpoint_last.pt", weights_only=True)["cfg"]["model"]
    assert (trained.alignment_layer, trained.alignment_heads) == (0, 1)
    options = ["--path", tmp_path / "run/checkpoint_last.pt", "--gen-subset", "valid", "--batch-size", 9]
    assert "\nA-" in fairseq("generate", tmp_path, *options, "--max-len-b", 9, "--print-alignment", "hard").stdout
