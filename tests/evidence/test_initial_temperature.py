"""The rules for the claims about temperatures, on samples whose verdict is plain."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

from lae_core.evidence import compare, temperature_rules
from lae_core.evidence.experiment_figures import over_temperature

matplotlib.use("agg")
NOISE = np.array([-0.3, 0.1, 0.2, -0.1, 0.15])


def sample(mean: float, shift: int = 0) -> list[float]:
    """Five runs about a mean; `shift` turns the noise, so that differences have some."""
    return (mean + np.roll(NOISE, shift)).tolist()


def against(mean: float) -> compare.Comparison:
    return compare.compare({"a": (sample(mean), sample(0, 1))}, margin=2)["a"]


HIGHER, SAME, LOWER = against(5), against(0), against(-5)
WIDE = compare.compare({"a": ([-9, 9, 3, -4, 2], [0] * 5)}, margin=2)["a"]


def test_the_four_outcomes():
    assert [c.outcome for c in (HIGHER, SAME, LOWER, WIDE)] == ["higher", "same", "lower", "undecided"]


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([50, 55, 60, 55], "reproduced"),
        ([65, 55, 60, 55], "contradicted"),
        ([60.05, 55, 60, 55], "open"),  # an end is best, by chance
        ([60, 60, 60, 55], "partly"),
    ],
)
def test_the_best_start_lies_inside(means, verdict):
    samples = {t: sample(m, k) for k, (t, m) in enumerate(zip([0.25, 1, 4, 16], means, strict=True))}
    if verdict == "partly":
        samples[0.25] = samples[4] = sample(60)
        samples[0.25] = (np.array(samples[0.25]) - [0.2, -0.1, 0, 0, 0]).tolist()
    assert temperature_rules.best_start({"here": samples})[1] == verdict


def test_beats_and_matches():
    assert temperature_rules.beats([HIGHER, HIGHER]) == "reproduced"
    assert temperature_rules.beats([HIGHER, LOWER]) == "partly"
    assert temperature_rules.beats([SAME, LOWER]) == "contradicted"
    assert temperature_rules.beats([WIDE, LOWER]) == "open"
    assert temperature_rules.matches([SAME, SAME]) == "reproduced"
    assert temperature_rules.matches([SAME, HIGHER]) == "contradicted"
    assert temperature_rules.matches([SAME, WIDE]) == "open"
    assert temperature_rules.no_gain([SAME, LOWER]) == "reproduced"
    assert temperature_rules.no_gain([HIGHER]) == "contradicted"
    assert temperature_rules.no_gain([WIDE]) == "open"


@pytest.mark.parametrize(
    ("one", "channel", "other", "verdict"),
    [
        (5, 0, 0, "reproduced"),
        (5, 0, 9, "partly"),  # better than average, but another is better still
        (-5, -5, 0, "contradicted"),
        (-5, 0, 0, "open"),
        (0, 0, 0, "open"),
    ],
)
def test_the_advice(one, channel, other, verdict):
    means = {"average": 0, "fixed 1": 0, "one 4": one, "channel 4": channel, "other": other}
    samples = {name: sample(m, k) for k, (name, m) in enumerate(means.items())}
    found, decided = temperature_rules.advised(
        {"here": samples}, ["one 4", "channel 4"], average="average", plain="fixed 1"
    )
    assert (len(found), decided) == (8, verdict)


def test_lower_than_the_plain_pool_contradicts_the_advice():
    means = {"average": 0, "fixed 1": 9, "one 4": 5}
    samples = {name: sample(m, k) for k, (name, m) in enumerate(means.items())}
    assert (
        temperature_rules.advised({"here": samples}, ["one 4"], average="average", plain="fixed 1")[1] == "contradicted"
    )


def test_parts_of_a_claim():
    assert compare.together(["reproduced", "reproduced"]) == "reproduced"
    assert compare.together(["contradicted", "contradicted"]) == "contradicted"
    assert compare.together(["reproduced", "contradicted"]) == "partly"
    assert compare.together(["open", "contradicted"]) == "open"


def test_a_tally_counts_and_shows_the_ends():
    text = compare.tally([HIGHER, LOWER, SAME])
    assert text.startswith("1 higher, 1 same, 1 lower (lowest a: -5.0")
    assert compare.tally([HIGHER]) == str(HIGHER)


def test_panels_of_one_setting_share_a_row():
    lines = {"lae": ([1, 4, 16], np.random.default_rng(0).normal(60, 1, (5, 3)))}
    figure = over_temperature({f"{k}": lines for k in range(4)}, "accuracy", {f"{k}": sample(60) for k in range(4)})
    assert [axes.get_subplotspec().rowspan.start for axes in figure.axes] == [0, 0, 1, 1]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["1", "4", "16"]
