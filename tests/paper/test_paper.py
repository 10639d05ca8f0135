"""The paper's tables as data: all there, as printed, with where they stand."""

import math
import re

import pytest

from lae_core import PoolSpec
from lae_core.paper import DATA_LABELS, searches, tables

# name: (entries, n, status, unit's first word)
EXPECTED = {
    "wrn": (12, 30, "printed", "top-1"),
    "wrn_n10": (12, 10, "commented", "top-1"),
    "mxresnet": (32, None, "printed", "top-1"),
    "mxresnet_earlier": (24, None, "commented", "top-1"),
    "mxresnet_reference": (4, None, "commented", "top-1"),
    "se": (14, 30, "printed", "top-1"),
    "pyramidnet": (11, 5, "dropped", "top-1"),
    "pyramidnet_lr": (20, 5, "commented", "top-1"),
    "pyramidnet_sem": (10, 5, "commented", "top-1"),
    "hyper_pyramidnet": (3, None, "printed", "lr,"),
    "hyper_pyramidnet_alternative": (1, None, "commented", "lr,"),
    "hyper_wrn": (12, None, "printed", "peak"),
    "hyper_se": (14, None, "printed", "peak"),
    "hyper_mxresnet": (20, None, "printed", "lr,"),
}


def test_every_table_is_there():
    assert set(tables()) == set(EXPECTED)
    assert sum(t.status == "printed" and t.kind == "results" for t in tables().values()) == 3
    assert sum(t.status == "printed" and t.kind == "hyperparameters" for t in tables().values()) == 4


@pytest.mark.parametrize("name", EXPECTED)
def test_counts_units_and_places(name):
    table, (entries, n, status, unit) = tables()[name], EXPECTED[name]
    frame = table.frame()
    assert (len(frame), table.n, table.status, table.unit.split()[0]) == (entries, n, status, unit)
    assert re.fullmatch(r"(main|supplementary_inner)\.tex", table.source)
    first, _, last = table.lines.partition("-")
    assert 1 <= int(first) <= int(last or first)
    assert table.label.startswith("tab:")
    assert not frame.isna().any().any()
    assert not frame.duplicated(subset=[c for c in frame if c not in ("mean", "sd", "sem", "bold")]).any()


@pytest.mark.parametrize("name", EXPECTED)
def test_pools_and_data_are_named_as_everywhere(name):
    frame = tables()[name].frame()
    for column in {"pool", "squeeze_pool"} & set(frame):
        assert {str(PoolSpec.parse(text)) for text in frame[column]} == set(frame[column])
    assert set(frame["data"]) <= set(DATA_LABELS)


@pytest.mark.parametrize("name", [name for name in EXPECTED if not name.startswith("hyper")])
def test_results_are_percentages_and_the_best_is_bold(name):
    table, frame = tables()[name], tables()[name].frame()
    assert frame["mean"].between(0, 100).all()
    if "bold" not in frame:
        return
    groups = list(table.bold_over or [c for c in ("data", "size") if c in frame])
    for _, column in frame.groupby(groups):
        best = column["mean"].idxmin() if table.better == "low" else column["mean"].idxmax()
        assert column.loc[best, "bold"]


def test_the_two_versions_of_one_table_agree():
    """The commented table with standard errors holds the runs of the one with deviations: sem = sd / √n to rounding."""
    key = ["pool", "data", "lr"]
    both = tables()["pyramidnet_sem"].frame().merge(tables()["pyramidnet_lr"].frame(), on=key, suffixes=("", "_sd"))
    assert len(both) == 10
    assert (both["mean"] == both["mean_sd"]).all()
    assert ((both["sem"] - both["sd"] / math.sqrt(5)).abs() <= 0.005 + 0.005 / math.sqrt(5) + 1e-9).all()


def test_the_dropped_table_repeats_the_commented_one():
    lr = tables()["pyramidnet_lr"].frame().query("lr == 0.1")
    first = tables()["pyramidnet"].frame().query("hyperparameters == 'initial'").merge(lr, on=["pool", "data"])
    assert len(first) == 8
    assert (first["mean_x"] == first["mean_y"]).all() and (first["sd_x"] == first["sd_y"]).all()


def test_every_searched_pool_has_hyperparameters():
    assert set(tables()["wrn"].frame()["pool"]) == set(tables()["hyper_wrn"].frame()["pool"])
    columns = ["pool", "squeeze_pool", "data"]
    result, tuned = (tables()[name].frame()[columns].apply(tuple, axis=1) for name in ("se", "hyper_se"))
    assert set(result) == set(tuned)
    untuned = set(tables()["mxresnet"].frame()["pool"]) - set(tables()["hyper_mxresnet"].frame()["pool"])
    assert untuned == {"lae(t0=4)", "lae(t0=4, train=one)", "lae(t0=4, train=channel)"}


def test_searches_as_described():
    lattice, random = searches()["lattice"], searches()["random"]
    assert lattice["start"] == {"lr": 0.4, "weight_decay": 4e-4, "momentum": 0.9} and lattice["ratio"] == 1.6
    assert set(random["centre"]) <= set(tables()["hyper_mxresnet"].frame())
