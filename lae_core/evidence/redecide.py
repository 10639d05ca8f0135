"""Decide the paper's tables again from what they print: mean, deviation and n.

The paper tested single runs by ranks, and prints no single runs. Welch's test needs only mean, deviation and n. The printed
deviations divide by n (``ddof=0``): one entry shows it, see :func:`lone_failure`. Welch's test takes deviations that divide
by n − 1, so they are converted first.

A function that gives :data:`Pairs` says which entries are compared; :func:`compare_printed` decides on them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from lae_core.evidence.compare import Comparisons, Contrast, decide
from lae_core.evidence.stats import ALPHA, Summary, bold, holm, mean_interval, welch
from lae_core.paper import DATA_LABELS, tables


def _column_label(row: pd.Series) -> str:
    label = DATA_LABELS[row["data"]]
    if "size" in row:
        label += f" {row['size']} px"
    if "hyperparameters" in row:
        label += f", {row['hyperparameters']}"
    return f"{label}, lr {row['lr']:g}" if "lr" in row else label


def entries(name: str, *, n: int | None = None, ddof: int = 0) -> pd.DataFrame:
    """A result table with one row per entry: `column` (its label), `pool`, `summary`, the printed `bold`, and further ones.

    `n` is for tables that print none. The table `se` has a `squeeze_pool` as well.
    """
    table = tables()[name]
    if ddof not in (0, 1):
        raise ValueError(f"ddof = {ddof!r} is invalid; expected 0 (deviations divide by n) or 1 (by n − 1)")
    if table.kind != "results" or table.spread is None:
        good = ", ".join(name for name, other in tables().items() if other.kind == "results" and other.spread)
        raise ValueError(
            f"name = {name!r} is invalid: the table prints no means with deviations; expected one of {good}"
        )
    runs = table.n if table.n is not None else n
    if runs is None or runs < 2:
        raise ValueError(
            f"n = {n!r} is invalid; expected at least 2, for {name!r} prints no n (a comment says {table.n_comment})"
        )
    frame = table.frame()
    frame.insert(0, "column", [_column_label(row) for _, row in frame.iterrows()])
    sd = frame[table.spread]
    if table.spread == "sem":
        sd = sd * math.sqrt(runs)
    if ddof == 0:
        sd = sd * math.sqrt(runs / (runs - 1))
    frame["summary"] = [Summary(mean, deviation, runs) for mean, deviation in zip(frame["mean"], sd, strict=True)]
    return frame


def redecide(name: str, *, n: int | None = None, ddof: int = 0) -> pd.DataFrame:
    """Which entries should be bold by Welch's test, beside which are.

    Adds to :func:`entries` the confidence interval of each mean (`low`, `high`), `welch_bold`, its p-value against the
    best (`p`), Holm's verdict (`holm_bold`), and `agrees`. One- or two-sided as the table's caption says.
    """
    table, frame = tables()[name], entries(name, n=n, ddof=ddof)
    intervals = [mean_interval(summary) for summary in frame["summary"]]
    frame["low"], frame["high"] = [i.low for i in intervals], [i.high for i in intervals]
    sides = "one-sided" if "one-sided" in (table.test or "") else "two-sided"
    parts = [members["summary"] for _, members in frame.groupby(list(table.bold_over or ["column"]), sort=False)]
    decided = pd.concat(
        bold(part, better=table.better, test="welch", alternative=sides)  # type: ignore[arg-type]
        for part in parts
    )
    frame = frame.join(decided[["bold", "holm_bold", "p"]].rename(columns={"bold": "welch_bold"}))
    return frame.assign(agrees=frame["welch_bold"] == frame["bold"])


Pairs = dict[Contrast, tuple[Summary, Summary]]  # higher is better in both: errors are negative here


def compare_printed(pairs: Pairs, *, margin: float | None) -> Comparisons:
    """Welch's test of each pair, two-sided, corrected by Holm over all of them; *same* is within the margin.

    A significant difference counts however small it is: what the paper says of its tables is about significance.
    """
    estimates = {contrast: welch(a, b) for contrast, (a, b) in pairs.items()}
    return Comparisons(decide(estimates, margin=margin, minimum=0.0), "printed")


def comparison_frame(comparisons: Comparisons) -> pd.DataFrame:
    """The comparisons as rows for tables and figures: place, arms, `gain` with its interval, Holm's p, outcome."""
    return pd.DataFrame(
        {
            "column": key.place, "pool": key.first, "other": key.second, "gain": c.difference,
            "low": c.interval.low, "high": c.interval.high, "p": c.holm_pvalue, "outcome": c.outcome,
        }
        for key, c in comparisons.items()
    )  # fmt: skip


def same_however_rounded(pairs: Pairs, *, margin: float | None) -> list[bool]:
    """For each pair: whether it is significant, or not, for all values that its numbers may have had before rounding.

    The other pairs are taken as printed.
    """
    comparisons = list(compare_printed(pairs, margin=margin).values())
    printed = [c.pvalue for c in comparisons]
    same = []
    for k, ((a, b), c) in enumerate(zip(pairs.values(), comparisons, strict=True)):
        possible = _pvalues_before_rounding(a, b)
        corrected = [holm([*printed[:k], p, *printed[k + 1 :]])[k] for p in (min(possible), max(possible))]
        same.append({p < ALPHA for p in corrected} == {c.holm_pvalue < ALPHA})
    return same


def _pvalues_before_rounding(a: Summary, b: Summary) -> list[float]:
    """Welch's p-values with means and deviations moved by half a unit of their last printed digit, or not."""
    steps = (-0.005, 0.0, 0.005)
    return [
        # twice the step for the first mean: both means were rounded
        welch(
            Summary(a.mean + 2 * mean, max(a.sd + sd_a, 0.0), a.n), Summary(b.mean, max(b.sd + sd_b, 0.0), b.n)
        ).pvalue()
        for mean, sd_a, sd_b in itertools.product(steps, repeat=3)
    ]


def _higher_is_better(name: str, n: int | None = None, ddof: int = 0) -> pd.DataFrame:
    """`entries` with summaries in which higher is better: errors are negative."""
    found = entries(name, n=n, ddof=ddof)
    if tables()[name].better == "low":
        found["summary"] = [replace(summary, mean=-summary.mean) for summary in found["summary"]]
    return found


def _pairs(rows: pd.DataFrame, others: pd.DataFrame, on: list[str], second: str, first: str = "{pool}") -> Pairs:
    """Pair each row with that of `others` that has the same values in the columns `on`.

    The contrasts are named `first`, a format that is filled from the row, and `second`.
    """
    both = rows.merge(others[[*on, "summary"]], on=on, suffixes=("", "_other")).to_dict("records")
    return {Contrast(r["column"], first.format(**r), second): (r["summary"], r["summary_other"]) for r in both}


def against(name: str, baseline: str = "avg", *, n: int | None = None, ddof: int = 0) -> Pairs:
    """Every entry of a table against the baseline pool of its column."""
    found = _higher_is_better(name, n, ddof)
    base = found["pool"] == baseline
    if not base.any():
        pools = ", ".join(sorted(set(found["pool"])))
        raise ValueError(f"baseline = {baseline!r} is invalid; expected one of {pools}, the pools of {name!r}")
    return _pairs(found[~base], found[base], ["column"], baseline)


def lae_against_average(*names: str, n: int | None = None, ddof: int = 0) -> Pairs:
    """Every LAE pool of some tables against average pooling."""
    pairs = [item for name in names for item in against(name, n=n, ddof=ddof).items()]
    return {key: pair for key, pair in pairs if is_lae(key.first)}


def one_against(name: str, pool: str, *, ddof: int = 0) -> Pairs:
    """One pool against every other of its column."""
    return {Contrast(key.place, pool, key.first): (b, a) for key, (a, b) in against(name, pool, ddof=ddof).items()}


def best_others(name: str, pools: Sequence[str], *, n: int | None = None, ddof: int = 0) -> Pairs:
    """Each of some pools against the one with the best mean among the other pools of its column, average pooling aside."""
    found: Pairs = {}
    for column, members in _higher_is_better(name, n, ddof).groupby("column", sort=False):
        by_pool = members.set_index("pool")["summary"]
        for pool in pools:
            rivals = by_pool.drop(index=[pool, "avg"])
            best = max(rivals.index, key=lambda rival: rivals[rival].mean)
            found[Contrast(str(column), pool, f"the best other, {best}")] = by_pool[pool], by_pool[best]
    return found


def lae_pairs(name: str, *, n: int | None = None, ddof: int = 0) -> Pairs:
    """Every two LAE pools of a column against each other."""
    found = _higher_is_better(name, n, ddof)
    return {
        Contrast(str(column), a.pool, b.pool): (a.summary, b.summary)
        for column, members in found[found["pool"].map(is_lae)].groupby("column", sort=False)
        for a, b in itertools.combinations(members.itertuples(), 2)
    }


def _squeezes(ddof: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The entries of table 3 (SE) with average as global pool, and those with the same LAE pool in both places."""
    found = _higher_is_better("se", ddof=ddof)
    both = found["pool"].map(is_lae) & (found["pool"] == found["squeeze_pool"])
    return found[found["pool"] == "avg"], found[both]


def in_the_squeeze(*, ddof: int = 0) -> Pairs:
    """Average as global pool: each LAE pool in the squeeze against the average there."""
    average, _ = _squeezes(ddof)
    base = average["squeeze_pool"] == "avg"
    return _pairs(average[~base], average[base], ["column"], "avg", "{squeeze_pool} in the squeeze")


def squeeze_added(*, ddof: int = 0) -> Pairs:
    """WRN with the same LAE pool in both places, against the same global pool without Squeeze-and-Excitation."""
    return _pairs(_squeezes(ddof)[1], _higher_is_better("wrn", ddof=ddof), ["column", "pool"], "without SE")


def squeeze_alone(*, ddof: int = 0) -> Pairs:
    """WRN with the same LAE pool in both places, against that pool in the squeeze and average as global pool."""
    average, both = _squeezes(ddof)
    return _pairs(both, average, ["column", "squeeze_pool"], "LAE in the squeeze alone")


def at_two_rates(*, ddof: int = 0) -> Pairs:
    """PyramidNet at a first learning rate of 0.1 against 0.5, pool by pool."""
    found = _higher_is_better("pyramidnet_lr", ddof=ddof)
    found["column"] = found["data"].map(DATA_LABELS)
    return _pairs(found[found["lr"] == 0.1], found[found["lr"] == 0.5], ["column", "pool"], "0.5", "{pool} at 0.1")


def unsettled_entries(two_rates: Pairs) -> tuple[Pairs, dict[Contrast, float]]:
    """The LAE entries of `at_two_rates` without context, and which of them are unsettled.

    An entry is unsettled where its deviation at the higher rate is more than ten times that at the lower. It comes with the
    error in % at which one run must have ended if this run alone made the deviation.
    """
    pools = {key: key.first.removesuffix(" at 0.1") for key in two_rates}
    entries = {key: two_rates[key] for key, pool in pools.items() if is_lae(pool) and "context" not in pool}
    wide = {key: high for key, (low, high) in entries.items() if high.sd > 10 * low.sd}
    return entries, {key: lone_outlier(-high.mean, high.sd, high.n) for key, high in wide.items()}


def context_temperature_at_two_rates(two_rates: Pairs) -> list[dict[str, Any]]:
    """The context temperature of `at_two_rates` on each data set: errors in % at both rates, and whether it collapsed.

    It collapsed if its error at the higher rate comes within a tenth of the error of guessing, `chance`.
    """
    chance = {"CIFAR-10": 90.0, "CIFAR-100": 99.0}
    return [
        {
            "place": key.place, "low": -low.mean, "high": -high.mean, "chance": chance[key.place],
            "collapsed": -high.mean > 0.9 * chance[key.place],
        }
        for key, (low, high) in two_rates.items()
        if "context" in key.first
    ]  # fmt: skip


def is_lae(pool: str) -> bool:
    return pool == "lae" or pool.startswith("lae(")


def agreement_by_n(name: str, runs: Sequence[int], *, ddof: int = 0) -> pd.DataFrame:
    """For each n, how many entries of a table Welch's test would set in bold where the paper did not, or the reverse."""
    return pd.DataFrame([{"n": n, "disagree": int((~redecide(name, n=n, ddof=ddof)["agrees"]).sum())} for n in runs])


def log_spaced_n(largest: int) -> list[int]:
    """Numbers of runs from 2 on, evenly spaced on a logarithmic axis."""
    return sorted({round(10 ** (k / 30)) for k in range(10, 200) if 10 ** (k / 30) <= largest})


def describe_ranges(words: Mapping[int, str]) -> str:
    """The word for each n, in ranges of n that share one.

    >>> describe_ranges({2: "open", 3: "partly", 4: "partly"})
    'open for n = 2 to 2; partly for n = 3 to 4'
    """
    groups = itertools.groupby(words, key=words.__getitem__)
    ends = [(word, list(members)) for word, members in groups]
    return "; ".join(f"{word} for n = {members[0]} to {members[-1]}" for word, members in ends)


def lone_failure(summary_mean: float, chance: float, n: int) -> dict[str, float]:
    """The deviations that a mean would have if one of n runs had stayed at chance and the rest had agreed.

    Both ways of dividing are given. The dropped PyramidNet table prints 20.05 ± 34.98 for five runs on ten classes:

    >>> {k: round(v, 2) for k, v in lone_failure(20.05, 90.0, 5).items()}
    {'others': 2.56, 'divide by n': 34.98, 'divide by n - 1': 39.1}
    """
    others = (n * summary_mean - chance) / (n - 1)
    gap = chance - others
    return {"others": others, "divide by n": gap * math.sqrt(n - 1) / n, "divide by n - 1": gap / math.sqrt(n)}


def lone_outlier(mean: float, sd: float, n: int) -> float:
    """Where one of n runs would have ended if the others had agreed and their mean and deviation (n − 1) were these.

    >>> round(lone_outlier(10.45, 13.92 * (5 / 4) ** 0.5, 5), 1)
    38.3
    """
    return mean + sd * (n - 1) / math.sqrt(n)
