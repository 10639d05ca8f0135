"""The tests that the tables rest on, from scipy and statsmodels: Welch, Mann-Whitney, Holm, intervals, equivalence, power.

A group of results is either a sample (a sequence of numbers) or a `Summary` (mean, standard deviation, n), which is all
that a printed table gives. Rank tests need samples; everything else takes both. scipy has Welch's test of summaries, but
neither its interval nor its degrees of freedom: :class:`Estimate` has all three, from one t distribution.

>>> bold({"avg": Summary(5.26, 0.15, 30), "lae": Summary(4.98, 0.12, 30)}, better="low", test="welch")["bold"].to_dict()
{'avg': False, 'lae': True}
"""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from scipy import special
from scipy import stats as sps
from statsmodels.stats.multitest import multipletests

from lae_core.training.words import check_word

ALPHA = 0.05  # a p-value below it counts as a difference
POWER = 0.8  # the chance with which `smallest_effect` is found

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
            raise ValueError(f"mean = {self.mean}, sd = {self.sd} is invalid; expected finite numbers, sd at least 0")
        if self.n < 2 or self.n != int(self.n):
            raise ValueError(f"n = {self.n} is invalid; expected a whole number of at least 2, to have a deviation")


Group = Summary | Sequence[float] | np.ndarray


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    centre: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A mean, or a difference of two, with its standard error: Student's t distribution decides on it.

    Without any spread (an error of 0) the value decides alone: t is infinite, or 0. `n` is the runs of the smaller group.
    """

    value: float
    error: float
    df: float
    n: int

    def pvalue(self, alternative: Alternative = "two-sided", null: float = 0.0) -> float:
        """The t test against `null`; `alternative="less"` asks whether the true value is smaller."""
        difference = self.value - null
        t = difference and (difference / self.error if self.error else math.copysign(math.inf, difference))
        if alternative == "two-sided":
            return 2 * float(sps.t.sf(abs(t), self.df))
        return float(sps.t.cdf(t, self.df) if alternative == "less" else sps.t.sf(t, self.df))

    def pvalue_within(self, margin: float) -> float:
        """Two one-sided tests: small where the true value surely lies within ± margin."""
        return max(self.pvalue("greater", -margin), self.pvalue("less", margin))

    @property
    def interval(self) -> Interval:
        half = self.error * float(sps.t.isf(ALPHA / 2, self.df))
        return Interval(self.value, self.value - half, self.value + half)

    def smallest_effect(self, comparisons: int = 1) -> float:
        """The smallest true value that such a test finds four times in five.

        The level is shared among the comparisons of a claim, which is what Holm's correction asks of the first of them.
        """
        # At this power the other tail adds nothing that could be seen.
        return self.error * float(special.nctdtrinc(self.df, 1 - POWER, _critical(self.df, comparisons)))


def _sample(values: Group, name: str) -> np.ndarray:
    """The values as an array; an error that calls them `name` unless they are two finite numbers at least."""
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


def mean_of(values: Group, name: str = "values") -> Estimate:
    """The mean of a group."""
    s = summarise(values, name)
    return Estimate(s.mean, s.sd / math.sqrt(s.n), s.n - 1, s.n)


def mean_interval(values: Group) -> Interval:
    """Student's confidence interval of the mean."""
    return mean_of(values).interval


def paired(a: Sequence[float], b: Sequence[float], name: str = "values") -> Estimate:
    """The mean of a − b, pair by pair."""
    if len(a) != len(b):
        raise ValueError(f"{name}: {len(a)} and {len(b)} results; expected the same number, at least 2")
    return mean_of(np.subtract(a, b), name)


def welch(a: Group, b: Group) -> Estimate:
    """mean(a) − mean(b) for Welch's t test, with the degrees of freedom of Welch and Satterthwaite."""
    x, y = summarise(a, "a"), summarise(b, "b")
    va, vb = x.sd**2 / x.n, y.sd**2 / y.n
    # As shares of the variance, so that tiny deviations do not underflow when squared.
    share = va / (va + vb) if va + vb else 0.5
    df = 1 / (share**2 / (x.n - 1) + (1 - share) ** 2 / (y.n - 1))
    return Estimate(x.mean - y.mean, math.hypot(x.sd / math.sqrt(x.n), y.sd / math.sqrt(y.n)), df, min(x.n, y.n))


def holm(pvalues: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: below α exactly where his step-down test rejects at α."""
    p = np.asarray(pvalues, dtype=float)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"pvalues = {list(pvalues)} is invalid; expected numbers from 0 to 1")
    # statsmodels collects garbage in there, which with torch loaded takes a tenth of a second; frozen objects are
    # passed over.
    gc.freeze()
    try:
        return [float(value) for value in multipletests(p, method="holm")[1]]
    finally:
        gc.unfreeze()


def _critical(df: float, comparisons: int) -> float:
    return float(sps.t.isf(ALPHA / comparisons / 2, df))


def paired_power(difference: float, sd: float, n: int, *, comparisons: int = 1) -> float:
    """The chance that a paired t test of n pairs, whose differences have deviation sd, finds a true difference.

    Ours because the power of statsmodels is nan far out, where scipy's lower tail is: both tails are upper ones here.
    """
    critical, shift = _critical(n - 1, comparisons), abs(difference) / sd * math.sqrt(n)
    return float(sps.nct.sf(critical, n - 1, shift) + sps.nct.sf(critical, n - 1, -shift))


def smallest_effect(sd: float, n: int, *, comparisons: int = 1) -> float:
    """The smallest true difference that such a test finds four times in five, in the unit of sd.

    >>> round(smallest_effect(1.0, 10), 2), round(smallest_effect(1.0, 10, comparisons=6), 2)
    (1.0, 1.37)
    """
    return mean_of(Summary(0.0, sd, n)).smallest_effect(comparisons)


def bold(
    groups: Mapping[Any, Group],
    *,
    better: Better,
    test: BoldTest = "mann-whitney",
    alternative: Literal["two-sided", "one-sided"] | None = None,
) -> pd.DataFrame:
    """The paper's rule for one column: bold is the best mean, and every entry that is not significantly worse than it.

    The paper tests by Mann-Whitney, two-sided, or by Welch, one-sided; `alternative` left out follows it. Groups that
    tie for the best mean are all best. One row per group: its mean, sd and n, `p` against the best (nan for the best
    itself) and `holm`, the same corrected over the column; `bold`, and `holm_bold`, which can only add entries.
    """
    check_word("better", better, get_args(Better))
    check_word("test", test, get_args(BoldTest))
    if not len(groups):
        raise ValueError("groups is empty: expected at least one entry")
    sides = alternative or ("two-sided" if test == "mann-whitney" else "one-sided")
    worse: Alternative = "two-sided" if sides == "two-sided" else ("greater" if better == "low" else "less")
    found = pd.DataFrame([vars(summarise(group, str(name))) for name, group in groups.items()], index=[*groups.keys()])
    best = found["mean"] == (found["mean"].min() if better == "low" else found["mean"].max())
    leader, others = groups[best.idxmax()], found.index[~best]
    if test == "welch":
        p = [welch(groups[name], leader).pvalue(worse) for name in others]
    else:  # exact for small samples without ties, else tie-corrected and normal
        samples = [_sample(groups[name], str(name)) for name in others]
        p = [sps.mannwhitneyu(x, _sample(leader, "the best"), alternative=worse).pvalue for x in samples]
    found["p"], found["holm"] = pd.Series(p, others, dtype=float), pd.Series(holm(p), others, dtype=float)
    return found.assign(bold=~(found["p"] < ALPHA), holm_bold=~(found["holm"] < ALPHA))
