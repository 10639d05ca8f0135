"""One look for every figure of the book.

A pool keeps its colour, dash, marker and place in the legend on all pages. The colours stay apart for colour-blind
readers (a test measures it); in grey print, where some come close, dash and marker tell them apart. Figures carry their
own white background, so that the dark theme shows them as cards.
"""

from __future__ import annotations

import re
from typing import Any

import matplotlib as mpl
from cycler import cycler

from lae_core.pooling import PoolSpec

# name of the pool: (label, colour, dash, marker), in the order of legends and tables
_POOLS: dict[str, tuple[str, str, Any, str]] = {
    "avg": ("Average", "#2a2428", "-", "s"),
    "avg-one": ("Average × scale", "#a52da5", (0, (7, 2)), "8"),
    "max": ("Max", "#7f0000", (0, (5, 2)), "^"),
    "lse": ("LSE", "#9e0a5b", (0, (1, 1.2)), "v"),
    "mixed": ("Mixed", "#de790b", (0, (6, 2, 1, 2)), "D"),
    "mixed-channel": ("Mixed per channel", "#9b5506", (0, (6, 2, 1, 2, 1, 2)), "d"),
    "gated": ("Gated", "#974743", (0, (3, 1.5)), "P"),
    "gated-channel": ("Gated per channel", "#75006c", (0, (3, 1.5, 1, 1.5)), "X"),
    "gem": ("GeM", "#899a52", (0, (8, 3)), "h"),
    "lae": ("LAE", "#4b97e2", "-", "o"),
    "lae-one": ("LAE (trained t)", "#0178ef", (0, (4, 1)), ">"),
    "lae-channel": ("LAE (t per channel)", "#002aa4", (0, (4, 1, 1, 1)), "<"),
    "lae-context": ("LAE (context t)", "#40a47e", (0, (2, 1)), "p"),
    "lae-context-channel": ("LAE (context t per channel)", "#098e95", (0, (2, 1, 1, 1)), "*"),
}

POOL_COLOURS: dict[str, str] = {name: colour for name, (_, colour, _, _) in _POOLS.items()}

# For lines that are no pools (temperatures, precisions): in this order, with this dash, and dark to light in grey too.
SERIES = ("#1b1464", "#0072b2", "#d1450b", "#2c8a3d", "#b07800", "#a83279")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (3, 1)), (0, (8, 3)))

HEAT = "Blues"  # light to dark without a turn: reads the same in grey


def use_style() -> None:
    """Set matplotlib's defaults for a page of the book. Call it once, in a notebook's first cell."""
    mpl.rcParams.update(
        {
            "figure.figsize": (6.4, 3.6),
            "figure.facecolor": "white",
            "figure.constrained_layout.use": True,
            "savefig.facecolor": "white",
            "svg.hashsalt": "lae",  # the same figure twice is the same file
            "font.size": 11,
            "axes.titlesize": 11,
            "axes.titleweight": "bold",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#dddddd",
            "grid.linewidth": 0.7,
            "axes.prop_cycle": cycler(color=SERIES) + cycler(linestyle=DASHES),
            "lines.linewidth": 1.9,
            "lines.markersize": 5.5,
            "legend.frameon": False,
            "legend.fontsize": 10,
        }
    )
    from IPython import get_ipython

    if get_ipython() is not None:  # vector figures stay sharp on a phone
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg")


def pool_name(pool: str | PoolSpec) -> str:
    """The name under which a pool has its look: itself if it is one, else that of its spec, whatever its t0 or dtype.

    >>> pool_name("lae(t0=4, train=channel)"), pool_name("mixed(train=one)"), pool_name("lae-one")
    ('lae-channel', 'mixed', 'lae-one')
    """
    if isinstance(pool, str) and pool in _POOLS:
        return pool
    spec = PoolSpec.parse(pool)
    trained = f"{spec.name}-{dict(spec.arguments).get('train')}"
    return trained if trained in _POOLS else spec.name


def pool_style(pool: str | PoolSpec, *, marker: bool = False) -> dict[str, Any]:
    """Keyword arguments for `plot`, by a pool's name or spec: colour, dash, label and, if asked for, its marker."""
    label, colour, dash, symbol = _POOLS[pool_name(pool)]
    style = {"color": colour, "linestyle": dash, "label": label}
    return style | {"marker": symbol} if marker else style


def style_of(pool: str) -> dict[str, Any]:
    """`pool_style` with the marker, and with the temperature in the label where the spec gives one.

    >>> style_of("lae(t0=4)")["label"], style_of("lae(t0=4, train=one)")["label"]
    ('LAE (t = 4)', 'LAE (trained t from 4)')
    """
    style = pool_style(pool, marker=True)
    if "t0=" not in pool:
        return style
    t0, label = f"{PoolSpec.parse(pool)['t0']:g}", str(style["label"])
    return style | {"label": f"{label[:-1]} from {t0})" if label.endswith(")") else f"{label} (t = {t0})"}


# A spec in a text. Bare "max" and "mixed" are words as well: they count alone or beside "against".
_SPEC = re.compile(
    r"\b(?:(?:avg|gem|lae)|(?:max|lse|mixed|gated)(?=\(| against )|(?<=against )(?:max|lse|mixed|gated)|^(?:max|lse|mixed|gated)$)"
    r"(?:\([\w=., ]*\))?(?![\w(-])"
)


def name_pools(text: str) -> str:
    """A text with the pools named as figures name them; a spec that says more than that stays as it is.

    >>> name_pools("CIFAR-10: lae(train=one) against max, not lae(form=textbook)")
    'CIFAR-10: LAE (trained t) against Max, not lae(form=textbook)'
    """
    return _SPEC.sub(lambda found: _name(found[0]), text)


def _name(spec: str) -> str:
    given = {part.partition("=")[0].strip() for part in spec.partition("(")[2].rstrip(")").split(",")}
    return str(style_of(spec)["label"]) if given <= {"", "t0", "train"} else spec


def heat_cells(axes: Any, cells: Any, *, digits: int = 2) -> None:
    """Draw a small matrix of shares as a heat map with the number in each cell, dark text on light and light on dark.

    Not seaborn's heatmap, which writes white on half-dark cells: a contrast of less than 3 to 1.
    """
    axes.imshow(cells, cmap=HEAT, vmin=0, vmax=1)
    for row, values in enumerate(cells):
        for column, value in enumerate(values):
            ink = "white" if value > 0.55 else "black"
            axes.text(column, row, f"{value:.{digits}f}", ha="center", va="center", color=ink, fontsize=9.5)
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[:].set_visible(False)
