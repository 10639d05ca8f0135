"""The tables decided again: against scipy, and against what the numbers are known to say."""

import math

import pytest
from scipy import stats

from lae_core.evidence import redecide, rules
from lae_core.evidence.compare import Contrast
from lae_core.evidence.stats import Summary, holm


def test_deviations_are_converted_to_n_minus_one():
    plain = redecide.entries("wrn", ddof=1).iloc[0].summary
    converted = redecide.entries("wrn", ddof=0).iloc[0].summary
    assert plain == Summary(5.26, 0.15, 30)
    assert converted.sd == pytest.approx(0.15 * math.sqrt(30 / 29))


def test_standard_errors_become_deviations():
    sem = redecide.entries("pyramidnet_sem", ddof=1).set_index(["pool", "data"]).loc[("lae", "cifar10")].summary
    assert sem.sd == pytest.approx(6.23 * math.sqrt(5))


def test_a_table_without_n_asks_for_it():
    with pytest.raises(ValueError, match=r"n = None.*40"):
        redecide.entries("mxresnet")
    with pytest.raises(ValueError, match="ddof = 2"):
        redecide.entries("wrn", ddof=2)
    with pytest.raises(ValueError, match="hyper_wrn"):
        redecide.entries("hyper_wrn")


def test_against_agrees_with_scipy_and_counts_gain_as_higher():
    pairs = redecide.against("wrn", ddof=1)
    found = redecide.compare_printed(pairs, margin=None)
    key = Contrast("CIFAR-100", "lae", "avg")
    expected = stats.ttest_ind_from_stats(22.31, 0.21, 30, 22.16, 0.22, 30, equal_var=False)
    assert found[key].pvalue == pytest.approx(expected.pvalue) and found[key].difference == pytest.approx(-0.15)
    assert found[key].outcome == "lower" and found[key].interval.low < -0.15 < found[key].interval.high
    assert [c.holm_pvalue for c in found.values()] == holm([c.pvalue for c in found.values()])
    accuracy = redecide.compare_printed(redecide.against("mxresnet", n=40), margin=None)
    assert accuracy[Contrast("Imagewoof 256 px", "lae", "avg")].difference == pytest.approx(1.24)


def test_the_correction_takes_decisions_back():
    """Without it 12 comparisons would be higher and 5 lower."""
    pairs = redecide.lae_against_average("wrn", "mxresnet", n=40)
    found = redecide.compare_printed(pairs, margin=None)
    assert len(found) == 30
    assert [found.outcomes().count(word) for word in ("higher", "undecided", "lower")] == [10, 16, 4]
    plain = [c for c in found.values() if c.pvalue < 0.05]
    assert [sum(c.difference > 0 for c in plain), sum(c.difference < 0 for c in plain)] == [12, 5]


def test_the_same_is_within_the_margin_by_two_tests_from_summaries():
    a, b = Summary(95.0, 0.2, 30), Summary(95.05, 0.2, 30)
    key = Contrast("here", "a", "b")
    assert redecide.compare_printed({key: (a, b)}, margin=0.2)[key].outcome == "same"
    assert redecide.compare_printed({key: (a, b)}, margin=0.1)[key].outcome == "undecided"
    assert redecide.compare_printed({key: (a, b)}, margin=None)[key].outcome == "undecided"


def test_redecide_sets_table_1_as_printed():
    frame = redecide.redecide("wrn")
    assert frame.agrees.all() and frame.welch_bold.sum() == 3


def test_bold_is_sought_over_a_data_set_where_the_caption_says_so():
    frame = redecide.redecide("pyramidnet").set_index(["column", "pool"])
    assert not frame.loc[("CIFAR-100, initial", "avg")].welch_bold, (
        "14.83 is the best of its column but not of its data set"
    )


def test_firm_is_false_where_rounding_could_turn_the_outcome():
    b = Summary(5.07, 0.12, 30)
    pairs = {Contrast("x", f"{mean}", "b"): (Summary(mean, 0.15, 30), b) for mean in (4.98, 5.00)}
    assert [redecide.same_however_rounded({key: pair}, margin=None) for key, pair in pairs.items()] == [[True], [False]]


def test_what_c2_says_depends_on_n():
    met = {
        n: rules.c2_statements(redecide.compare_printed(redecide.lae_against_average("mxresnet", n=n), margin=None))
        for n in (5, 40, 400)
    }
    assert [met[n]["Imagewoof 256 px"] for n in met] == [False, True, True]
    assert [met[n]["Imagenette 128 px"] for n in met] == [False, False, True]
    assert not any(met[n]["Imagewoof 128 px"] for n in met)


def test_pairs_and_squeezes_have_the_right_size():
    assert len(redecide.lae_pairs("mxresnet", n=40)) == 4 * 15
    added, alone = redecide.squeeze_added(), redecide.squeeze_alone()
    assert len(added) == len(alone) == len(redecide.in_the_squeeze()) == 6
    a, b = added[Contrast("CIFAR-100", "lae(train=one)", "without SE")]
    assert a.mean - b.mean == pytest.approx(21.55 - 22.32)
    best = redecide.best_others("mxresnet", ["lae(t0=4)"], n=40)
    assert len(best) == 4 and all(key.second.removeprefix("the best other, ") != "lae(t0=4)" for key in best)
    turned = redecide.one_against("wrn", "lae(train=one)")
    assert len(turned) == 10 and turned[Contrast("CIFAR-10", "lae(train=one)", "avg")][0].mean == -4.98


def test_lone_failure_and_outlier_are_each_others_inverse():
    found = redecide.lone_failure(20.05, 90.0, 5)
    assert redecide.lone_outlier(20.05, found["divide by n - 1"], 5) == pytest.approx(90.0)
    assert round(found["divide by n"], 2) == pytest.approx(34.98, abs=0.006)


def test_entries_at_two_rates_that_did_not_settle_or_collapsed():
    """From the commented table: 10.45 ± 13.92 against 2.49 ± 0.03 for LAE on CIFAR-10, and the context temperature."""
    two_rates = redecide.at_two_rates()
    entries, unsettled = redecide.unsettled_entries(two_rates)
    assert len(entries) == 6 and not any("context" in key.first or key.first.startswith("avg") for key in entries)
    assert {key.first: round(error, 1) for key, error in unsettled.items()} == {"lae at 0.1": 38.3}
    context = redecide.context_temperature_at_two_rates(two_rates)
    assert [(row["place"], row["chance"], row["collapsed"]) for row in context] == [
        ("CIFAR-10", 90.0, True),
        ("CIFAR-100", 99.0, True),
    ]
    assert context[0]["low"] == 20.05


def test_words_by_n_are_told_as_ranges():
    assert redecide.describe_ranges({2: "open", 3: "partly", 5: "partly", 8: "open"}) == (
        "open for n = 2 to 2; partly for n = 3 to 5; open for n = 8 to 8"
    )
    assert redecide.log_spaced_n(5) == [2, 3, 4, 5]
