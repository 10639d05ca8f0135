"""Outcomes, their words and their tally, on samples that leave no doubt; accuracy over temperature, drawn."""

from __future__ import annotations

import matplotlib
import numpy as np

from lae_core.evidence import compare, rules
from lae_core.evidence.stats import paired
from lae_core.figures.experiments import over_temperature

matplotlib.use("agg")
NOISE = np.array([-0.3, 0.1, 0.2, -0.1, 0.15])


def sample(mean: float, shift: int = 0) -> list[float]:
    """Five runs about a mean; `shift` turns the noise, so that differences have some."""
    return (mean + np.roll(NOISE, shift)).tolist()


def against(mean: float) -> compare.Comparison:
    return compare.decide({"a": paired(sample(mean), sample(0, 1))}, margin=2, minimum=2)["a"]


HIGHER, SAME, LOWER = against(5), against(0), against(-5)
WIDE = compare.decide({"a": paired([-9, 9, 3, -4, 2], [0] * 5)}, margin=2, minimum=2)["a"]


def test_the_four_outcomes():
    assert [c.outcome for c in (HIGHER, SAME, LOWER, WIDE)] == ["higher", "same", "lower", "undecided"]


def test_parts_of_a_claim():
    assert rules.combine(["reproduced", "reproduced"]) == "reproduced"
    assert rules.combine(["contradicted", "contradicted"]) == "contradicted"
    assert rules.combine(["reproduced", "contradicted"]) == "partly"
    assert rules.combine(["open", "contradicted"]) == "open"


def test_a_tally_counts_and_shows_the_ends():
    text = compare.tally([HIGHER, LOWER, SAME, WIDE])
    assert text.startswith("1 higher, 1 same, 1 lower, 1 undecided of 4 (lowest a: -5.0")
    assert compare.tally([HIGHER]) == str(HIGHER) and compare.tally([]) == "not run"
    assert compare.tally([HIGHER, LOWER]) == f"{LOWER}; {HIGHER}"


def test_panels_of_one_setting_share_a_row():
    lines = {"lae": ([1, 4, 16], np.random.default_rng(0).normal(60, 1, (5, 3)))}
    figure = over_temperature({f"{k}": lines for k in range(4)}, "accuracy", {f"{k}": sample(60) for k in range(4)})
    assert [axes.get_subplotspec().rowspan.start for axes in figure.axes] == [0, 0, 1, 1]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["1", "4", "16"]
