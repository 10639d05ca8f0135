"""Decide the paper's tables again from what they print: mean, deviation and n.

The paper tested single runs by ranks, which it does not print. Welch's test needs only what it does print. Its printed
deviations divide by n (``ddof=0``): see :func:`lone_failure`, which shows it from one entry. Welch's test wants the
deviation that divides by n − 1, so they are converted first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pandas as pd

from lae_core.evidence.paper import DATA_LABELS, Table, tables
from lae_core.evidence.stats import BoldEntry, Summary, bold, difference_interval, holm, mean_interval, welch

ALPHA = 0.05


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


def compare(a: Summary, b: Summary, *, better: str, rounding: float = 0.0) -> dict[str, object]:
    """How much better a is than b (`gain`, with its 95 % interval), and whether that is significant, two-sided.

    `outcome` is "better", "worse" or "level". With `rounding` (half a unit of the last printed digit) also `firm`:
    whether the outcome is the same for all that the numbers may have been before they were rounded.
    """
    sign = -1 if better == "low" else 1
    interval, p = difference_interval(a, b), welch(a, b).pvalue
    low, high = sorted((sign * interval.low, sign * interval.high))
    outcome = "level" if p >= ALPHA else ("better" if sign * interval.centre > 0 else "worse")
    found: dict[str, object] = {"gain": sign * interval.centre, "low": low, "high": high, "p": p, "outcome": outcome}
    if rounding:
        steps = (-rounding, 0.0, rounding)
        around = [
            welch(Summary(a.mean + 2 * mean, max(a.sd + sd, 0.0), a.n), Summary(b.mean, max(b.sd + other, 0.0), b.n))
            # Twice the step for the mean: both means were rounded.
            for mean, sd, other in itertools.product(steps, steps, steps)
        ]
        found["firm"] = len({test.pvalue < ALPHA for test in around}) == 1
    return found


def against(
    name: str, baseline: str = "avg", *, n: int | None = None, ddof: int = 0, rounding: float = 0.005
) -> pd.DataFrame:
    """Every entry of a table compared with the baseline pool of its column (in `se`: baseline in both places)."""
    frame = entries(name, n=n, ddof=ddof)
    is_base = frame["pool"] == baseline
    if "squeeze_pool" in frame:
        is_base &= frame["squeeze_pool"] == baseline
    if not is_base.any():
        raise ValueError(f"baseline={baseline!r} is not in {name!r}, whose pools are {sorted(set(frame['pool']))}")
    base = frame[is_base].set_index("column")["summary"]
    rows = frame[~is_base & frame["column"].isin(base.index)]
    return _compared(rows, [base[column] for column in rows["column"]], str(tables()[name].better), rounding)


def _compared(rows: pd.DataFrame, others: list[Summary], better: str, rounding: float) -> pd.DataFrame:
    found = [
        compare(summary, other, better=better, rounding=rounding)
        for summary, other in zip(rows["summary"], others, strict=True)
    ]
    return pd.concat([rows.reset_index(drop=True), pd.DataFrame(found)], axis=1)


def lae_ahead_by_n(name: str, runs: Sequence[int], *, ddof: int = 0) -> pd.DataFrame:
    """For each n, and each column of a table: is any LAE pool significantly better than average pooling?"""
    found = []
    for n in runs:
        frame = against(name, n=n, ddof=ddof, rounding=0)
        lae = frame[frame["pool"].map(is_lae)]
        ahead = (lae["outcome"] == "better").groupby(lae["column"], sort=False).any()
        found.append({"n": n, **ahead.to_dict()})
    return pd.DataFrame(found)


def agreement_by_n(name: str, runs: Sequence[int], *, ddof: int = 0) -> pd.DataFrame:
    """For each n, how many entries of a table Welch's test would not set as the paper did."""
    return pd.DataFrame([{"n": n, "disagree": int((~redecide(name, n=n, ddof=ddof)["agrees"]).sum())} for n in runs])


def pairs(name: str, *, n: int | None = None, ddof: int = 0) -> pd.DataFrame:
    """Every two LAE pools of a column compared, with Holm's correction over all of them as `p_holm`."""
    frame = entries(name, n=n, ddof=ddof)
    frame = frame[frame["pool"].map(is_lae)]
    found = [
        {"column": column, "pool": a.pool, "other": b.pool, **compare(a.summary, b.summary, better="high")}
        for column, members in frame.groupby("column", sort=False)
        for a, b in itertools.combinations(members.itertuples(), 2)
    ]
    compared = pd.DataFrame(found)
    compared["p_holm"] = holm(list(compared["p"]))
    return compared


def squeeze_added(*, ddof: int = 0) -> pd.DataFrame:
    """WRN with the same LAE pool in both places, compared with the same global pool and no Squeeze-and-Excitation."""
    both, plain = _lae_in_both(ddof), entries("wrn", ddof=ddof).set_index(["column", "pool"])["summary"]
    return _compared(
        both, [plain[column, pool] for column, pool in zip(both["column"], both["pool"], strict=True)], "low", 0.005
    )


def squeeze_alone(*, ddof: int = 0) -> pd.DataFrame:
    """WRN with the same LAE pool in both places, compared with that pool in the squeeze and average pooling above."""
    se = entries("se", ddof=ddof)
    alone = se[se["pool"] == "avg"].set_index(["column", "squeeze_pool"])["summary"]
    both = _lae_in_both(ddof)
    return _compared(
        both, [alone[column, pool] for column, pool in zip(both["column"], both["pool"], strict=True)], "low", 0.005
    )


def _lae_in_both(ddof: int) -> pd.DataFrame:
    se = entries("se", ddof=ddof)
    return se[se["pool"].map(is_lae) & (se["pool"] == se["squeeze_pool"])]


def at_two_rates(*, ddof: int = 0) -> pd.DataFrame:
    """PyramidNet at a first learning rate of 0.1 compared with 0.5, pool by pool; `sd_high` is the deviation at 0.5."""
    frame = entries("pyramidnet_lr", ddof=ddof)
    high = frame[frame["lr"] == 0.5].set_index(["data", "pool"])["summary"]
    low = frame[frame["lr"] == 0.1]
    others = [high[data, pool] for data, pool in zip(low["data"], low["pool"], strict=True)]
    compared = _compared(low, others, "low", 0.005)
    return compared.assign(mean_high=[other.mean for other in others], sd_high=[other.sd for other in others])


def is_lae(pool: str) -> bool:
    return pool == "lae" or pool.startswith("lae(")


def tally(outcomes: pd.Series) -> dict[str, int]:
    """How many comparisons came out better, level and worse."""
    return {outcome: int((outcomes == outcome).sum()) for outcome in ("better", "level", "worse")}


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
