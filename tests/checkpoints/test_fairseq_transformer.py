"""Conversion between fairseq's plain transformer and this plugin's model: what is equal, what is kept and refused."""

import argparse
import copy
import shutil

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from omegaconf import OmegaConf

from fairseq_rope import RoFormerModel
from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.average import average_checkpoints
from fairseq_rope.checkpoints.fairseq_transformer import convert_checkpoint
from fairseq_rope.checkpoints.files import CheckpointError, save_checkpoint

from ..commands import SMALL, fairseq, hypotheses, one_line, parameters, run
from ..helpers import PAD, decoder_input, sentences, task

TOOL = ["python", "-m", "fairseq_rope", "convert"]
DIMENSIONS = dict(encoder_embed_dim=32, decoder_embed_dim=32, encoder_ffn_embed_dim=48, decoder_ffn_embed_dim=48)
BOTH_LEARNED = dict(encoder_learned_pos=True, decoder_learned_pos=True)
STOCK = {
    "sinusoidal": {},
    "odd": dict(encoder_embed_dim=33, decoder_embed_dim=33, encoder_attention_heads=3, decoder_attention_heads=3),
    "learned": BOTH_LEARNED,
    "learned encoder": dict(encoder_learned_pos=True),
    "none": dict(no_token_positional_embeddings=True),
    "pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=True, layernorm_embedding=True),
    "shared": dict(share_all_embeddings=True, no_scale_embedding=True),
    "layer drop": dict(encoder_layerdrop=0.1, decoder_layerdrop=0.1, adaptive_softmax_cutoff="10,20"),
}


def checkpoint(arch, **options):
    """As fairseq-train writes it, of a small model; the positions are large enough to be felt, unused rows too."""
    args = argparse.Namespace(arch=arch, _name=arch, max_source_positions=64, max_target_positions=64)
    vars(args).update({**DIMENSIONS, **options})
    torch.manual_seed(1)
    model = build_model(args, task())
    for name, parameter in model.named_parameters():
        if "position" in name:
            torch.nn.init.normal_(parameter)
    return {"args": None, "cfg": {"model": args}, "model": model.state_dict(), "last_optimizer_state": {"steps": 3}}


def model_of(state):
    model = build_model(copy.deepcopy(state["cfg"]["model"]), task())
    model.load_state_dict(state["model"], strict=True)
    return model.eval()


def same(tensors, others):
    return tensors.keys() == others.keys() and all(torch.equal(value, others[name]) for name, value in tensors.items())


@pytest.fixture
def batch():
    """Sources padded on the left and decoder inputs padded on the right, as fairseq's batches are."""
    source, target = sentences(5, 9), decoder_input(sentences(5, 11, seed=2))
    for row in range(1, 5):
        source[row, :row], target[row, -row:] = PAD, PAD
    return source, target


@pytest.mark.parametrize("options", STOCK.values(), ids=STOCK)
@torch.no_grad()
def test_the_converted_model_encodes_and_scores_given_targets_to_the_same_bits(batch, options):
    state = checkpoint("transformer_tiny", **options)
    stock, ours = model_of(state), model_of(convert_checkpoint(state, "plugin"))
    assert isinstance(ours, RoFormerModel) and not isinstance(stock, RoFormerModel)
    source, target = batch
    encoded = [model.encoder(source) for model in (stock, ours)]
    assert torch.equal(*(out["encoder_out"][0][source.ne(PAD).T] for out in encoded))
    decoded = [model.decoder(target, encoder_out=out)[0] for model, out in zip((stock, ours), encoded, strict=True)]
    assert torch.equal(*(out[target.ne(PAD)] for out in decoded))
    other = model_of(checkpoint("transformer_tiny", **{**options, "no_token_positional_embeddings": True}))
    felt = not torch.equal(other.encoder(source)["encoder_out"][0], encoded[0]["encoder_out"][0])
    assert felt == ("no_token_positional_embeddings" not in options)


@pytest.mark.parametrize("options", STOCK.values(), ids=STOCK)
@torch.no_grad()
def test_step_by_step_it_has_the_same_bits(batch, options):
    state = checkpoint("transformer_tiny", **options)
    stock, ours = model_of(state), model_of(convert_checkpoint(state, "plugin"))
    encoded = stock.encoder(batch[0])
    target = decoder_input(sentences(5, 11, seed=2))
    caches = ({}, {})
    for length in range(1, 12):
        steps = [
            model.decoder(target[:, :length], encoder_out=encoded, incremental_state=cache)[0]
            for model, cache in zip((stock, ours), caches, strict=True)
        ]
        assert torch.equal(*steps)


@pytest.mark.parametrize("options", STOCK.values(), ids=STOCK)
def test_there_and_back_gives_the_same_tensors_and_configuration(options):
    state = checkpoint("transformer_tiny", **options)
    before = copy.deepcopy(state)
    back = convert_checkpoint(convert_checkpoint(state, "plugin"), "fairseq")
    assert same(back["model"], state["model"])
    assert back.keys() | {"last_optimizer_state"} == state.keys()
    assert vars(back["cfg"]["model"]) == vars(state["cfg"]["model"])
    assert same(before["model"], state["model"]) and before["cfg"] == state["cfg"]  # its argument is left alone


def test_a_checkpoint_of_hydra_converts_there_and_back():
    """Its configuration is a dictionary, and stays one."""
    state = checkpoint("transformer_tiny", **BOTH_LEARNED)
    fields = {name: value for name, value in vars(state["cfg"]["model"]).items() if name != "arch"}
    state = {**state, "cfg": {"model": fields}}
    plugin = convert_checkpoint(state, "plugin")
    back = convert_checkpoint(plugin, "fairseq")
    assert same(back["model"], state["model"]) and back["cfg"] == state["cfg"]
    model = build_model(OmegaConf.create(plugin["cfg"]["model"]), task())
    model.load_state_dict(plugin["model"], strict=True)
    assert isinstance(model, RoFormerModel)


@pytest.mark.parametrize("options", STOCK.values(), ids=STOCK)
@torch.no_grad()
def test_a_model_trained_here_becomes_fairseqs_with_the_same_bits(batch, options):
    plugin = convert_checkpoint(checkpoint("transformer_tiny", **options), "plugin")
    del plugin["plain_transformer"]  # as after further training: nothing is remembered
    back = convert_checkpoint(plugin, "fairseq")
    assert back["cfg"]["model"].arch == back["cfg"]["model"]._name == "transformer"
    stock, ours = model_of(back), model_of(plugin)
    source, target = batch
    outputs = [model.decoder(target, encoder_out=model.encoder(source))[0] for model in (stock, ours)]
    assert not isinstance(stock, RoFormerModel) and torch.equal(*(out[target.ne(PAD)] for out in outputs))


@pytest.mark.parametrize(
    "arch, options, expected",
    [
        ("transformer", {}, "transformer_sinusoidal_base"),
        ("transformer_wmt_en_de", {}, "transformer_sinusoidal_base"),
        ("transformer_wmt_en_de_big", {}, "transformer_sinusoidal_big"),
        ("transformer_iwslt_de_en", {}, "transformer_sinusoidal_iwslt_de_en"),
        ("fairseq_transformer_multi30k", {}, "transformer_sinusoidal_multi30k"),
        ("fairseq_transformer_tiny", BOTH_LEARNED, "transformer_learned_tiny"),
        ("transformer_wmt_en_de", dict(no_token_positional_embeddings=True), "transformer_none_base"),
        ("transformer_wmt_en_de", dict(encoder_layers=12), "transformer_sinusoidal_base"),
        ("transformer_tiny", {}, "transformer_sinusoidal_tiny"),
    ],
)
def test_the_architecture_is_named_by_encoding_and_nearest_size_and_keeps_its_dimensions(arch, options, expected):
    args = argparse.Namespace(arch=arch, **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    tables = {f"{side}.embed_positions.weight": torch.zeros(1026, 8) for side in ("encoder", "decoder")}
    converted = convert_checkpoint({"cfg": {"model": args}, "model": tables}, "plugin")["cfg"]["model"]
    assert converted.arch == expected and not hasattr(converted, "_name")
    ARCH_CONFIG_REGISTRY[expected](converted)  # as when the model is built
    for side in ("encoder", "decoder"):
        for name in ("embed_dim", "ffn_embed_dim", "attention_heads", "layers"):
            assert getattr(converted, f"{side}_{name}") == getattr(args, f"{side}_{name}")
    assert converted.dropout == args.dropout


def test_the_checkpoint_of_an_older_version_converts_and_keeps_its_extra_numbers(tmp_path):
    """It has its configuration in `args`, misses newer options, and stored a number for the sinusoids."""
    state = checkpoint("transformer_tiny")
    old = argparse.Namespace(**vars(state["cfg"]["model"]), task="translation", data=str(tmp_path))
    for name in ("_name", "no_token_positional_embeddings", "decoder_learned_pos", "merge_src_tgt_embed"):
        delattr(old, name)
    number = {f"{side}.embed_positions._float_tensor": torch.ones(1) for side in ("encoder", "decoder")}
    history = [{"num_updates": 1, "optimizer_name": "", "lr_scheduler_state": {}}]
    rest = {"optimizer_history": history, "extra_state": {"train_iterator": {"epoch": 1}}}
    old_state = {"args": old, "model": {**state["model"], **number}, **rest}
    converted = convert_checkpoint(old_state, "plugin")
    save_checkpoint(converted, tmp_path / "old.pt")
    (model,), _, _ = load_model_ensemble_and_task([str(tmp_path / "old.pt")], task=_Task())
    assert isinstance(model, RoFormerModel) and model.encoder.version.item() == 3
    back = convert_checkpoint(converted, "fairseq")
    assert same(back["model"], old_state["model"]) and back["args"].arch == "transformer_tiny"


class _Task:
    def build_model(self, cfg):
        return build_model(cfg, task())


def test_a_version_of_fairseq_that_stores_a_number_for_the_sinusoids_gets_it(monkeypatch):
    class Official(torch.nn.Module):
        def __init__(self, **kwargs):
            super().__init__()
            self.register_buffer("_float_tensor", torch.ones(1))

    monkeypatch.setattr("fairseq_rope.checkpoints.fairseq_transformer.SinusoidalPositionalEmbedding", Official)
    plugin = checkpoint("transformer_sinusoidal_tiny", decoder_position="learned")
    added = convert_checkpoint(plugin, "fairseq")["model"].keys() - plugin["model"].keys()
    assert added == {"encoder.embed_positions._float_tensor", "decoder.embed_positions.weight"}


@pytest.mark.parametrize("kept", ["in_proj_weight", "self_attn.in_proj_weight"])
def test_the_optimizers_state_is_kept_only_where_the_parameters_are_the_same(kept):
    state = checkpoint("transformer_tiny")
    assert convert_checkpoint(state, "plugin")["last_optimizer_state"] == {"steps": 3}
    assert "last_optimizer_state" not in convert_checkpoint(checkpoint("transformer_tiny", **BOTH_LEARNED), "plugin")
    state["model"][f"encoder.layers.0.{kept}"] = torch.zeros(96, 32)
    assert "last_optimizer_state" not in convert_checkpoint(state, "plugin")


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(cross_self_attention=True), "--cross-self-attention is not supported here"),
        (dict(encoder_xformers_att_config="{}"), "--encoder-xformers-att-config is not supported here"),
        (dict(base_layers=1), "--base-layers is not supported here"),
        (dict(arch="transformer_align"), "transformer_align is not an architecture of fairseq's plain transformer"),
        (dict(arch="lstm"), "lstm is not an architecture of fairseq's plain transformer"),
        (dict(arch="somebodys_own"), "somebodys_own is not an architecture of fairseq's plain transformer"),
        (dict(arch="roformer_tiny"), "roformer_tiny is an architecture of this plugin already"),
        (BOTH_LEARNED, "there is no parameter encoder.embed_positions.weight"),
    ],
)
def test_what_this_plugin_lacks_is_refused(changes, message):
    state = checkpoint("transformer_tiny")
    vars(state["cfg"]["model"]).update(changes)
    with pytest.raises(CheckpointError, match=message):
        convert_checkpoint(state, "plugin")


@pytest.mark.parametrize(
    "arch, options, message",
    [
        ("roformer_tiny", {}, "the encoder's positions are rope, and fairseq has only sinusoidal, learned, none"),
        ("transformer_learned_tiny", dict(decoder_position="alibi"), "the decoder's positions are alibi"),
        ("transformer_sinusoidal_tiny", dict(decoder_position="none"), "the decoder alone has no positions"),
        ("transformer_tiny", {}, "transformer_tiny is an architecture of fairseq's already"),
        ("transformer_align", {}, "transformer_align is not an architecture of this plugin"),
    ],
)
def test_what_fairseq_lacks_is_refused(arch, options, message):
    with pytest.raises(CheckpointError, match=message):
        convert_checkpoint(checkpoint(arch, **options), "fairseq")


def test_learned_tables_that_do_not_fit_and_their_moving_average_are_refused():
    state = checkpoint("transformer_tiny", **BOTH_LEARNED)
    with pytest.raises(CheckpointError, match="--store-ema"):
        convert_checkpoint({**state, "extra_state": {"ema": {}}}, "plugin")
    state["cfg"]["model"].max_source_positions = 66
    with pytest.raises(CheckpointError, match="weight has 66 rows, too few for 66 positions and the padding"):
        convert_checkpoint(state, "plugin")


def test_a_configuration_without_an_architecture_is_refused():
    for cfg in ({}, argparse.Namespace(_name="transformer")):
        with pytest.raises(CheckpointError, match="names no architecture"):
            convert_checkpoint({"cfg": {"model": cfg}, "model": {}}, "plugin")


@pytest.fixture(scope="module")
def plain(data, tmp_path_factory):
    """fairseq's own transformer, trained and averaged by the scripts, and its conversion beside it."""
    out = tmp_path_factory.mktemp("plain") / "run"
    options = ["--data", data, "--arch", "fairseq_transformer_tiny", "--recipe", "demo", "--out", out]
    extra = ["--max-update", 60, "--save-every", 12, "--", *SMALL, "--max-tokens", 600, "--lr", 0.005]
    run("scripts/train.sh", *options, *extra)
    run("scripts/average.sh", "--run", out, "--data", data, "--last", 2)
    converted = out.with_name("converted")
    shutil.copytree(out, converted)
    done = run(*TOOL, out / "checkpoint.pt", "--to", "plugin", "--out", converted / "checkpoint.pt")
    assert done.stdout == f"{converted}/checkpoint.pt: {out}/checkpoint.pt as transformer_sinusoidal_tiny\n"
    return out, converted


@pytest.mark.slow
def test_search_finds_the_same_hypotheses_and_scores(data, plain, corpus):
    sources = (corpus / "test.en").read_text(encoding="utf-8").splitlines()
    found = []
    for folder in plain:
        hub = RoFormerModel.from_pretrained(
            str(folder), "checkpoint.pt", ".", tokenizer="moses", bpe="subword_nmt", source_lang="en", target_lang="de"
        )
        assert isinstance(hub.models[0], RoFormerModel) == (folder == plain[1])
        found.append(hub.generate([hub.encode(line) for line in sources], beam=4, lenpen=0.6))
    assert len(found[0]) == 21
    for stock, ours in zip(*found, strict=True):
        assert len(stock) == len(ours) == 4
        for one, other in zip(stock, ours, strict=True):
            assert torch.equal(one["tokens"], other["tokens"])
            assert torch.equal(one["positional_scores"], other["positional_scores"])
            assert torch.equal(one["score"], other["score"])


@pytest.mark.slow
def test_generate_interactive_and_translate_work_and_the_way_back_gives_the_same_output(data, plain, corpus, tmp_path):
    run(*TOOL, plain[1] / "checkpoint.pt", "--to", "fairseq", "--out", tmp_path / "back.pt")
    assert same(parameters(tmp_path / "back.pt"), parameters(plain[0] / "checkpoint.pt"))
    paths = [plain[0] / "checkpoint.pt", plain[1] / "checkpoint.pt", tmp_path / "back.pt"]
    search = ["--beam", 4, "--lenpen", 0.6, "--required-batch-size-multiple", 1]
    stock, ours, back = (fairseq("generate", data, "--path", path, *search).stdout for path in paths)
    scored = [[line for line in out.splitlines() if line[:2] in ("H-", "P-")] for out in (stock, back)]
    assert len(scored[0]) == 42 and scored[0] == scored[1]
    assert hypotheses(ours) == hypotheses(stock)
    source = (data / "bpe/test.en").read_text()
    interactive = fairseq("interactive", data, "--path", paths[1], *search[:4], "--buffer-size", 30, input=source)
    assert hypotheses(interactive.stdout) == hypotheses(stock)
    raw = (corpus / "test.en").read_text()
    translated = [run("scripts/translate.sh", folder, "--engine", "fairseq", input=raw).stdout for folder in plain]
    assert len(translated[0].splitlines()) == 21 and translated[0] == translated[1]


@pytest.mark.slow
def test_training_goes_on_where_it_was(data, plain, tmp_path):
    """With the optimizer's state: fairseq's own model and the converted one make the same next steps."""
    last = plain[0] / "checkpoints/checkpoint_last.pt"
    run(*TOOL, last, "--to", "plugin", "--out", tmp_path / "last.pt")
    common = [
        *SMALL,
        "--share-all-embeddings",
        "--optimizer",
        "fused_adam",
        "--adam-betas",
        "(0.9, 0.98)",
        "--dropout",
        0,
    ]
    common += ["--lr", 0.005, "--lr-scheduler", "inverse_sqrt", "--warmup-updates", 10, "--max-tokens", 600]
    common += ["--criterion", "fused_label_smoothed_cross_entropy", "--label-smoothing", 0.1, "--max-update", 64]
    common += ["--no-epoch-checkpoints", "--disable-validation"]
    trained = []
    for arch, path in (("fairseq_transformer_tiny", last), ("transformer_sinusoidal_tiny", tmp_path / "last.pt")):
        options = ["--arch", arch, "--restore-file", path, "--save-dir", tmp_path / arch]
        log = fairseq("train", data, *common, *options)
        assert "@ 60 updates" in log.stdout + log.stderr
        trained.append(parameters(tmp_path / arch / "checkpoint_last.pt"))
    before = parameters(last)
    moved, apart = (
        max((value - others[name]).abs().max().item() for name, value in trained[0].items())
        for others in (before, trained[1])
    )
    assert apart < 0.05 * moved  # gradients differ in the last bits; without the state: further apart than they moved


@pytest.mark.slow
def test_converted_checkpoints_average_and_learned_ones_serve_for_finetuning(data, plain, tmp_path):
    updates = sorted((plain[0] / "checkpoints").glob("checkpoint_*_*.pt"))[-2:]
    for path in updates:
        run(*TOOL, path, "--to", "plugin", "--out", tmp_path / path.name)
    averaged = average_checkpoints([tmp_path / path.name for path in updates])
    assert same(convert_checkpoint(averaged, "fairseq")["model"], average_checkpoints(updates)["model"])

    common = [*SMALL, "--share-all-embeddings", "--optimizer", "adam", "--lr", 0.001, "--max-tokens", 600]
    common += ["--no-epoch-checkpoints", "--disable-validation", "--max-update", 2]
    learned = ["--encoder-learned-pos", "--decoder-learned-pos", "--save-dir", tmp_path / "a"]
    fairseq("train", data, *common, "--arch", "fairseq_transformer_tiny", *learned)
    done = run(*TOOL, tmp_path / "a/checkpoint_last.pt", "--to", "plugin", "--out", tmp_path / "learned.pt")
    assert done.stdout.endswith("as transformer_learned_tiny, without the optimizer's state\n")
    finetune = ["--arch", "transformer_learned_tiny", "--finetune-from-model", tmp_path / "learned.pt"]
    fairseq("train", data, *common, *finetune, "--save-dir", tmp_path / "b")
    start, end = parameters(tmp_path / "learned.pt"), parameters(tmp_path / "b/checkpoint_last.pt")
    moved = max((value - end[name]).abs().max().item() for name, value in start.items())
    assert 0 < moved < 0.003  # two steps of Adam at 0.001, from where the other model was


def test_a_failure_is_one_line_and_writes_nothing(tmp_path, capsys):
    for name, arch in (("rope", "roformer_tiny"), ("stock", "transformer_tiny")):
        save_checkpoint(checkpoint(arch), tmp_path / f"{name}.pt")
    (tmp_path / "damaged.pt").write_bytes((tmp_path / "stock.pt").read_bytes()[:2000])
    before = sorted(tmp_path.iterdir())
    out = ["--out", tmp_path / "x.pt"]
    one_line(run(*TOOL, tmp_path / "rope.pt", "--to", "fairseq", *out, fails=True), "positions are rope")
    for name, to, message in (
        ("stock", "fairseq", "already"),
        ("damaged", "plugin", "damaged"),
        ("missing", "plugin", "no such checkpoint"),
    ):
        assert main(["convert", *map(str, [tmp_path / f"{name}.pt", "--to", to, *out])]) == 1
        printed = capsys.readouterr().err
        assert printed.startswith("fairseq-rope: error: ") and printed.count("\n") == 1 and message in printed
    for wrong in ([], ["--to", "pytorch"], ["--to", "plugin"]):
        with pytest.raises(SystemExit, match="2"):
            main(["convert", str(tmp_path / "stock.pt"), *wrong])
    assert sorted(tmp_path.iterdir()) == before
