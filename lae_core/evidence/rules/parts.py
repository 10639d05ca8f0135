"""What several rules are made of: what was fixed before the runs, which contrasts to look at, and the verdict that they give.

An *outcome* is what came out of one contrast (`compare.OUTCOMES`: higher, lower, same, undecided, not run). A *word* is the
verdict on a claim: reproduced, partly, contradicted or open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lae_core.evidence.compare import Comparisons, Contrast

MARGIN, WIDE_MARGIN = 0.2, 0.5  # points of accuracy: in tables of pools, in sweeps
TABLE_N, FIVE = {"cifar10": 10, "other": 5}, {"other": 5}  # runs per arm
CIFAR = ("cifar10", "cifar100")
IMAGENET = ("imagewoof", "imagenette")

AVERAGE, SCALED = "avg", "avg(train=one)"  # the latter with a learned scale
FIXED, ONE, CHANNEL = "lae", "lae(train=one)", "lae(train=channel)"


# Which contrasts: for `Comparisons.only` and `Comparisons.outcomes`.


def against(*seconds: str) -> Callable[[Contrast], bool]:
    return lambda contrast: contrast.second in seconds


def at_place(place: str) -> Callable[[Contrast], bool]:
    return lambda contrast: contrast.place == place


def with_first(first: str) -> Callable[[Contrast], bool]:
    return lambda contrast: contrast.first == first


# From outcomes to a word.


def all_of(outcomes: Sequence[str], wanted: str = "higher", opposite: str = "lower") -> str:
    """The word for a claim that holds only if every outcome is the `wanted` one; `opposite` speaks against it."""
    if outcomes and set(outcomes) == {wanted}:  # where nothing was run, nothing was reproduced
        return "reproduced"
    return "partly" if wanted in outcomes else "contradicted" if opposite in outcomes else "open"


def some_of(outcomes: Sequence[str]) -> str:
    """The word for a claim that holds if some outcome is higher and none is lower."""
    if "higher" in outcomes:
        return "partly" if "lower" in outcomes else "reproduced"
    return "contradicted" if "lower" in outcomes else "open"


def combine(words: Sequence[str]) -> str:
    """The word for a claim of several parts: theirs where they agree; else *partly* if a part was reproduced, or open."""
    if len(set(words)) == 1:
        return words[0]
    return "partly" if {"reproduced", "partly"} & set(words) else "open"


def by_place(comparisons: Comparisons, word: Callable[[Comparisons], str]) -> str:
    """The word of each place, combined."""
    places = dict.fromkeys(contrast.place for contrast in comparisons)
    return combine([word(comparisons.only(at_place(place))) for place in places] or ["open"])


def all_the_same(outcomes: Sequence[str]) -> str:
    """The word for a claim that nothing differs."""
    if {"higher", "lower"} & set(outcomes):
        return "contradicted"
    return "reproduced" if outcomes and set(outcomes) == {"same"} else "open"


def surely_higher(outcomes: Sequence[str]) -> str:
    """The word for a claim that every outcome is higher, which one that is the same contradicts as much as a lower one."""
    words = {"higher": "reproduced", "lower": "contradicted", "same": "contradicted", "undecided": "open"}
    return combine([words[outcome] for outcome in outcomes] or ["open"])
