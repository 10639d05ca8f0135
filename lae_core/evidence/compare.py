"""Two arms with the same seeds, compared run by run, and the words for what came out.

Every claim that the experiments decide rests on these comparisons. Their rule was fixed before the runs: a difference
counts where the paired t test, corrected by Holm over the comparisons of one claim, has p < 0.05; two arms are the same
where the 90 % interval of their difference lies within a margin that was named beforehand; anything else is undecided.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats as sps

from lae_core.evidence.stats import Interval, fewest, holm, mean_interval, summarise
from lae_core.evidence.tables import p_text

ALPHA = 0.05
MOST_PAIRS = 10**6


@dataclass(frozen=True)
class Comparison:
    """mean(a − b) over seeds. `outcome` is higher, lower, same or undecided: how a stands to b."""

    name: str
    n: int
    difference: float
    sd: float
    interval: Interval
    pvalue: float
    corrected: float
    outcome: str

    @property
    def settled(self) -> bool:
        return self.outcome != "undecided"

    @property
    def seeds_needed(self) -> int | None:
        """Pairs at which a difference of the size seen would be found four times in five; None: over a million."""
        return pairs_needed(self.difference, self.sd) if self.difference and self.sd else None

    def __str__(self) -> str:
        i, p = self.interval, p_text(self.corrected)
        p = p if p.startswith("<") else f"= {p}"
        return f"{self.name}: {self.difference:+.1f} ({i.low:+.1f} to {i.high:+.1f}, p {p}): {self.outcome}"


def compare(
    pairs: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, margin: float | None = None
) -> dict[str, Comparison]:
    """Compare each pair of samples (a, b), whose k-th entries share a seed; Holm corrects over all pairs given.

    `margin`, in the samples' unit, is how far apart arms may lie that count as the same; without one none do.
    """
    raw = {name: _paired(name, a, b) for name, (a, b) in pairs.items()}
    corrected = dict(zip(raw, holm([c.pvalue for c in raw.values()]), strict=True))
    return {name: _decided(replace(c, corrected=corrected[name]), margin) for name, c in raw.items()}


def _paired(name: str, a: Sequence[float], b: Sequence[float]) -> Comparison:
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(f"{name}: {len(a)} and {len(b)} results: expected the same number, at least 2")
    d = np.asarray(a, dtype=float) - np.asarray(b, dtype=float)
    if not np.isfinite(d).all():
        raise ValueError(f"{name}: some results are not finite; decide first what such a run counts as")
    seen = summarise(d)
    if seen.sd == 0:
        p = 1.0 if seen.mean == 0 else 0.0
    else:
        p = float(2 * sps.t.sf(abs(seen.mean) / (seen.sd / math.sqrt(seen.n)), seen.n - 1))
    return Comparison(name, seen.n, seen.mean, seen.sd, mean_interval(d), p, p, "undecided")


def _decided(c: Comparison, margin: float | None) -> Comparison:
    if c.corrected < ALPHA:
        return replace(c, outcome="higher" if c.difference > 0 else "lower")
    half = float(sps.t.ppf(1 - ALPHA, c.n - 1)) * c.sd / math.sqrt(c.n)
    if margin is not None and abs(c.difference) + half < margin:
        return replace(c, outcome="same")
    return c


def pairs_needed(difference: float, sd: float, *, power: float = 0.8) -> int | None:
    """The fewest pairs at which a paired t test at the 5 % level finds such a difference with this probability.

    None where a million would not do.
    """
    if not difference or not sd > 0:
        raise ValueError(f"difference={difference}, sd={sd}: expected a difference, and a deviation above 0")
    return fewest(lambda n: paired_power(difference, sd, n) >= power, MOST_PAIRS)


def paired_power(difference: float, sd: float, n: int) -> float:
    """The chance that a paired t test of n pairs, whose differences have deviation sd, finds a true difference."""
    critical, shift = sps.t.ppf(1 - ALPHA / 2, n - 1), abs(difference) / sd * math.sqrt(n)
    # the lower tail as the upper one of the mirror image: scipy's own lower tail is nan far out
    return float(sps.nct.sf(critical, n - 1, shift) + sps.nct.sf(critical, n - 1, -shift))


def table(comparisons: Mapping[str, Comparison]) -> pd.DataFrame:
    """One row a comparison, for `show`; where undecided, with the seeds that would settle a difference of that size.

    A setting that all names begin with (``CIFAR-10: LAE against average``) is left out: it would only widen the table.
    """
    settings = {c.name.partition(": ")[0] + ": " for c in comparisons.values()}
    common = settings.pop() if len(settings) == 1 else ""
    return pd.DataFrame(
        {
            "comparison": c.name.removeprefix(common),
            "n": c.n,
            "difference (95 % interval)": f"{_signed(c.difference)} ({_signed(c.interval.low)} to {_signed(c.interval.high)})",
            "p (Holm)": p_text(c.corrected),
            "outcome": c.outcome,
            "seeds needed": "–" if c.settled else f"{c.seeds_needed:,}" if c.seeds_needed else "over a million",
        }
        for c in comparisons.values()
    )


def _signed(value: float) -> str:
    """Two decimals, or one digit of what they would show as 0."""
    text = f"{value:+.2f}"
    return f"{value:+.1g}" if value and float(text) == 0 else text


def counts(comparisons: Iterable[Comparison]) -> str:
    """How many came out how: "4 higher, 2 undecided"."""
    found = Counter(c.outcome for c in comparisons)
    return ", ".join(f"{found[word]} {word}" for word in ("higher", "same", "lower", "undecided") if found[word])


def tally(comparisons: Iterable[Comparison]) -> str:
    """The same with the lowest and the highest of them, for the evidence of a verdict; one alone speaks for itself."""
    ordered = sorted(comparisons, key=lambda c: c.difference)
    if not ordered:
        return "not run"
    ends = f"lowest {ordered[0]}; highest {ordered[-1]}"
    return f"{counts(ordered)} ({ends})" if len(ordered) > 1 else str(ordered[0])


def all_of(outcomes: Sequence[str], wanted: str, opposite: str) -> str:
    """The verdict on a claim that holds only if every outcome is as wanted."""
    if outcomes and all(outcome == wanted for outcome in outcomes):  # of nothing, nothing was reproduced
        return "reproduced"
    return "partly" if wanted in outcomes else "contradicted" if opposite in outcomes else "open"


def some_of(outcomes: Sequence[str], wanted: str, opposite: str) -> str:
    """The verdict on a claim that holds if some outcome is as wanted and none is the opposite."""
    if wanted in outcomes:
        return "partly" if opposite in outcomes else "reproduced"
    return "contradicted" if opposite in outcomes else "open"


def together(verdicts: Sequence[str]) -> str:
    """The verdict on a claim of several parts: theirs where they agree; where they do not and a part came out, partly."""
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return "partly" if {"reproduced", "partly"} & set(verdicts) else "open"


def at_most_partly(verdict: str) -> str:
    """For a claim of which only a part was tried: what was reproduced is so in part."""
    return "partly" if verdict == "reproduced" else verdict
