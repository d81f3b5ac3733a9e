"""The result file of the run of the fixture ``finished``."""

from pipeline.results.collect import collect


def result_of(finished, variant=""):
    return collect(*finished, "demo", {"test1": "test_long"}, variant)


def unfinished(finished, reason="killed", variant=""):
    return collect(*finished, "demo", {"test1": "test_long"}, variant, reason)
