"""Paired comparisons against scipy, Holm over the pairs given, and the words for what came out."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sps

from lae_core.evidence.compare import (
    MOST_PAIRS,
    all_of,
    at_most_partly,
    compare,
    paired_power,
    pairs_needed,
    some_of,
    table,
)
from lae_core.evidence.stats import holm

OUTCOMES = ("higher", "lower", "same", "undecided")
percent = st.floats(0, 100).map(lambda value: round(value, 2))
samples = st.integers(2, 12).flatmap(
    lambda n: st.tuples(st.lists(percent, min_size=n, max_size=n), st.lists(percent, min_size=n, max_size=n))
)


def one(a, b, **options):
    return compare({"pair": (a, b)}, **options)["pair"]


def spread(mean, sd, n):
    """n numbers with exactly this mean and deviation."""
    x = np.arange(n) - (n - 1) / 2
    return mean + sd * x / x.std(ddof=1)


@given(samples)
def test_the_test_is_scipys_paired_t(pair):
    a, b = map(np.array, pair)
    found = one(a, b)
    assert found.n == len(a) and found.difference == pytest.approx(np.mean(a - b), abs=1e-9)
    if len(set(np.round(a - b, 9))) > 1:
        theirs = sps.ttest_rel(a, b)
        assert found.pvalue == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-12)
        interval = theirs.confidence_interval(0.95)
        assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high), abs=1e-6)


@given(samples)
def test_turned_round_the_outcome_turns_too(pair):
    a, b = pair
    there, back = one(a, b, margin=2), one(b, a, margin=2)
    assert back.difference == -there.difference and back.pvalue == there.pvalue
    assert back.outcome == {"higher": "lower", "lower": "higher"}.get(there.outcome, there.outcome)


def test_holm_corrects_over_all_pairs_given_and_can_take_a_decision_back():
    a, zero = spread(1.0, 1.0, 8), np.zeros(8)
    assert one(a, zero).outcome == "higher"
    many = compare({str(k): (a + 0.001 * k, zero) for k in range(5)})
    assert [c.corrected for c in many.values()] == holm([c.pvalue for c in many.values()])
    assert {c.outcome for c in many.values()} == {"undecided"}
    assert compare({}) == {}


def test_samples_without_spread_are_decided_by_their_means():
    equal = one([50.0] * 3, [50.0] * 3)
    assert (equal.difference, equal.pvalue, equal.outcome) == (0, 1, "undecided") and equal.seeds_needed is None
    assert one([50.0] * 3, [50.0] * 3, margin=2).outcome == "same"
    # 0.3 − 0.2 is not 0.1 to the last bit, and the mean of three equal numbers may not be that number
    apart = one([0.3] * 3, [0.2] * 3)
    assert (apart.sd, apart.pvalue, apart.outcome) == (0, 0, "higher")


@pytest.mark.parametrize(("centre", "outcome"), [(0.0, "same"), (1.3, "same"), (1.4, "undecided"), (-1.4, "undecided")])
def test_the_same_are_arms_whose_90_percent_interval_lies_within_the_margin(centre, outcome):
    n, half = 6, 0.65
    a = spread(centre, half * np.sqrt(n) / sps.t.ppf(0.95, n - 1), n)
    # a hundred more pairs without a difference make Holm forbear, so that the margin alone is seen
    noise = {str(k): (spread(0, 5, n), np.zeros(n)) for k in range(100)}
    assert compare({"pair": (a, np.zeros(n))} | noise, margin=2)["pair"].outcome == outcome
    assert compare({"pair": (a, np.zeros(n))} | noise)["pair"].outcome == "undecided"


def test_a_clear_difference_within_the_margin_is_still_a_difference():
    assert one(spread(0.5, 0.1, 10), np.zeros(10), margin=2).outcome == "higher"


@pytest.mark.parametrize("pair", [([1.0], [2.0]), ([1.0, 2.0], [1.0, 2.0, 3.0]), ([], [])])
def test_pairs_that_are_none_are_refused_by_name(pair):
    with pytest.raises(ValueError, match="a against b: .* at least 2"):
        compare({"a against b": pair})


def test_what_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        one([1.0, float("nan")], [1.0, 2.0])


def test_power_is_the_share_of_tests_that_find_the_difference():
    draws = np.random.default_rng(0).normal(1.0, 1.5, (20000, 8))
    share = np.mean(sps.ttest_1samp(draws, 0, axis=1).pvalue < 0.05)
    assert paired_power(1.0, 1.5, 8) == pytest.approx(share, abs=4 * np.sqrt(0.25 / 20000))
    assert paired_power(-1.0, 1.5, 8) == paired_power(1.0, 1.5, 8)


@pytest.mark.parametrize("difference", [30.0, 3.0, 1.0, 0.3, 0.05])
def test_the_pairs_needed_are_the_fewest_with_that_power(difference):
    n = pairs_needed(difference, 1.0)
    assert paired_power(difference, 1.0, n) >= 0.8
    assert n == 2 or paired_power(difference, 1.0, n - 1) < 0.8
    assert pairs_needed(-difference, 1.0) == n == pairs_needed(10 * difference, 10.0)


def test_smaller_differences_and_more_power_need_more_pairs():
    needed = [pairs_needed(d, 1.0) for d in (2.0, 1.0, 0.5, 0.2)]
    assert needed == sorted(needed) and len(set(needed)) == 4
    assert pairs_needed(0.5, 1.0, power=0.95) > pairs_needed(0.5, 1.0)


def test_where_a_million_pairs_would_not_do_none_is_given():
    assert paired_power(0.001, 1.0, MOST_PAIRS) < 0.8
    assert pairs_needed(0.001, 1.0) is None
    for difference, sd in ((0.0, 1.0), (1.0, 0.0), (1.0, -1.0)):
        with pytest.raises(ValueError, match="difference="):
            pairs_needed(difference, sd)


def test_the_table_says_what_would_settle_the_undecided():
    pairs = {"clear": (spread(3, 0.1, 4), np.zeros(4)), "open": (spread(0.5, 1, 4), np.zeros(4))}
    frame = table(compare(pairs | {"equal": (np.ones(4), np.ones(4))})).set_index("comparison")
    assert frame["outcome"].tolist() == ["higher", "undecided", "undecided"]
    assert frame["seeds needed"].tolist() == ["–", f"{pairs_needed(0.5, 1):,}", "over a million"]


def test_the_table_leaves_out_the_setting_that_all_rows_share():
    pair = (spread(3, 0.1, 4), np.zeros(4))
    alike, mixed = {"A: x against y": pair, "A: z against y": pair}, {"A: x against y": pair, "B: x against y": pair}
    assert table(compare(alike))["comparison"].tolist() == ["x against y", "z against y"]
    assert table(compare(mixed))["comparison"].tolist() == list(mixed)


def test_the_table_shows_no_zero_that_is_none():
    row = table(compare({"pair": (spread(-0.0004, 0.0001, 4), np.zeros(4))})).iloc[0]
    assert row["difference (95 % interval)"] == "-0.0004 (-0.0006 to -0.0002)"
    clear = compare({"pair": (spread(3, 0.01, 6), np.zeros(6))})
    assert table(clear)["p (Holm)"].tolist() == ["< 0.001"] and "p < 0.001): higher" in str(clear["pair"])


@pytest.mark.parametrize("outcomes", list(product(OUTCOMES, repeat=2)))
def test_truth_table_of_verdicts(outcomes):
    wanted, opposite = outcomes.count("higher"), outcomes.count("lower")
    every = all_of(outcomes, "higher", "lower")
    some = some_of(outcomes, "higher", "lower")
    assert every == ("reproduced" if wanted == 2 else "partly" if wanted else "contradicted" if opposite else "open")
    assert (
        some
        == {
            (True, False): "reproduced",
            (True, True): "partly",
            (False, True): "contradicted",
            (False, False): "open",
        }[wanted > 0, opposite > 0]
    )


def test_of_nothing_nothing_is_decided_and_a_part_is_at_most_partly():
    assert all_of([], "higher", "lower") == some_of([], "higher", "lower") == "open"
    verdicts = ("reproduced", "partly", "contradicted", "open")
    assert [at_most_partly(v) for v in verdicts] == ["partly", "partly", "contradicted", "open"]
