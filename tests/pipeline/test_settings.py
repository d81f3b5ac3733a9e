"""What train.sh says of settings that are allowed, and mostly a mistake."""

import pytest

from pipeline.command import last_value
from pipeline.settings import check_warmup


def test_the_last_value_of_a_flag_counts_and_may_have_an_equals_sign():
    flags = ["--lr", "1", "--model", "lr=0.1/x", "--lr=2=3"]
    assert (last_value(flags, "--lr"), last_value(flags, "--model"), last_value(flags, "--no")) == (
        "2=3",
        "lr=0.1/x",
        None,
    )


@pytest.mark.parametrize(
    "scheduler,warmup,told", [("polynomial_decay", 8, True), ("polynomial_decay", 7, False), ("inverse_sqrt", 9, False)]
)
def test_a_learning_rate_that_never_falls_is_told(capsys, scheduler, warmup, told):
    check_warmup(["--lr-scheduler", scheduler, "--warmup-updates=9", "--warmup-updates", str(warmup)], 8)
    assert ("rises for 8 updates and training has 8: give fewer" in capsys.readouterr().err) == told
