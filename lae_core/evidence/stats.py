"""The tests that the paper's tables rest on, and what it leaves out: intervals, effect sizes, many comparisons, power.

A group of results is either a sample (a sequence of numbers) or a `Summary` (mean, standard deviation, n), which is all
that a printed table gives. Rank tests need samples; everything else takes both.

>>> bold({"avg": Summary(5.26, 0.15, 30), "lae": Summary(4.98, 0.12, 30)}, better="low", test="welch")["avg"].bold
False
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy import stats as sps

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


def welch_from_summary(
    mean1: float, sd1: float, n1: int, mean2: float, sd2: float, n2: int, alternative: Alternative = "two-sided"
) -> TestResult:
    """Welch's t test of mean1 against mean2; `alternative="less"` asks whether mean1 is the smaller.

    Two groups without any spread are decided by their means alone: p is 0 or 1, since t is infinite or undefined.
    """
    _choice("alternative", alternative, Alternative)
    a, b = Summary(mean1, sd1, n1), Summary(mean2, sd2, n2)
    va, vb = a.sd**2 / a.n, b.sd**2 / b.n
    difference = a.mean - b.mean
    if va + vb == 0:
        right_way = {"two-sided": difference != 0, "less": difference < 0, "greater": difference > 0}[alternative]
        statistic = math.copysign(math.inf, difference) if difference else math.nan
        return TestResult(statistic, 0.0 if right_way else 1.0)
    # As shares of the variance, so that tiny deviations do not underflow when squared.
    share = va / (va + vb)
    df = 1 / (share**2 / (a.n - 1) + (1 - share) ** 2 / (b.n - 1))
    t = difference / math.sqrt(va + vb)
    tails = {"two-sided": 2 * sps.t.sf(abs(t), df), "less": sps.t.cdf(t, df), "greater": sps.t.sf(t, df)}
    return TestResult(t, float(tails[alternative]), df)


def welch(a: Group, b: Group, alternative: Alternative = "two-sided") -> TestResult:
    """Welch's t test of two groups; `alternative="less"` asks whether a's mean is the smaller."""
    x, y = summarise(a, "a"), summarise(b, "b")
    return welch_from_summary(x.mean, x.sd, x.n, y.mean, y.sd, y.n, alternative)


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
    half = float(sps.t.ppf((1 + level) / 2, s.n - 1)) * s.sd / math.sqrt(s.n)
    return Interval(s.mean, s.mean - half, s.mean + half, level)


def difference_interval(a: Group, b: Group, level: float = 0.95) -> Interval:
    """Welch's confidence interval of mean(a) − mean(b)."""
    _between("level", level)
    x, y = summarise(a, "a"), summarise(b, "b")
    difference, error = x.mean - y.mean, math.hypot(x.sd / math.sqrt(x.n), y.sd / math.sqrt(y.n))
    df = welch(x, y).df
    half = float(sps.t.ppf((1 + level) / 2, df)) * error if error else 0.0
    return Interval(difference, difference - half, difference + half, level)


def effect_size(a: Group, b: Group) -> float:
    """Hedges' g: mean(a) − mean(b) in pooled standard deviations, corrected for its bias in small samples."""
    x, y = summarise(a, "a"), summarise(b, "b")
    df = x.n + y.n - 2
    pooled = math.sqrt(((x.n - 1) * x.sd**2 + (y.n - 1) * y.sd**2) / df)
    difference = x.mean - y.mean
    if pooled == 0:
        return math.copysign(math.inf, difference) if difference else 0.0
    correction = math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)
    return correction * difference / pooled


def superiority(a: Group, b: Group) -> float:
    """The chance that a run of a exceeds one of b, ties counted half: the effect size of the rank test."""
    x, y = _sample(a, "a"), _sample(b, "b")
    return mann_whitney(x, y).statistic / (len(x) * len(y))


def holm(pvalues: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: below α exactly where his step-down test rejects at α."""
    p = np.asarray(pvalues, dtype=float)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"pvalues={list(pvalues)}: expected numbers from 0 to 1")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))))
    return [float(value) for value in adjusted]


@dataclass(frozen=True)
class BoldEntry:
    """One entry of a column. The best has no p-value (nan); the corrected verdict is Holm's over the column."""

    summary: Summary
    best: bool
    bold: bool
    bold_corrected: bool
    pvalue: float
    pvalue_corrected: float
    effect: float


def bold(
    groups: Mapping[str, Group],
    *,
    better: Better,
    test: BoldTest = "mann-whitney",
    alternative: Literal["two-sided", "one-sided"] | None = None,
    alpha: float = 0.05,
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
            effect=effect_size(summary, summaries[leader]),
        )
        for name, summary in summaries.items()
    }


def power(difference: float, sd: float, n: int, *, alpha: float = 0.05, one_sided: bool = False) -> float:
    """The chance that a t test of two groups of n runs, each of deviation sd, finds a true difference of means."""
    _between("alpha", alpha)
    if not sd > 0 or n < 2:
        raise ValueError(f"sd={sd}, n={n}: expected sd above 0 and at least 2 runs a group")
    df, shift = 2 * n - 2, abs(difference) / sd * math.sqrt(n / 2)
    if one_sided:
        return float(sps.nct.sf(sps.t.ppf(1 - alpha, df), df, shift))
    critical = sps.t.ppf(1 - alpha / 2, df)
    return float(sps.nct.sf(critical, df, shift) + sps.nct.cdf(-critical, df, shift))


def runs_needed(difference: float, sd: float, *, power_wanted: float = 0.8, alpha: float = 0.05) -> int:
    """The smallest n a group at which the two-sided t test reaches the power wanted: what would settle a question."""
    _between("power_wanted", power_wanted)
    if difference == 0:
        raise ValueError("difference=0: no number of runs finds a difference that is not there")
    n = fewest(lambda runs: power(difference, sd, runs, alpha=alpha) >= power_wanted, 10**7)
    if n is None:
        raise ValueError(f"difference={difference}, sd={sd}: more than ten million runs a group would be needed")
    return n


def fewest(enough: Callable[[int], bool], most: int) -> int | None:
    """The smallest number from 2 on that is enough, where more never is less; None where `most` is not enough."""
    low, high = 1, 2
    while not enough(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
