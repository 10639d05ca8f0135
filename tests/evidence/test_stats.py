"""The statistics against scipy, against cases worked by hand, and against what they promise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sps

from lae_core.evidence import stats
from lae_core.evidence.stats import Summary, bold, holm

numbers = st.lists(st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 3)), min_size=2, max_size=12)
alternatives = st.sampled_from(["two-sided", "less", "greater"])


@settings(max_examples=60, deadline=None)
@given(numbers, numbers, alternatives)
def test_welch_is_scipys_from_samples_and_from_summaries(a, b, alternative):
    if np.var(a) + np.var(b) < 1e-6:
        return  # decided by the means alone, tested below
    ours = stats.welch(a, b)
    theirs = sps.ttest_ind(a, b, equal_var=False, alternative=alternative)
    assert ours.value / ours.error == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-9)
    assert ours.pvalue(alternative) == pytest.approx(theirs.pvalue, rel=1e-9, abs=1e-12)
    assert ours.df == pytest.approx(theirs.df, rel=1e-9)
    x, y = stats.summarise(a), stats.summarise(b)
    printed = sps.ttest_ind_from_stats(x.mean, x.sd, x.n, y.mean, y.sd, y.n, equal_var=False, alternative=alternative)
    assert stats.welch(x, y).pvalue(alternative) == pytest.approx(printed.pvalue, rel=1e-9, abs=1e-12)
    interval, reference = ours.interval, theirs.confidence_interval(0.95)
    if alternative == "two-sided":
        assert (interval.low, interval.high) == pytest.approx((reference.low, reference.high), rel=1e-9, abs=1e-9)


def test_groups_without_spread_are_decided_by_their_means():
    assert stats.welch(Summary(90, 0, 5), Summary(90, 0, 5)).pvalue() == 1
    assert stats.welch(Summary(90, 0, 5), Summary(3, 0, 5)).pvalue("greater") == 0
    assert stats.welch(Summary(90, 0, 5), Summary(3, 0, 5)).pvalue("less") == 1
    assert stats.welch(Summary(90, 0, 5), Summary(3, 0, 5)).pvalue() == 0
    assert stats.welch([0.1] * 3, [0.1] * 10).pvalue() == 1


def test_mean_interval_is_scipys():
    x = [4.9, 5.1, 5.0, 5.3]
    ours = stats.mean_interval(x)
    theirs = sps.t.interval(0.95, 3, loc=np.mean(x), scale=sps.sem(x))
    assert (ours.low, ours.high) == pytest.approx(theirs)


def test_holm_by_hand():
    # Sorted .01 .02 .03 .04 times 4 3 2 1 = .04 .06 .06 .04, made monotone: .04 .06 .06 .06.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1, 1]


def test_bold_follows_the_rule_in_both_directions():
    groups = {
        "best": [1.0, 1.1, 0.9, 1.05, 0.95],
        "close": [1.02, 1.1, 0.93, 1.0, 1.04],
        "far": [3.0, 3.1, 2.9, 3.2, 2.8],
    }
    low = bold(groups, better="low")
    assert low["bold"].to_dict() == {"best": True, "close": True, "far": False}
    assert math.isnan(low["p"]["best"])
    assert low["p"]["far"] == sps.mannwhitneyu(groups["far"], groups["best"]).pvalue
    high = bold(groups, better="high", test="welch")
    assert high["bold"].to_dict() == {"best": False, "close": False, "far": True}
    expected = sps.ttest_ind(groups["best"], groups["far"], equal_var=False, alternative="less").pvalue
    assert high["p"]["best"] == pytest.approx(expected)
    assert bold({"a": [1, 1], "b": [1, 1]}, better="low")["bold"].all(), "all that tie are best"


def test_correction_only_adds_bold_entries():
    groups = {"best": Summary(5.0, 0.1, 10), **{f"p{i}": Summary(5.09, 0.1, 10) for i in range(4)}}
    entry = bold(groups, better="low", test="welch").loc["p0"]
    assert not entry["bold"] and entry["holm_bold"]
    assert entry["holm"] == pytest.approx(4 * entry["p"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Summary(1, -1, 5), "sd = -1"),
        (lambda: Summary(1, 1, 1), "n = 1"),
        (lambda: stats.welch([1, math.nan], [1, 2]), "1 of 2 results are not finite"),
        (lambda: bold({"a": Summary(1, 1, 5), "b": [3, 4]}, better="high"), "a: a rank test .* Welch"),
        (lambda: bold({}, better="low"), "at least one"),
        (lambda: bold({"a": [1, 2]}, better="small"), "better = 'small'"),
        (lambda: holm([2]), r"pvalues = \[2\]"),
        (lambda: stats.paired([1, 2], [1, 2, 3], "lae"), "lae: 2 and 3 results"),
    ],
)
def test_errors_name_the_parameter_and_its_value(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()
