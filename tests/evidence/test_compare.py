"""Paired comparisons against scipy, Holm over the pairs given, and the words for what came out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sps

from lae_core.evidence import stats
from lae_core.evidence.compare import Comparisons, Contrast, compare, decide, describe, table
from lae_core.evidence.stats import holm, paired_power, smallest_effect
from lae_core.runs.records import Record

percent = st.floats(0, 100).map(lambda value: round(value, 2))
samples = st.integers(2, 12).flatmap(
    lambda n: st.tuples(st.lists(percent, min_size=n, max_size=n), st.lists(percent, min_size=n, max_size=n))
)


def paired(pairs, margin=None):
    """Pairs of samples compared, by name."""
    estimates = {name: stats.paired(a, b, name) for name, (a, b) in pairs.items()}
    return decide(estimates, margin=margin, minimum=margin or 0.0)


def one(a, b, **options):
    return paired({"pair": (a, b)}, **options)["pair"]


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
    many = paired({str(k): (a + 0.001 * k, zero) for k in range(5)})
    assert [c.holm_pvalue for c in many.values()] == holm([c.pvalue for c in many.values()])
    assert {c.outcome for c in many.values()} == {"undecided"}
    assert paired({}) == {}


def test_samples_without_spread_are_decided_by_their_means():
    equal = one([50.0] * 3, [50.0] * 3)
    assert (equal.difference, equal.pvalue, equal.outcome) == (0, 1, "undecided")
    assert one([50.0] * 3, [50.0] * 3, margin=2).outcome == "same"
    # 0.3 − 0.2 is not 0.1 to the last bit, and the mean of three equal numbers may not be that number
    apart = one([0.3] * 3, [0.2] * 3)
    assert (apart.interval.low, apart.pvalue, apart.outcome) == (apart.difference, 0, "higher")


@pytest.mark.parametrize(("centre", "outcome"), [(0.0, "same"), (1.3, "same"), (1.4, "undecided"), (-1.4, "undecided")])
def test_the_same_are_arms_whose_90_percent_interval_lies_within_the_margin(centre, outcome):
    n, half = 6, 0.65
    a = spread(centre, half * np.sqrt(n) / sps.t.ppf(0.95, n - 1), n)
    # a hundred more pairs without a difference make Holm forbear, so that the margin alone is seen
    noise = {str(k): (spread(0, 5, n), np.zeros(n)) for k in range(100)}
    assert paired({"pair": (a, np.zeros(n))} | noise, margin=2)["pair"].outcome == outcome
    assert paired({"pair": (a, np.zeros(n))} | noise)["pair"].outcome == "undecided"


def test_a_clear_difference_below_the_margin_does_not_count():
    assert one(spread(0.5, 0.1, 10), np.zeros(10), margin=2).outcome == "same"
    assert one(spread(0.5, 0.1, 10), np.zeros(10), margin=0.4).outcome == "higher"
    assert one(spread(-0.5, 0.1, 10), np.zeros(10), margin=0.4).outcome == "lower"
    # clearly not 0, yet neither surely within the margin nor beyond it
    assert one(spread(0.5, 0.1, 10), np.zeros(10), margin=0.51).outcome == "undecided"


@given(samples)
def test_sameness_is_two_one_sided_tests_at_five_percent(pair):
    a, b = map(np.array, pair)
    d = a - b
    if len(set(np.round(d, 9))) == 1:
        return
    found = one(a, b, margin=5.0)
    below = sps.ttest_1samp(d, -5.0, alternative="greater").pvalue
    above = sps.ttest_1samp(d, 5.0, alternative="less").pvalue
    if found.outcome == "same":
        assert max(below, above) < 0.05
    elif found.outcome == "undecided" and abs(max(below, above) - 0.05) > 1e-6:
        assert max(below, above) > 0.05


@pytest.mark.parametrize("pair", [([1.0], [2.0]), ([1.0, 2.0], [1.0, 2.0, 3.0]), ([], [])])
def test_pairs_that_are_none_are_refused_by_name(pair):
    with pytest.raises(ValueError, match=r"a against b: .* at least 2"):
        paired({"a against b": pair})


def test_what_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        one([1.0, float("nan")], [1.0, 2.0])


def test_power_is_the_share_of_tests_that_find_the_difference():
    draws = np.random.default_rng(0).normal(1.0, 1.5, (20000, 8))
    share = np.mean(sps.ttest_1samp(draws, 0, axis=1).pvalue < 0.05)
    assert paired_power(1.0, 1.5, 8) == pytest.approx(share, abs=4 * np.sqrt(0.25 / 20000))
    assert paired_power(-1.0, 1.5, 8) == paired_power(1.0, 1.5, 8)


@pytest.mark.parametrize("comparisons", [1, 6, 30])
@pytest.mark.parametrize("n", [2, 3, 5, 10, 30])
def test_the_smallest_effect_is_found_four_times_in_five(n, comparisons):
    effect = smallest_effect(1.5, n, comparisons=comparisons)
    assert paired_power(effect, 1.5, n, comparisons=comparisons) == pytest.approx(0.8, abs=1e-3)
    assert smallest_effect(1.5, n + 1, comparisons=comparisons) < effect
    assert smallest_effect(3.0, n, comparisons=comparisons) == pytest.approx(2 * effect)


def test_sharing_the_level_costs_power():
    assert smallest_effect(1.0, 10, comparisons=6) > smallest_effect(1.0, 10)
    for sd, n, words in ((-1.0, 5, "sd = -1.0"), (1.0, 1, "n = 1")):
        with pytest.raises(ValueError, match=words):
            smallest_effect(sd, n)


def test_the_table_says_what_a_comparison_could_have_seen():
    pairs = {"clear": (spread(3, 0.1, 4), np.zeros(4)), "open": (spread(0.5, 1, 4), np.zeros(4))}
    frame = table(paired(pairs)).set_index("comparison")
    assert frame["outcome"].tolist() == ["higher", "undecided"]
    assert frame["could see"].tolist() == [f"{smallest_effect(sd, 4, comparisons=2):.2g}" for sd in (0.1, 1)]


def run(seed, accuracy, pool="avg"):
    config = {"data": "cifar10", "seed": seed, "pool": pool}
    return Record(f"{pool}{seed}", config, {"final": {"accuracy": accuracy / 100}})


def test_arms_of_records_are_compared_and_kept():
    average = [run(k, 90 + k) for k in range(4)]
    lae = [run(k, 92 + k + 0.01 * k, "lae") for k in range(4)]
    more = [run(k, 94 + k + 0.02 * k, "max") for k in range(4)]
    key = Contrast("CIFAR-10", "mean of two", "avg")
    found = compare({key: ([lae, more], average)}, margin=1.0, baseline={"CIFAR-10": average})
    assert found[key].difference == pytest.approx(3 + 0.015 * 1.5) and found[key].outcome == "higher"
    assert {r.key for r in found.runs} == {r.key for r in [*average, *lae, *more]}
    assert found.source == "runs" and found.n == 4 and found.baseline["CIFAR-10"] == tuple(average)
    moved = compare(
        {key: (average, None)}, margin=1.0, baseline={"CIFAR-10": average}, measure=lambda side: [1.0, 1.1, 0.9, 1.2]
    )
    assert moved[key].difference == pytest.approx(1.05)
    with pytest.raises(ValueError, match="place = 'CIFAR-10'"):
        compare({key: (lae, average)}, margin=1.0, baseline={})


def test_a_seed_is_compared_on_one_kind_of_machine():
    def made(pool, *cpus):
        runs = [run(k, 90 + k, pool) for k in range(len(cpus))]
        return [replace(r, provenance={"device": "cpu", "cpu": cpu}) for r, cpu in zip(runs, cpus, strict=True)]

    key, options = Contrast("CIFAR-10", "lae", "avg"), {"margin": 1.0}
    average = made("avg", "EPYC", "EPYC", "Xeon")
    options["baseline"] = {"CIFAR-10": average}
    assert compare({key: (made("lae", "EPYC", "EPYC", "Xeon"), average)}, **options)[key].n == 3
    with pytest.raises(ValueError, match="seed 1 was run on cpu, EPYC and on cpu, Xeon; expected one kind of machine"):
        compare({key: (made("lae", "EPYC", "Xeon", "Xeon"), average)}, **options)


def test_comparisons_can_be_picked():
    average = [run(k, 90) for k in range(3)]
    keys = [Contrast("A", "x", "avg"), Contrast("B", "x", "avg", 4.0)]
    found = compare({key: (average, average) for key in keys}, margin=1.0, baseline={"A": average, "B": average})
    assert isinstance(found, Comparisons) and list(found.only(lambda c: c.place == "B")) == keys[1:]
    assert found.outcomes() == ["same", "same"] and found.outcomes(lambda c: c.t is None) == ["same"]
    assert found[keys[1]].name == "B: x against avg at t₀ = 4"


def test_the_table_leaves_out_the_setting_that_all_rows_share():
    pair = (spread(3, 0.1, 4), np.zeros(4))
    alike, mixed = {"A: x against y": pair, "A: z against y": pair}, {"A: x against y": pair, "B: x against y": pair}
    assert table(paired(alike))["comparison"].tolist() == ["x against y", "z against y"]
    assert table(paired(mixed))["comparison"].tolist() == list(mixed)


def test_the_table_shows_no_zero_that_is_none():
    row = table(paired({"pair": (spread(-0.0004, 0.0001, 4), np.zeros(4))})).iloc[0]
    assert row["difference (95 % interval)"] == "-0.0004 (-0.0006 to -0.0002)"
    clear = paired({"pair": (spread(3, 0.01, 6), np.zeros(6))})
    assert table(clear)["p (Holm)"].tolist() == ["< 0.001"] and "p < 0.001): higher" in str(clear["pair"])


def test_a_tally_counts_and_shows_the_ends():
    pairs = {name: (spread(mean, sd, 5), np.zeros(5)) for name, mean, sd in
             (("a", 5, 0.2), ("b", 0, 0.2), ("c", -5, 0.2), ("d", 0, 7))}  # fmt: skip
    high, *_, wide = found = list(paired(pairs, margin=2).values())
    assert [c.outcome for c in found] == ["higher", "same", "lower", "undecided"]
    assert describe(found).startswith("1 higher, 1 same, 1 lower, 1 undecided of 4 (lowest c: -5.00")
    assert describe([high]) == str(high) and describe([]) == "not run"
    assert describe([high, wide]) == f"{wide}; {high}"
