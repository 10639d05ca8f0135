"""The paper's hyperparameters against the searches that it says found them.

The lattice search moves by a ratio r along three directions:

1. learning rate ρ × r;
2. weight decay λ × r with ρ ÷ r, which keeps ρλ;
3. 1 − μ × r with ρ × r, which keeps ρ/(1 − μ).

From a start (ρ₀, λ₀, μ₀), after a, b and c steps along them, ρ = ρ₀·r^(a−b+c), λ = λ₀·r^b, 1 − μ = (1−μ₀)·r^c. Read
backwards, c and b follow from μ and λ, then a from ρ. A value is on the lattice if whole steps give it exactly, up to
the rounding of its last printed digit.

Where a further step of 1 − μ would pass 1, two rows of the paper's show another rule: μ is divided by r, and ρ is
multiplied by what 1 − μ grew by, which still keeps ρ/(1 − μ). Those steps are counted as d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import pandas as pd

from lae_core.evidence.paper import DATA_LABELS, searches, tables


@dataclass(frozen=True)
class Start:
    """Where the lattice search begins, and its ratio."""

    lr: float
    weight_decay: float
    momentum: float
    ratio: float

    @classmethod
    def of_paper(cls) -> Start:
        lattice = searches()["lattice"]
        return cls(**lattice["start"], ratio=lattice["ratio"])


@dataclass(frozen=True)
class Steps:
    """Whole steps along (1) ρ, (2) λ against ρ, (3) 1 − μ with ρ, and (4) μ ÷ r, the rule where (3) would pass 1."""

    lr: int
    weight_decay: int
    momentum: int
    momentum_divided: int = 0

    def walk(self, start: Start) -> dict[str, float]:
        """The hyperparameters after these steps, unrounded."""
        r = start.ratio
        on_lattice = (1 - start.momentum) * r**self.momentum
        momentum = (1 - on_lattice) / r**self.momentum_divided
        growth = (1 - momentum) / on_lattice
        lr = start.lr * r ** (self.lr - self.weight_decay + self.momentum) * growth
        return {"lr": lr, "weight_decay": start.weight_decay * r**self.weight_decay, "momentum": momentum}


def half_unit(text: str) -> float:
    """Half a unit in the last place of a number as printed.

    >>> half_unit("0.0640"), half_unit("1.23e-07")
    (5e-05, 5e-10)
    """
    exponent = Decimal(text).as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"text={text!r} is not a finite number")
    return 0.5 * 10.0**exponent


def _agrees(value: float, text: str) -> bool:
    # The hair above half a unit is for binary fractions that fall on the edge of a printed one.
    return abs(value - float(text)) <= half_unit(text) * (1 + 1e-9)


def _nearest(value: float, ratio: float) -> int:
    return round(math.log(value) / math.log(ratio))


def place(printed: dict[str, str], start: Start) -> tuple[Steps, bool]:
    """The steps that lead nearest to a printed row, and whether they give all three of its values exactly."""
    lr, weight_decay, momentum = (float(printed[key]) for key in ("lr", "weight_decay", "momentum"))
    r = start.ratio
    b = _nearest(weight_decay / start.weight_decay, r)
    c = _nearest((1 - momentum) / (1 - start.momentum), r)
    d = 0
    if not _agrees(1 - (1 - start.momentum) * r**c, printed["momentum"]):
        # The last step of 1 − μ that stays below 1, then the number of divisions by r from there.
        last = math.ceil(math.log(1 / (1 - start.momentum)) / math.log(r)) - 1
        divided = _nearest((1 - (1 - start.momentum) * r**last) / momentum, r) if momentum > 0 else 0
        if divided > 0:
            c, d = last, divided
    growth = Steps(0, 0, c, d).walk(start)["lr"] / start.lr
    a = _nearest(lr / start.lr / growth, r) + b
    steps = Steps(a, b, c, d)
    found = steps.walk(start)
    return steps, all(_agrees(found[key], printed[key]) for key in found)


def placed(name: str, start: Start | None = None) -> pd.DataFrame:
    """A hyperparameter table with the steps of every row (`a`, `b`, `c`, `d`), its exact values and `rule`.

    `rule` is "lattice", "μ ÷ r" for rows explained by the fourth kind of step, or "none".
    """
    start = start or Start.of_paper()
    rows = []
    for row in tables()[name].printed().to_dict("records"):
        steps, exact = place(row, start)
        walked = steps.walk(start)
        rule = "none" if not exact else ("μ ÷ r" if steps.momentum_divided else "lattice")
        rows.append(
            row
            | {"a": steps.lr, "b": steps.weight_decay, "c": steps.momentum, "d": steps.momentum_divided}
            | {f"exact_{key}": value for key, value in walked.items()}
            | {"rule": rule}
        )
    return pd.DataFrame(rows)


def in_ranges() -> pd.DataFrame:
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
