"""fairseq's plain transformer, trained and converted: the training goes on."""

import pytest

from ..commands import SMALL, fairseq, parameters, run


@pytest.mark.slow
def test_training_goes_on_where_it_was(data, tmp_path):
    """With the optimizer's state: fairseq's own model and the converted one make the same next steps."""
    options = ["--data", data, "--arch", "fairseq_transformer_tiny", "--recipe", "demo", "--out", tmp_path / "run"]
    extra = ["--max-update", 30, "--save-every", 6, "--", *SMALL, "--max-tokens", 600, "--lr", 0.005]
    run("scripts/train.sh", *options, *extra)
    last, converted = tmp_path / "run/checkpoints/checkpoint_last.pt", tmp_path / "last.pt"
    done = run("python", "-m", "fairseq_rope", "convert", last, "--to", "plugin", "--out", converted)
    assert "transformer_sinusoidal_tiny" in done.stdout
    common = [*SMALL, "--share-all-embeddings", "--dropout", 0, "--max-tokens", 600, "--lr", 0.005]
    common += ["--optimizer", "fused_adam", "--adam-betas", "(0.9, 0.98)", "--lr-scheduler", "inverse_sqrt"]
    common += ["--warmup-updates", 10]
    common += ["--criterion", "fused_label_smoothed_cross_entropy", "--label-smoothing", 0.1, "--max-update", 34]
    common += ["--no-epoch-checkpoints", "--disable-validation"]
    trained = []
    for arch, path in (("fairseq_transformer_tiny", last), ("transformer_sinusoidal_tiny", converted)):
        options = ["--arch", arch, "--restore-file", path, "--save-dir", tmp_path / arch]
        log = fairseq("train", data, *common, *options)
        assert "@ 30 updates" in log.stdout + log.stderr
        trained.append(parameters(tmp_path / arch / "checkpoint_last.pt"))
    before = parameters(last)
    moved, apart = (
        max((value - others[name]).abs().max().item() for name, value in trained[0].items())
        for others in (before, trained[1])
    )
    assert apart < 0.05 * moved  # gradients differ in the last bits; without the state: further apart than they moved
