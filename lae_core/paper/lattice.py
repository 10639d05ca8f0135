"""The paper's hyperparameters against the searches that it says found them.

The moves of the lattice search are those of `lae_core.runs.lattice_search`; here they are read backwards. After a, b and c steps
along ρ, ρλ and ρ/(1 − μ) from a start (ρ₀, λ₀, μ₀), ρ = ρ₀·r^(a−b+c), λ = λ₀·r^b, 1 − μ = (1−μ₀)·r^c: c and b follow from
μ and λ, then a from ρ. A value is on the lattice if whole steps give it exactly, up to the rounding of its last printed
digit. Steps of the third kind that divide μ by r, because 1 − μ would have passed 1, are counted as d.
"""

from __future__ import annotations

import math
from decimal import Decimal

import pandas as pd

from lae_core.paper import DATA_LABELS, searches, tables
from lae_core.runs.lattice_search import Lattice, Point


def printed_lattice() -> Lattice:
    """The lattice as the paper prints its start and its ratio."""
    printed = searches()["lattice"]
    return Lattice(**printed["start"], resolution=printed["ratio"])


def half_unit(text: str) -> float:
    """Half a unit in the last place of a number as printed.

    >>> half_unit("0.0640"), half_unit("1.23e-07")
    (5e-05, 5e-10)
    """
    exponent = Decimal(text).as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"text = {text!r} is invalid; expected a finite number")
    return 0.5 * 10.0**exponent


def _agrees(value: float, text: str) -> bool:
    # The hair above half a unit is for binary fractions that fall on the edge of a printed one.
    return abs(value - float(text)) <= half_unit(text) * (1 + 1e-9)


def _nearest(value: float, ratio: float) -> int:
    return round(math.log(value) / math.log(ratio))


def locate(printed: dict[str, str], lattice: Lattice) -> tuple[Point, bool]:
    """The point of the lattice nearest to a printed row, and whether it gives all three of the row's values as printed."""
    lr, weight_decay, momentum = (float(printed[key]) for key in ("lr", "weight_decay", "momentum"))
    r, most = lattice.resolution, lattice.scalings
    decay = _nearest(weight_decay / lattice.weight_decay, r)
    inertia = min(_nearest((1 - momentum) / (1 - lattice.momentum), r), most)
    if momentum > 0 and not _agrees(lattice.momentum_after(inertia), printed["momentum"]):
        divided = _nearest(lattice.momentum_after(most) / momentum, r)
        inertia = most + divided if divided > 0 else inertia
    growth = lattice.params((0, 0, inertia))["lr"] / lattice.lr
    point = (_nearest(lr / lattice.lr / growth, r) + decay, decay, inertia)
    found = lattice.params(point)
    return point, all(_agrees(found[key], printed[key]) for key in found)


def locate_rows(name: str, lattice: Lattice | None = None) -> pd.DataFrame:
    """A hyperparameter table with the steps of every row (`a`, `b`, `c`, `d`), its exact values and `rule`.

    `rule` is "lattice", "μ ÷ r" for rows explained by the fourth kind of step, or "none".
    """
    lattice = lattice or printed_lattice()
    rows = []
    for row in tables()[name].printed().to_dict("records"):
        point, exact = locate(row, lattice)
        a, b, inertia = point
        c = min(inertia, lattice.scalings)
        rule = "none" if not exact else ("μ ÷ r" if inertia > c else "lattice")
        rows.append(
            row
            | {"a": a, "b": b, "c": c, "d": inertia - c}
            | {f"exact_{key}": value for key, value in lattice.params(point).items()}
            | {"rule": rule}
        )
    return pd.DataFrame(rows)


def values_in_ranges() -> pd.DataFrame:
    """Every value of the MXResNet table, with the range that the paper says was searched first, and whether inside.

    `position` is −1 at the lower and +1 at the upper end, on the scale that was sampled.
    """
    search = searches()["random"]
    found = []
    for row in tables()["hyper_mxresnet"].printed().to_dict("records"):
        for name, centre in search["centre"].items():
            text, value = row[name], float(row[name])
            if name in search["linear"]:
                low, high = search["linear"][name]
                position = 2 * (value - low) / (high - low) - 1
            else:
                by_distance = f"1 - {name}" in search["log"]
                centre, value = (1 - centre, 1 - value) if by_distance else (centre, value)
                low, high = centre / search["factor"], centre * search["factor"]
                position = math.log(value / centre) / math.log(search["factor"])
            slack = half_unit(text)
            inside = low - slack <= value <= high + slack
            named = f"1 − {name}" if f"1 - {name}" in search["log"] else name
            found.append(
                {"pool": row["pool"], "data": row["data"], "size": int(row["size"]), "hyperparameter": named}
                | {"printed": text, "value": value, "low": low, "high": high, "position": position, "inside": inside}
            )
    return pd.DataFrame(found)


def effective_rates() -> pd.DataFrame:
    """The tuned step sizes of the networks that differ only in their global pool, each as a ratio to average pooling's.

    For SGD with momentum a gradient moves the weights by ρ/(1 − μ) in all, which is what `rate` gives. RAdam averages
    its gradients instead of adding them, so for MXResNet `rate` is the learning rate itself. `rate_decay` is rate × λ,
    the pace that weight decay sets in a network with batch normalisation.
    """
    frames = []
    for network, name in (
        ("PyramidNet-110", "hyper_pyramidnet"),
        ("WRN-18-6", "hyper_wrn"),
        ("MXResNet", "hyper_mxresnet"),
    ):
        frame = tables()[name].frame()
        frame["network"] = network
        frame["setting"] = frame["data"].map(DATA_LABELS) + (" " + frame["size"].astype(str) if "size" in frame else "")
        frame["rate"] = frame["lr"] / ((1 - frame["momentum"]) if network != "MXResNet" else 1.0)
        frame["rate_decay"] = frame["rate"] * frame["weight_decay"]
        frames.append(frame[["network", "setting", "pool", "lr", "weight_decay", "rate", "rate_decay"]])
    rates = pd.concat(frames, ignore_index=True)
    base = rates[rates["pool"] == "avg"].set_index(["network", "setting"])
    key = pd.MultiIndex.from_frame(rates[["network", "setting"]])
    for column in ("lr", "weight_decay", "rate", "rate_decay"):
        rates[f"{column}_ratio"] = rates[column].to_numpy() / base[column].reindex(key).to_numpy()
    return rates
