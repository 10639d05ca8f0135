"""The tables decided again: against scipy, and against what the numbers are known to say."""

import math

import pytest
from scipy import stats

from lae_core.evidence import redecide
from lae_core.evidence.stats import Summary


def test_deviations_are_converted_to_n_minus_one():
    plain = redecide.entries("wrn", ddof=1).iloc[0].summary
    converted = redecide.entries("wrn", ddof=0).iloc[0].summary
    assert plain == Summary(5.26, 0.15, 30)
    assert converted.sd == pytest.approx(0.15 * math.sqrt(30 / 29))


def test_standard_errors_become_deviations():
    sem = redecide.entries("pyramidnet_sem", ddof=1).set_index(["pool", "data"]).loc[("lae", "cifar10")].summary
    assert sem.sd == pytest.approx(6.23 * math.sqrt(5))


def test_a_table_without_n_asks_for_it():
    with pytest.raises(ValueError, match="n=None.*40"):
        redecide.entries("mxresnet")
    with pytest.raises(ValueError, match="ddof=2"):
        redecide.entries("wrn", ddof=2)
    with pytest.raises(ValueError, match="hyper_wrn"):
        redecide.entries("hyper_wrn")


def test_against_agrees_with_scipy_and_counts_gain_as_better():
    frame = redecide.against("wrn", ddof=1).set_index(["column", "pool"])
    row = frame.loc[("CIFAR-100", "lae")]
    expected = stats.ttest_ind_from_stats(22.31, 0.21, 30, 22.16, 0.22, 30, equal_var=False)
    assert row.p == pytest.approx(expected.pvalue)
    assert row.gain == pytest.approx(-0.15) and row.outcome == "worse" and row.low < row.gain < row.high
    accuracy = redecide.against("mxresnet", n=40).set_index(["column", "pool"])
    assert accuracy.loc[("Imagewoof 256 px", "lae")].gain == pytest.approx(1.24)


def test_redecide_sets_table_1_as_printed():
    frame = redecide.redecide("wrn")
    assert frame.agrees.all() and frame.welch_bold.sum() == 3


def test_bold_is_sought_over_a_data_set_where_the_caption_says_so():
    frame = redecide.redecide("pyramidnet").set_index(["column", "pool"])
    assert not frame.loc[("CIFAR-100, initial", "avg")].welch_bold, (
        "14.83 is the best of its column but not of its data set"
    )


def test_firm_is_false_where_rounding_could_turn_the_outcome():
    a, b = Summary(4.98, 0.15, 30), Summary(5.07, 0.12, 30)
    p = stats.ttest_ind_from_stats(a.mean, a.sd, 30, b.mean, b.sd, 30, equal_var=False).pvalue
    assert p < 0.05 and redecide.compare(a, b, better="low", rounding=0.005)["firm"]
    assert not redecide.compare(Summary(5.00, 0.15, 30), b, better="low", rounding=0.005)["firm"]


def test_lae_ahead_by_n_grows_with_n():
    frame = redecide.lae_ahead_by_n("mxresnet", [5, 40, 120])
    assert frame["Imagewoof 256 px"].tolist() == [False, True, True]
    assert frame["Imagenette 128 px"].tolist() == [False, False, True]
    assert not frame["Imagewoof 128 px"].any()


def test_pairs_and_squeezes_have_the_right_size():
    assert len(redecide.pairs("mxresnet", n=40)) == 4 * 15
    added, alone = redecide.squeeze_added(), redecide.squeeze_alone()
    assert len(added) == len(alone) == 6
    row = added.set_index(["column", "pool"]).loc[("CIFAR-100", "lae(train=one)")]
    assert row.gain == pytest.approx(21.55 - 22.32)


def test_lone_failure_and_outlier_are_each_others_inverse():
    found = redecide.lone_failure(20.05, 90.0, 5)
    assert redecide.lone_outlier(20.05, found["divide by n - 1"], 5) == pytest.approx(90.0)
    assert round(found["divide by n"], 2) == pytest.approx(34.98, abs=0.006)
