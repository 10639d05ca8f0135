from itertools import combinations

import matplotlib.colors
import numpy as np
import pytest
from matplotlib.figure import Figure

from lae_core import PoolSpec
from lae_core.figures.style import (
    DASHES,
    POOL_COLOURS,
    SERIES,
    heat_cells,
    pool_name,
    pool_style,
    use_style,
)

# How deuteranopes and protanopes see linear RGB (Machado, Oliveira, Fernandes 2009, severity 1).
SIGHT = {
    "full": np.eye(3),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
}


def linear(colour):
    c = np.array(matplotlib.colors.to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
def test_pool_colours_stay_apart(sight):
    seen = {name: lab(SIGHT[sight] @ linear(colour)) for name, colour in POOL_COLOURS.items()}
    distance = {(a, b): np.linalg.norm(seen[a] - seen[b]) for a, b in combinations(seen, 2)}
    assert min(distance.values()) > 18, min(distance, key=distance.get)


@pytest.mark.parametrize("colour", [*POOL_COLOURS.values(), *SERIES])
def test_colours_stand_out_from_white(colour):
    luminance = np.dot([0.2126, 0.7152, 0.0722], linear(colour))
    assert 1.05 / (luminance + 0.05) >= 3


def test_without_colour_dash_and_marker_tell_pools_apart():
    looks = {(str(style["linestyle"]), style["marker"]) for style in (pool_style(n, marker=True) for n in POOL_COLOURS)}
    assert len(looks) == len(POOL_COLOURS)
    assert len({str(dash) for dash in DASHES}) == len(SERIES)


@pytest.mark.parametrize(
    ("pool", "name"),
    [
        ("avg", "avg"),
        ("lae(t0=4)", "lae"),
        ("lae(t0=4, train=channel)", "lae-channel"),
        ("lae(train=context-channel)", "lae-context-channel"),
        ("mixed(train=one)", "mixed"),
        ("mixed(train=channel)", "mixed-channel"),
        ("gem(train=no)", "gem"),
        (PoolSpec.parse("lae(train=one, dtype=float16)"), "lae-one"),
        ("lae-one", "lae-one"),
    ],
)
def test_every_spec_has_a_look(pool, name):
    assert pool_name(pool) == name
    assert pool_style(pool)["color"] == POOL_COLOURS[name]


def test_a_pool_that_there_is_not():
    with pytest.raises(ValueError, match="there is no pool 'median'"):
        pool_style("median")


def test_style_and_heat_map():
    with matplotlib.rc_context():
        use_style()
        figure = Figure()
        assert figure.get_facecolor() == (1, 1, 1, 1)
        axes = figure.subplots()
        heat_cells(axes, [[0.0, 0.9], [0.25, 0.5]])
        assert [(text.get_text(), text.get_color()) for text in axes.texts] == [
            ("0.00", "black"),
            ("0.90", "white"),
            ("0.25", "black"),
            ("0.50", "black"),
        ]
