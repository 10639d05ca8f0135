"""The tests that the tables rest on, from scipy and statsmodels: Welch, Mann-Whitney, Holm, intervals, equivalence, power.

A group of results is either a sample (a sequence of numbers) or a `Summary` (mean, standard deviation, n), which is all
that a printed table gives. Rank tests need samples; everything else takes both.

>>> bold({"avg": Summary(5.26, 0.15, 30), "lae": Summary(4.98, 0.12, 30)}, better="low", test="welch")["avg"].bold
False
"""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy import special
from scipy import stats as sps
from statsmodels.stats.multitest import multipletests

ALPHA = 0.05  # a p-value below it counts as a difference

Alternative = Literal["two-sided", "less", "greater"]
Better = Literal["low", "high"]
BoldTest = Literal["mann-whitney", "welch"]


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation (n − 1 in the denominator) and number of runs."""

    mean: float
    sd: float
    n: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and math.isfinite(self.sd) and self.sd >= 0):
            raise ValueError(f"mean={self.mean}, sd={self.sd}: both must be finite and sd at least 0")
        if self.n < 2 or self.n != int(self.n):
            raise ValueError(f"n={self.n}: a standard deviation needs a whole number of at least 2 runs")


Group = Summary | Sequence[float] | np.ndarray


@dataclass(frozen=True)
class TestResult:
    """`df` is Welch-Satterthwaite's for a t test and nan for a rank test."""

    __test__ = False  # not a test case, whatever pytest makes of the name

    statistic: float
    pvalue: float
    df: float = math.nan


@dataclass(frozen=True)
class Interval:
    centre: float
    low: float
    high: float
    level: float


def _choice(name: str, value: str, allowed: object) -> None:
    if value not in get_args(allowed):
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, get_args(allowed)))}")


def _between(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name}={value}: expected a number between 0 and 1, both excluded")


def _sample(values: Group, name: str) -> np.ndarray:
    if isinstance(values, Summary):
        raise TypeError(f"{name}: a rank test needs the single results, not mean and deviation; use Welch's test")
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or len(x) < 2:
        raise ValueError(f"{name}: expected a sequence of at least 2 numbers, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError(
            f"{name}: {int((~np.isfinite(x)).sum())} of {len(x)} results are not finite; decide on them first"
        )
    return x


def summarise(values: Group, name: str = "values") -> Summary:
    """The `Summary` of a sample; a `Summary` is returned as it is."""
    if isinstance(values, Summary):
        return values
    x = _sample(values, name)
    if (x == x[0]).all():  # the mean of equal numbers can round away from them, and two such groups then differ
        return Summary(float(x[0]), 0.0, len(x))
    return Summary(float(x.mean()), float(x.std(ddof=1)), len(x))


def welch_df(a: Summary, b: Summary) -> float:
    """Degrees of freedom of Welch and Satterthwaite; scipy keeps those of a test from summaries to itself."""
    va, vb = a.sd**2 / a.n, b.sd**2 / b.n
    # As shares of the variance, so that tiny deviations do not underflow when squared.
    share = va / (va + vb)
    return 1 / (share**2 / (a.n - 1) + (1 - share) ** 2 / (b.n - 1))


def welch(a: Group, b: Group, alternative: Alternative = "two-sided") -> TestResult:
    """Welch's t test of two groups; `alternative="less"` asks whether a's mean is the smaller.

    Two groups without any spread are decided by their means alone: p is 0 or 1, since t is infinite or undefined.
    """
    _choice("alternative", alternative, Alternative)
    x, y = summarise(a, "a"), summarise(b, "b")
    difference = x.mean - y.mean
    if x.sd**2 / x.n + y.sd**2 / y.n == 0:
        right_way = {"two-sided": difference != 0, "less": difference < 0, "greater": difference > 0}[alternative]
        statistic = math.copysign(math.inf, difference) if difference else math.nan
        return TestResult(statistic, 0.0 if right_way else 1.0)
    found = sps.ttest_ind_from_stats(x.mean, x.sd, x.n, y.mean, y.sd, y.n, equal_var=False, alternative=alternative)
    return TestResult(float(found.statistic), float(found.pvalue), welch_df(x, y))


def mann_whitney(a: Group, b: Group, alternative: Alternative = "two-sided") -> TestResult:
    """Mann-Whitney's rank test; exact for small samples without ties, else the tie-corrected normal approximation."""
    _choice("alternative", alternative, Alternative)
    x, y = _sample(a, "a"), _sample(b, "b")
    if len(set(x) | set(y)) == 1:  # all values equal: no ranks to speak of
        return TestResult(len(x) * len(y) / 2, 1.0)
    result = sps.mannwhitneyu(x, y, alternative=alternative)
    return TestResult(float(result.statistic), float(result.pvalue))


def mean_interval(values: Group, level: float = 0.95) -> Interval:
    """Student's confidence interval of the mean."""
    _between("level", level)
    s = summarise(values)
    return _interval(s.mean, s.sd / math.sqrt(s.n), s.n - 1, level)


def difference_interval(a: Group, b: Group, level: float = 0.95) -> Interval:
    """Welch's confidence interval of mean(a) − mean(b)."""
    _between("level", level)
    x, y = summarise(a, "a"), summarise(b, "b")
    error = math.hypot(x.sd / math.sqrt(x.n), y.sd / math.sqrt(y.n))
    return _interval(x.mean - y.mean, error, welch_df(x, y) if error else math.inf, level)


def _interval(centre: float, error: float, df: float, level: float) -> Interval:
    low, high = sps.t.interval(level, df, loc=centre, scale=error) if error else (centre, centre)
    return Interval(centre, float(low), float(high), level)


def holm(pvalues: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: below α exactly where his step-down test rejects at α."""
    p = np.asarray(pvalues, dtype=float)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"pvalues={list(pvalues)}: expected numbers from 0 to 1")
    # statsmodels collects garbage in there, which with torch loaded takes a tenth of a second; frozen objects are
    # passed over.
    gc.freeze()
    try:
        return [float(value) for value in multipletests(p, method="holm")[1]]
    finally:
        gc.unfreeze()


def paired_power(difference: float, sd: float, n: int, *, comparisons: int = 1, alpha: float = ALPHA) -> float:
    """The chance that a paired t test of n pairs, whose differences have deviation sd, finds a true difference.

    The level is shared among the comparisons of a claim, which is what Holm's correction asks of the first of them.
    """
    critical = _critical(sd, n, comparisons, alpha)
    shift = abs(difference) / sd * math.sqrt(n)
    # Both tails as upper ones: scipy's lower tail is nan far out, and so is the power that statsmodels makes of it.
    return float(sps.nct.sf(critical, n - 1, shift) + sps.nct.sf(critical, n - 1, -shift))


def smallest_effect(sd: float, n: int, *, comparisons: int = 1, power: float = 0.8, alpha: float = ALPHA) -> float:
    """The smallest true difference that such a test finds with this power, in the unit of sd.

    >>> round(smallest_effect(1.0, 10), 2), round(smallest_effect(1.0, 10, comparisons=6), 2)
    (1.0, 1.37)
    """
    _between("power", power)
    # At any power worth having the other tail adds nothing that could be seen.
    shift = special.nctdtrinc(n - 1, 1 - power, _critical(sd, n, comparisons, alpha))
    return sd * float(shift) / math.sqrt(n)


def _critical(sd: float, n: int, comparisons: int, alpha: float) -> float:
    _between("alpha", alpha)
    if not sd > 0 or n < 2 or comparisons < 1:
        raise ValueError(
            f"sd={sd}, n={n}, comparisons={comparisons}: expected sd above 0, n from 2, comparisons from 1"
        )
    return float(sps.t.isf(alpha / comparisons / 2, n - 1))


@dataclass(frozen=True)
class BoldEntry:
    """One entry of a column. The best has no p-value (nan); the corrected verdict is Holm's over the column."""

    summary: Summary
    best: bool
    bold: bool
    bold_corrected: bool
    pvalue: float
    pvalue_corrected: float


def bold(
    groups: Mapping[str, Group],
    *,
    better: Better,
    test: BoldTest = "mann-whitney",
    alternative: Literal["two-sided", "one-sided"] | None = None,
    alpha: float = ALPHA,
) -> dict[str, BoldEntry]:
    """The paper's rule for one column: bold is the best mean, and every entry that is not significantly worse than it.

    The paper tests by Mann-Whitney, two-sided, or by Welch, one-sided; `alternative` left out follows it. Groups that
    tie for the best mean are all best. The corrected verdict can only add bold entries.
    """
    _choice("better", better, Better)
    _choice("test", test, BoldTest)
    _between("alpha", alpha)
    if not groups:
        raise ValueError("groups is empty: expected at least one entry")
    sides = alternative or ("two-sided" if test == "mann-whitney" else "one-sided")
    if sides not in ("two-sided", "one-sided"):
        raise ValueError(f"alternative={alternative!r}: expected 'two-sided' or 'one-sided'")
    worse: Alternative = "two-sided" if sides == "two-sided" else ("greater" if better == "low" else "less")
    run_test = mann_whitney if test == "mann-whitney" else welch
    summaries = {name: summarise(group, name) for name, group in groups.items()}
    top = (min if better == "low" else max)(summary.mean for summary in summaries.values())
    leader = next(name for name, summary in summaries.items() if summary.mean == top)
    others = [name for name, summary in summaries.items() if summary.mean != top]
    p = {name: run_test(groups[name], groups[leader], worse).pvalue for name in others}
    corrected = dict(zip(others, holm([p[name] for name in others]), strict=True))
    return {
        name: BoldEntry(
            summary=summary,
            best=name not in p,
            bold=name not in p or p[name] >= alpha,
            bold_corrected=name not in p or corrected[name] >= alpha,
            pvalue=p.get(name, math.nan),
            pvalue_corrected=corrected.get(name, math.nan),
        )
        for name, summary in summaries.items()
    }
