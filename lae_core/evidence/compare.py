"""Arms compared run by run, and the word for what came out: higher, lower, same or undecided.

A :class:`Contrast` names what is compared, :func:`compare` measures it on recorded runs, and the
:class:`Comparisons` that it returns keep the runs that they rest on, so that a rule can tell scale, regime and n
from them. Printed tables give such comparisons too (`redecide.py`), from means and deviations.

A difference is *higher* or *lower* where the paired t test, corrected by Holm over all comparisons of a claim, has
p < 0.05 and the difference is at least the margin. Two arms are the *same* where two one-sided tests at 5 % put
their difference within the margin. Everything else is *undecided*. The margin stands in the claim's rule. Where an arm
has fewer than two runs so far, nothing was compared: *not run*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from lae_core.evidence.outcomes import accuracies, common_repeats, with_repeats
from lae_core.evidence.stats import ALPHA, Estimate, Interval, holm, mean_of, paired
from lae_core.evidence.text import p_text
from lae_core.runs.merge import hardware
from lae_core.runs.records import Record

OUTCOMES = ("higher", "same", "lower", "undecided", "not run")

Sample = Sequence[float]
Side = Any  # one side of a contrast: the runs of an arm, or arms in nested lists
Measure = Callable[[Side], Sample]  # one number per seed


class Contrast(NamedTuple):
    """What is compared: `first` minus `second`, in one place (data set, network), with `t` at one temperature."""

    place: str
    first: str
    second: str
    t: float | None = None

    def __str__(self) -> str:
        at = "" if self.t is None else f" at t₀ = {self.t:g}"
        return f"{self.place}: {self.first} against {self.second}{at}"


@dataclass(frozen=True)
class Comparison:
    """mean(first − second) over seeds, its 95 % interval, and the word for it."""

    name: str
    n: int
    difference: float
    interval: Interval
    pvalue: float
    holm_pvalue: float
    outcome: str
    smallest_effect: float = 0.0  # the true difference that this design finds four times in five, at the deviation seen

    @classmethod
    def not_run(cls, name: str, n: int) -> Comparison:
        nan = float("nan")
        return cls(name, n, nan, Interval(nan, nan, nan), nan, nan, "not run", nan)

    def __str__(self) -> str:
        if self.outcome == "not run":
            return f"{self.name}: not run"
        i, p = self.interval, p_text(self.holm_pvalue)
        p = p if p.startswith("<") else f"= {p}"
        low, high = _signed(i.low), _signed(i.high)
        return f"{self.name}: {_signed(self.difference)} ({low} to {high}, p {p}): {self.outcome}"


@dataclass(frozen=True)
class Comparisons(Mapping[Contrast, Comparison]):
    """The comparisons of one claim, the runs that they rest on, and the runs of each place's baseline arm."""

    found: Mapping[Contrast, Comparison]
    source: Literal["runs", "printed"] = "runs"
    runs: tuple[Record, ...] = ()
    baseline: Mapping[str, tuple[Record, ...]] | None = None

    def __getitem__(self, contrast: Contrast) -> Comparison:
        return self.found[contrast]

    def __iter__(self) -> Iterator[Contrast]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def only(self, wanted: Callable[[Contrast], bool]) -> Comparisons:
        """The comparisons whose contrast is wanted; p-values stay corrected over all."""
        return replace(self, found={contrast: c for contrast, c in self.found.items() if wanted(contrast)})

    def outcomes(self, wanted: Callable[[Contrast], bool] | None = None) -> list[str]:
        """The outcomes of the comparisons whose contrast is wanted, by default of all."""
        return [c.outcome for contrast, c in self.found.items() if wanted is None or wanted(contrast)]

    @property
    def n(self) -> int | None:
        """The fewest runs that an arm of any of them has; None without any."""
        return min((c.n for c in self.found.values()), default=None)


def accuracy(side: Side) -> Sample:
    """Final accuracy in % by seed: of an arm, or the mean over several arms."""
    if isinstance(side[0], Record):
        return accuracies(side)
    return np.mean([accuracy(arm) for arm in side], axis=0).tolist()


def compare(
    contrasts: Mapping[Contrast, tuple[Side, Side | None]],
    *,
    margin: float | None,
    baseline: Mapping[str, Sequence[Record]],
    measure: Measure | None = None,
    minimum: float | None = None,
) -> Comparisons:
    """Measure both sides of each contrast on the seeds that they share, and decide; Holm corrects over all of them.

    Runs are paired by seed and fold, so an arm that is not complete yet is compared on what there is; with fewer than
    two common seeds a contrast is *not run*. Seeds may come from different machines, the two sides of one seed may not.
    The measure is final accuracy unless another is given. A second side of None stands for 0. `margin` is in the measure's
    unit: arms whose difference surely is less are the same. A difference counts from `minimum` on, by default from the margin on.
    `baseline` has, for each place, the runs of its average-pooling arm, which show whether the network works there at all.
    """
    measure = measure or accuracy
    estimates, absent = {}, {}
    for contrast, (first, second) in contrasts.items():
        arms = [*_arms(first), *_arms(second)]
        shared = common_repeats(arms)
        if len(shared) < 2:
            absent[contrast] = Comparison.not_run(str(contrast), len(shared))
            continue
        _check_machines(contrast, with_repeats(arms, shared))
        values = measure(with_repeats(first, shared))
        if second is None:
            estimates[contrast] = mean_of(values, str(contrast))
        else:
            estimates[contrast] = paired(values, measure(with_repeats(second, shared)), str(contrast))
    decided = decide(estimates, margin=margin, minimum=(margin or 0.0) if minimum is None else minimum) | absent
    found = {contrast: decided[contrast] for contrast in contrasts}
    runs = {run.key: run for sides in contrasts.values() for side in sides for arm in _arms(side) for run in arm}
    if missing := {contrast.place for contrast in contrasts} - set(baseline):
        raise ValueError(f"baseline has no runs for place = {sorted(missing)[0]!r}; expected one entry for each place")
    kept = {place: tuple(records) for place, records in baseline.items()}
    return Comparisons(found, "runs", tuple(runs.values()), kept)


def _check_machines(contrast: Contrast, arms: Sequence[Sequence[Record]]) -> None:
    """Raise ValueError unless both sides of each seed ran on one kind of machine, whose effect on them then cancels."""
    for pair in zip(*arms, strict=True):
        kinds = sorted({hardware(run) for run in pair})
        if len(kinds) > 1:
            seed = pair[0].config.get("seed")
            raise ValueError(
                f"{contrast}: seed {seed} was run on {' and on '.join(kinds)}; expected one kind of machine"
            )


def decide(estimates: Mapping[Any, Estimate], *, margin: float | None, minimum: float) -> dict[Any, Comparison]:
    """The outcome of each estimate, with p-values corrected by Holm over all of them."""
    pvalues = [estimate.pvalue() for estimate in estimates.values()]
    found = {}
    for (key, estimate), pvalue, holm_pvalue in zip(estimates.items(), pvalues, holm(pvalues), strict=True):
        difference = estimate.value
        if holm_pvalue < ALPHA and abs(difference) >= minimum:
            outcome = "higher" if difference > 0 else "lower"
        elif margin is not None and estimate.pvalue_within(margin) < ALPHA:
            outcome = "same"
        else:
            outcome = "undecided"
        found[key] = Comparison(
            str(key), estimate.n, difference, estimate.interval, pvalue, holm_pvalue, outcome,
            estimate.smallest_effect(len(estimates)),
        )  # fmt: skip
    return found


def _arms(side: Side) -> list[Sequence[Record]]:
    """The arms of a side, from lists that may be nested."""
    if not isinstance(side, list | tuple):
        return []
    if all(isinstance(part, Record) for part in side):
        return [side]
    return [arm for part in side for arm in _arms(part)]


def table(comparisons: Mapping[Any, Comparison]) -> pd.DataFrame:
    """One row per comparison, for `show`; `could see` is the smallest true difference that it finds four times in five.

    A place that all names begin with (``CIFAR-10: LAE against average``) is left out: it would only widen the table.
    """
    settings = {c.name.partition(": ")[0] + ": " for c in comparisons.values()}
    common = settings.pop() if len(settings) == 1 else ""
    return pd.DataFrame(
        {
            "comparison": c.name.removeprefix(common),
            "n": c.n,
            "difference (95 % interval)": f"{_signed(c.difference)} ({_signed(c.interval.low)} to {_signed(c.interval.high)})",
            "p (Holm)": p_text(c.holm_pvalue),
            "outcome": c.outcome,
            "could see": f"{c.smallest_effect:.2g}",
        }
        if c.outcome != "not run"
        else {"comparison": c.name.removeprefix(common), "n": c.n, "outcome": c.outcome}
        for c in comparisons.values()
    ).fillna("–")


def _signed(value: float) -> str:
    """Two decimals, or one digit of what they would show as 0."""
    text = f"{value:+.2f}"
    return f"{value:+.1g}" if value and float(text) == 0 else text


def count_outcomes(comparisons: Iterable[Comparison]) -> str:
    """How often each outcome occurs: "4 higher, 2 undecided"."""
    found = Counter(c.outcome for c in comparisons)
    return ", ".join(f"{found[word]} {word}" for word in OUTCOMES if found[word])


def describe(comparisons: Iterable[Comparison]) -> str:
    """The comparisons in words, as evidence of a verdict: each of up to three, of more the lowest and the highest."""
    found = list(comparisons)
    ordered = sorted((c for c in found if c.outcome != "not run"), key=lambda c: c.difference)
    if not ordered:
        return "not run"
    if len(found) <= 3:
        return "; ".join(map(str, [*ordered, *(c for c in found if c.outcome == "not run")]))
    return f"{count_outcomes(found)} of {len(found)} (lowest {ordered[0]}; highest {ordered[-1]})"
