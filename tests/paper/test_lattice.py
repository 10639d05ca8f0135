"""The lattice of the hyperparameter search: walked forwards and read backwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lae_core.paper import lattice
from lae_core.runs.lattice_search import Lattice

PAPER = lattice.printed_lattice()
few = st.integers(-5, 5)


def test_the_search_starts_where_the_paper_did():
    assert Lattice() == PAPER


@given(few, few, st.integers(-4, 7))
def test_a_point_is_read_back_from_its_printed_values(a, b, inertia):
    """Past four steps 1 − μ would pass 1: from there on the steps are divisions of μ."""
    values = PAPER.params((a, b, inertia))
    printed = {
        "lr": f"{values['lr']:.6f}",
        "weight_decay": f"{values['weight_decay']:.9f}",
        "momentum": f"{values['momentum']:.6f}",
    }
    assert lattice.locate(printed, PAPER) == ((a, b, inertia), True)


def test_the_paper_s_rows():
    wrn, se = lattice.locate_rows("hyper_wrn"), lattice.locate_rows("hyper_se")
    assert (wrn.rule == "lattice").all()
    off = se[se.rule != "lattice"]
    assert off[["squeeze_pool", "data", "lr", "momentum", "d", "rule"]].values.tolist() == [
        ["lae", "cifar100", "9.378", "0.0841", 3, "μ ÷ r"],
        ["lae(train=channel)", "cifar100", "12.855", "0.2154", 1, "μ ÷ r"],
    ]


def test_a_value_off_by_one_in_its_last_digit_is_not_on_the_lattice():
    right = {"lr": "0.640", "weight_decay": "0.001024", "momentum": "0.3446"}
    assert lattice.locate(right, PAPER)[1]
    for key, text in (("lr", "0.641"), ("weight_decay", "0.001025"), ("momentum", "0.3447")):
        assert not lattice.locate(right | {key: text}, PAPER)[1]


def test_one_epsilon_is_below_its_range():
    frame = lattice.values_in_ranges()
    assert len(frame) == 20 * 6
    assert frame[~frame.inside][["hyperparameter", "printed", "pool"]].values.tolist() == [
        ["eps", "8.75e-08", "mixed(train=channel)"]
    ]


def test_effective_rates_are_ratios_to_average_pooling():
    frame = lattice.effective_rates()
    assert (frame[frame.pool == "avg"].rate_ratio == 1).all()
    row = frame.set_index(["network", "setting", "pool"]).loc[("WRN-18-6", "CIFAR-10", "lae")]
    assert row.rate_ratio == pytest.approx((0.640 / 0.4096) / (0.640 / 0.6554))
