"""Decide the paper's tables again from what they print: mean, deviation and n.

The paper tested single runs by ranks, which it does not print. Welch's test needs only what it does print. Its printed
deviations divide by n (``ddof=0``): see :func:`lone_failure`, which shows it from one entry. Welch's test wants the
deviation that divides by n − 1, so they are converted first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from lae_core.evidence.compare import Comparisons, Contrast, Raw, decide
from lae_core.evidence.stats import ALPHA, BoldEntry, Summary, bold, difference_interval, holm, mean_interval, welch
from lae_core.paper import DATA_LABELS, Table, tables


def _check(table: Table, n: int | None, ddof: int) -> int:
    if ddof not in (0, 1):
        raise ValueError(f"ddof={ddof!r}: expected 0 (deviations divide by n) or 1 (by n − 1)")
    if table.kind != "results" or table.spread is None:
        raise ValueError(f"table={table.name!r} holds no means with deviations")
    runs = table.n if table.n is not None else n
    if runs is None or runs < 2:
        raise ValueError(
            f"n={n!r}: {table.name!r} prints no n, pass one of at least 2 (a comment says {table.n_comment})"
        )
    return runs


def _summary(mean: float, spread: float, n: int, *, kind: str, ddof: int) -> Summary:
    sd = spread * math.sqrt(n) if kind == "sem" else spread
    return Summary(mean, sd * math.sqrt(n / (n - 1)) if ddof == 0 else sd, n)


def _column_label(row: pd.Series) -> str:
    label = DATA_LABELS[row["data"]]
    if "size" in row:
        label += f" {row['size']} px"
    if "hyperparameters" in row:
        label += f", {row['hyperparameters']}"
    return f"{label}, lr {row['lr']:g}" if "lr" in row else label


def entries(name: str, *, n: int | None = None, ddof: int = 0) -> pd.DataFrame:
    """A result table with one row an entry: `column` (its label), `pool`, `summary`, the printed `bold`, and so on.

    Where the table prints no n, `n` is taken. In `se` there is a `squeeze_pool` too.
    """
    table = tables()[name]
    runs = _check(table, n, ddof)
    frame = table.frame()
    frame.insert(0, "column", [_column_label(row) for _, row in frame.iterrows()])
    frame["summary"] = [
        _summary(mean, spread, runs, kind=str(table.spread), ddof=ddof)
        for mean, spread in zip(frame["mean"], frame[table.spread], strict=True)
    ]
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
    groups = list(table.bold_over) if table.bold_over else ["column"]
    decided: dict[str, BoldEntry] = {}
    for _, members in frame.groupby(groups, sort=False):
        named = {str(index): summary for index, summary in members["summary"].items()}
        decided |= bold(named, better=table.better, test="welch", alternative=sides, alpha=ALPHA)  # type: ignore[arg-type]
    found = [decided[str(index)] for index in frame.index]
    frame["welch_bold"] = [entry.bold for entry in found]
    frame["holm_bold"] = [entry.bold_corrected for entry in found]
    frame["p"] = [entry.pvalue for entry in found]
    frame["agrees"] = frame["welch_bold"] == frame["bold"]
    return frame


Pairs = dict[Contrast, tuple[Summary, Summary]]  # higher is better on both sides, whatever the table prints


def decided(pairs: Pairs, *, margin: float | None) -> Comparisons:
    """Welch's test of each pair, two-sided, corrected by Holm over all of them; *same* is within the margin.

    A significant difference counts however small it is: what the paper says of its tables is about significance.
    """
    raw = {contrast: _welch(str(contrast), a, b) for contrast, (a, b) in pairs.items()}
    return Comparisons(decide(raw, margin=margin, minimum=0.0), "printed")


def _welch(name: str, a: Summary, b: Summary) -> Raw:
    def equivalent(margin: float) -> float:
        above = welch(replace(a, mean=a.mean + margin), b, "greater").pvalue
        return max(above, welch(replace(a, mean=a.mean - margin), b, "less").pvalue)

    n = min(a.n, b.n)
    spread = Summary(a.mean - b.mean, math.hypot(a.sd, b.sd), n)
    return Raw(name, n, spread, difference_interval(a, b), welch(a, b).pvalue, equivalent, lambda tests: math.nan)


def frame(comparisons: Comparisons) -> pd.DataFrame:
    """The comparisons as rows for tables and figures: place, arms, `gain` with its interval, Holm's p, outcome."""
    return pd.DataFrame(
        {
            "column": key.place, "pool": key.first, "other": key.second, "gain": c.difference,
            "low": c.interval.low, "high": c.interval.high, "p": c.corrected, "outcome": c.outcome,
        }
        for key, c in comparisons.items()
    )  # fmt: skip


def firm(pairs: Pairs, *, margin: float | None, rounding: float = 0.005) -> list[bool]:
    """Of each pair, whether its significance is the same for all that its numbers may have been before rounding.

    `rounding` is half a unit of the last printed digit; the other pairs are taken as printed.
    """
    significant = [c.corrected < ALPHA for c in decided(pairs, margin=margin).values()]
    p = [welch(a, b).pvalue for a, b in pairs.values()]
    found = []
    for k, (a, b) in enumerate(pairs.values()):
        steps = (-rounding, 0.0, rounding)
        around = [
            # Twice the step for the mean: both means were rounded.
            welch(
                Summary(a.mean + 2 * mean, max(a.sd + sd, 0.0), a.n), Summary(b.mean, max(b.sd + other, 0.0), b.n)
            ).pvalue
            for mean, sd, other in itertools.product(steps, steps, steps)
        ]
        ends = [holm([*p[:k], end, *p[k + 1 :]])[k] < ALPHA for end in (min(around), max(around))]
        found.append(ends == [significant[k]] * 2)
    return found


def _oriented(name: str, n: int | None, ddof: int) -> pd.DataFrame:
    """`entries` with summaries in which higher is better: an error counts as its negative."""
    table, found = tables()[name], entries(name, n=n, ddof=ddof)
    if table.better == "low":
        found["summary"] = [replace(summary, mean=-summary.mean) for summary in found["summary"]]
    return found


def against(name: str, baseline: str = "avg", *, n: int | None = None, ddof: int = 0) -> Pairs:
    """Every entry of a table with the baseline pool of its column."""
    found = _oriented(name, n, ddof)
    base = found[found["pool"] == baseline].set_index("column")["summary"]
    if base.empty:
        raise ValueError(f"baseline={baseline!r} is not in {name!r}, whose pools are {sorted(set(found['pool']))}")
    rows = found[(found["pool"] != baseline) & found["column"].isin(base.index)]
    return {Contrast(row.column, row.pool, baseline): (row.summary, base[row.column]) for row in rows.itertuples()}


def lae_against_average(*names: str, n: int | None = None, ddof: int = 0) -> Pairs:
    """Every LAE pool of some tables with average pooling."""
    found: Pairs = {}
    for name in names:
        found |= {key: pair for key, pair in against(name, n=n, ddof=ddof).items() if is_lae(key.first)}
    return found


def one_against(name: str, pool: str, *, n: int | None = None, ddof: int = 0) -> Pairs:
    """One pool with every other of its column."""
    turned = against(name, pool, n=n, ddof=ddof)
    return {Contrast(key.place, pool, key.first): (b, a) for key, (a, b) in turned.items()}


def best_others(name: str, pools: Sequence[str], *, n: int | None = None, ddof: int = 0) -> Pairs:
    """Each of some pools with the best mean among the other pools of its column, average pooling aside."""
    found: Pairs = {}
    for column, members in _oriented(name, n, ddof).groupby("column", sort=False):
        by_pool = members.set_index("pool")["summary"]
        for pool in pools:
            rivals = by_pool.drop(index=[pool, "avg"])
            best = max(rivals.index, key=lambda rival: rivals[rival].mean)
            found[Contrast(str(column), pool, f"the best other, {best}")] = by_pool[pool], by_pool[best]
    return found


def lae_pairs(name: str, *, n: int | None = None, ddof: int = 0) -> Pairs:
    """Every two LAE pools of a column."""
    found = _oriented(name, n, ddof)
    return {
        Contrast(str(column), a.pool, b.pool): (a.summary, b.summary)
        for column, members in found[found["pool"].map(is_lae)].groupby("column", sort=False)
        for a, b in itertools.combinations(members.itertuples(), 2)
    }


def in_the_squeeze(*, ddof: int = 0) -> Pairs:
    """Average as global pool: each LAE pool in the squeeze with the average there."""
    found = _oriented("se", None, ddof).query("pool == 'avg'")
    base = found[found["squeeze_pool"] == "avg"].set_index("column")["summary"]
    rows = found[found["squeeze_pool"] != "avg"]
    return {
        Contrast(r.column, f"{r.squeeze_pool} in the squeeze", "avg"): (r.summary, base[r.column])
        for r in rows.itertuples()
    }


def squeeze_added(*, ddof: int = 0) -> Pairs:
    """WRN with the same LAE pool in both places, with the same global pool and no Squeeze-and-Excitation."""
    plain = _oriented("wrn", None, ddof).set_index(["column", "pool"])["summary"]
    return {
        Contrast(r.column, r.pool, "without SE"): (r.summary, plain[r.column, r.pool])
        for r in _lae_in_both(ddof).itertuples()
    }


def squeeze_alone(*, ddof: int = 0) -> Pairs:
    """WRN with the same LAE pool in both places, with that pool in the squeeze and average pooling above."""
    found = _oriented("se", None, ddof).query("pool == 'avg'")
    alone = found.set_index(["column", "squeeze_pool"])["summary"]
    return {
        Contrast(r.column, r.pool, "LAE in the squeeze alone"): (r.summary, alone[r.column, r.pool])
        for r in _lae_in_both(ddof).itertuples()
    }


def _lae_in_both(ddof: int) -> pd.DataFrame:
    se = _oriented("se", None, ddof)
    return se[se["pool"].map(is_lae) & (se["pool"] == se["squeeze_pool"])]


def at_two_rates(*, ddof: int = 0) -> Pairs:
    """PyramidNet at a first learning rate of 0.1 with 0.5, pool by pool."""
    found = _oriented("pyramidnet_lr", None, ddof)
    high = found[found["lr"] == 0.5].set_index(["data", "pool"])["summary"]
    rows = found[found["lr"] == 0.1]
    return {
        Contrast(DATA_LABELS[r.data], f"{r.pool} at 0.1", "0.5"): (r.summary, high[r.data, r.pool])
        for r in rows.itertuples()
    }


def unsettled(two_rates: Pairs, *, factor: float = 10.0) -> tuple[Pairs, dict[Contrast, float]]:
    """Of `at_two_rates`, the LAE entries without context; and those whose deviation at the higher rate is `factor`
    times that at the lower, each with the error in % at which one lone run would have had to end."""
    pools = {key: key.first.removesuffix(" at 0.1") for key in two_rates}
    entries = {key: two_rates[key] for key, pool in pools.items() if is_lae(pool) and "context" not in pool}
    wide = {key: high for key, (low, high) in entries.items() if high.sd > factor * low.sd}
    return entries, {key: lone_outlier(-high.mean, high.sd, high.n) for key, high in wide.items()}


def context_at_the_high_rate(two_rates: Pairs) -> list[dict[str, Any]]:
    """Of `at_two_rates`, the context temperature on each data set: its errors in % at both rates, the error of
    guessing, and whether the higher rate comes within a tenth of that."""
    chance = {"CIFAR-10": 90.0, "CIFAR-100": 99.0}
    found = []
    for key, (low, high) in two_rates.items():
        if "context" in key.first:
            guessing = chance[key.place]
            row = {"place": key.place, "low": -low.mean, "high": -high.mean, "chance": guessing}
            found.append(row | {"collapsed": -high.mean > 0.9 * guessing})
    return found


def is_lae(pool: str) -> bool:
    return pool == "lae" or pool.startswith("lae(")


def agreement_by_n(name: str, runs: Sequence[int], *, ddof: int = 0) -> pd.DataFrame:
    """For each n, how many entries of a table Welch's test would not set as the paper did."""
    return pd.DataFrame([{"n": n, "disagree": int((~redecide(name, n=n, ddof=ddof)["agrees"]).sum())} for n in runs])


def many_n(largest: int) -> list[int]:
    """Numbers of runs from 2 on, evenly spaced on a logarithmic axis."""
    return sorted({round(10 ** (k / 30)) for k in range(10, 200) if 10 ** (k / 30) <= largest})


def spans(words: Mapping[int, str]) -> str:
    """A word for each n as ranges.

    >>> spans({2: "open", 3: "partly", 4: "partly"})
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
