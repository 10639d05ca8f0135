"""Temperatures: where trained ones go, which initial one to take, and LAE in place of average pooling without tuning."""

from __future__ import annotations

from lae_core.evidence.compare import Comparison, Comparisons
from lae_core.evidence.decision import Decision
from lae_core.evidence.rules.parts import (
    AVERAGE,
    CHANNEL,
    FIVE,
    FIXED,
    IMAGENET,
    MARGIN,
    ONE,
    TABLE_N,
    WIDE_MARGIN,
    against,
    all_of,
    all_the_same,
    by_place,
    combine,
    some_of,
    surely_higher,
    with_first,
)
from lae_core.evidence.rules.registry import rule


@rule("C11", margin=0.1, n=FIVE, gate="sweep", places=IMAGENET, protocol="final temperature")
def c11(comparisons: Comparisons) -> str:
    """Contrasts: final against initial temperature for each t₀, in doublings (the mean of log₂ over
    channels); less than a tenth of a doubling is no movement. One temperature: reproduced if it
    moves up wherever it moves, at half of the t₀ at least; contradicted if it moves up nowhere and
    down at half of them; partly if it moves up at some; else open. One per channel: reproduced if
    it rises from every t₀ up to 4 and falls from every one above; contradicted if it never does as
    said and somewhere the opposite; partly if it does at some t₀; else open. The claim is both, on
    every data set: partly where only a part came out."""
    kinds = {ONE: _moves_up, CHANNEL: _moves_towards_four}
    parts = {kind: comparisons.only(with_first(kind)) for kind in kinds}
    return combine([by_place(part, kinds[kind]) for kind, part in parts.items() if part] or ["open"])


def _moves_up(moves: Comparisons) -> str:
    outcomes = moves.outcomes()
    up, down = outcomes.count("higher"), outcomes.count("lower")
    if up:
        return "reproduced" if not down and 2 * up >= len(outcomes) else "partly"
    return "contradicted" if down and 2 * down >= len(outcomes) else "open"


def _moves_towards_four(moves: Comparisons) -> str:
    opposite = {"higher": "lower", "lower": "higher"}
    towards = [c.outcome if (key.t or 0) <= 4 else opposite.get(c.outcome, c.outcome) for key, c in moves.items()]
    return all_of(towards)


@rule("C8a", margin=None, n=FIVE, gate="sweep", places=IMAGENET, protocol="final temperature")
def c8a(comparisons: Comparisons) -> str:
    """Contrasts: the slope of final on initial log-temperature over all t₀, run by run, for one
    temperature and for one per channel. By the 95 % interval of its mean: reproduced if it lies at
    ½ or above, contradicted if below 0.1, partly if between the two, else open; where the kinds or
    data sets differ, partly if one came out."""
    return combine([_slope(c) for c in comparisons.values()] or ["open"])


def _slope(slope: Comparison) -> str:
    low, high = slope.interval.low, slope.interval.high
    if low >= 0.5:
        return "reproduced"
    if high < 0.1:
        return "contradicted"
    return "partly" if low >= 0.1 and high < 0.5 else "open"


@rule("E6", protocol="final temperature")
def e6(directions: Decision, memory: Decision) -> str:
    """C11 and C8a: reproduced or contradicted if both are, partly if one came out, else as they
    agree or open."""
    return combine([directions.word, memory.word])


@rule("C8", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="final temperature")
def c8(comparisons: Comparisons) -> str:
    """Contrasts: one for each factor (×10, ×100) by which the temperature's learning rate is larger
    than that of the weights: the mean final accuracy over both kinds of trained temperature and t₀
    of 1 and 64, against factor 1. Reproduced if one is higher and none lower; contradicted if one
    is lower and none higher, or all are the same; partly if both occur; else open."""
    outcomes = comparisons.outcomes()
    return "contradicted" if outcomes and set(outcomes) == {"same"} else some_of(outcomes)


@rule("E7", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="initial temperature")
def e7(comparisons: Comparisons) -> str:
    """Contrasts: the mean accuracy of fixed t₀ = 1, 4 and 16 against the lowest and against the
    highest t₀ that was tried. Reproduced if higher than both ends on every data set; contradicted
    if lower than one end and higher than none; partly if higher than some end; else open."""
    return all_of(comparisons.outcomes())


@rule("C12", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="initial temperature")
def c12(comparisons: Comparisons) -> str:
    """Contrasts: the mean over fixed, one and per-channel temperatures against average pooling, at
    t₀ of 4 and of 16 with their own hyperparameters, and at 256 with average pooling's. First half:
    reproduced if both are higher, contradicted if neither is and both are decided, partly if one
    is, else open. Second half: reproduced if 256 is the same, contradicted if it is higher or
    lower, else open. The claim is both: partly where only one came out."""
    middle = comparisons.outcomes(lambda c: (c.t or 0) < 32)
    far = comparisons.outcomes(lambda c: (c.t or 0) > 32)
    beats = "contradicted" if middle and set(middle) <= {"same", "lower"} else all_of(middle, "higher", "")
    return combine([beats, all_the_same(far)])


@rule("C9", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="initial temperature")
def c9(comparisons: Comparisons) -> str:
    """Contrasts: LAE trained from t₀ = 4, with one temperature and with one per channel, each
    against average pooling, against t fixed at 1 and at 4, and against the same kind trained from 1
    and from 16. A setting is borne out if it is higher than average pooling and lower than none; it
    fails if it is lower than average pooling or than t fixed at 1. Reproduced if one of the two is
    borne out on every data set; contradicted if both fail; partly if one is higher than average
    pooling but not the best, or the data sets differ; else open."""
    return by_place(comparisons, _best_setting)


def _best_setting(comparisons: Comparisons) -> str:
    words = []
    for setting in dict.fromkeys(contrast.first for contrast in comparisons):
        own = comparisons.only(with_first(setting))
        average = own.outcomes(against(AVERAGE))
        if "lower" in own.outcomes(against(AVERAGE, FIXED)):
            words.append("contradicted")
        elif "higher" not in average:
            words.append("open")
        else:
            words.append("partly" if "lower" in own.outcomes() else "reproduced")
    return "reproduced" if "reproduced" in words else combine(words)


@rule("C20", margin=MARGIN, n=TABLE_N, gate="table", places=("cifar10",), protocol="initial temperature")
def c20(comparisons: Comparisons) -> str:
    """Contrasts, one for each network and each way to swap: LAE at t = 1 in place of average
    pooling from the start, at average pooling's hyperparameters; and LAE put into a trained network
    of average pooling, with one more epoch from a tenth of its learning rate down to 0, at t of ½,
    2 and 16 times the features' spread, against the same epoch with average pooling. Final accuracy.
    Reproduced if every one is the same or lower; contradicted if every one is higher; partly if some
    are higher and some the same or lower; open if what is left is undecided."""
    outcomes = comparisons.outcomes()
    gains, none = "higher" in outcomes, bool({"same", "lower"} & set(outcomes))
    if gains and none:
        return "partly"
    if "undecided" in outcomes or not outcomes:
        return "open"
    return "contradicted" if gains else "reproduced"


@rule("C21", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="initial temperature")
def c21(comparisons: Comparisons) -> str:
    """Contrast: how far the three kinds lie apart (the range of their accuracies, the mean over t₀)
    with average pooling's hyperparameters against with their own. Reproduced if lower on every data
    set; contradicted if lower on none and the same or higher on one; partly if lower on some; else
    open, also where both are the same runs."""
    outcomes = comparisons.outcomes()
    if "lower" in outcomes:
        return "reproduced" if set(outcomes) == {"lower"} else "partly"
    return "contradicted" if {"same", "higher"} & set(outcomes) else "open"


@rule("C22", margin=MARGIN, n=FIVE, gate="sweep", places=("imagewoof",), protocol="initial temperature")
def c22(comparisons: Comparisons) -> str:
    """Contrast: LAE on Imagewoof at 128 px with average pooling's hyperparameters against with its
    own, the mean accuracy over all t₀ and kinds. Reproduced if higher, contradicted if lower or the
    same, else open."""
    return surely_higher(comparisons.outcomes())
