"""The rules for the claims about temperatures (E6, E7, C8a, C9, C11, C12, C20), as the chapter before the runs fixed them.

What a rule leaves open is decided the cautious way, and said in the docstring.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lae_core.evidence.compare import Comparison, all_of, compare, together
from lae_core.evidence.stats import Interval, mean_interval

Sample = Sequence[float]
TURNS = 4  # one temperature a channel is said to rise from here and below, and to fall from above


def best_start(places: Mapping[str, Mapping[float, Sample]]) -> tuple[dict[str, Comparison], str]:
    """E7: both ends of the range of t₀ against the best inside it, on each place.

    An end with the best mean contradicts only if it is significantly higher; else where the best lies is open.
    """
    pairs = {}
    for place, samples in places.items():
        first, *inside, last = sorted(samples)
        best = max(inside, key=lambda t: np.mean(samples[t]))
        for end in (first, last):
            pairs[f"{place}: t₀ = {end:g} against {best:g}"] = samples[end], samples[best]
    found = compare(pairs)
    both = list(found.values())
    return found, together([_peak(both[k : k + 2]) for k in range(0, len(both), 2)])


def _peak(ends: Sequence[Comparison]) -> str:
    outcomes = [end.outcome for end in ends]
    if "higher" in outcomes:
        return "contradicted"
    return "open" if any(end.difference > 0 for end in ends) else all_of(outcomes, "lower", "higher")


def beats(comparisons: Iterable[Comparison]) -> str:
    """First half of C12: all higher. It fails if none is, and each is known not to be."""
    found = list(comparisons)
    if all(c.outcome in ("same", "lower") for c in found):
        return "contradicted"
    return all_of([c.outcome for c in found], "higher", "")


def matches(comparisons: Iterable[Comparison]) -> str:
    """Second half of C12: all the same. It fails if one differs; undecided is not the same, so short of all it is open."""
    outcomes = {c.outcome for c in comparisons}
    if outcomes & {"higher", "lower"}:
        return "contradicted"
    return "reproduced" if outcomes == {"same"} else "open"


def no_gain(comparisons: Iterable[Comparison]) -> str:
    """C20: same or lower on every place."""
    words = {"same": "reproduced", "lower": "reproduced", "higher": "contradicted", "undecided": "open"}
    return together([words[c.outcome] for c in comparisons])


def advised(
    places: Mapping[str, Mapping[str, Sample]], advice: Sequence[str], *, average: str, plain: str
) -> tuple[dict[str, Comparison], str]:
    """C9: on each place, every advised arm against all others.

    One of them must be higher than `average`, with no arm higher than it. It fails where each of them is lower than
    `average` or than `plain`.
    """
    pairs = {
        (place, mine, other): (samples[mine], samples[other])
        for place, samples in places.items()
        for mine in advice
        for other in samples
        if other != mine
    }
    names = {key: f"{key[0]}: {key[1]} against {key[2]}" for key in pairs}
    found = compare({names[key]: pair for key, pair in pairs.items()})
    verdicts = []
    for place in places:
        outcomes = [
            {other: found[name].outcome for (p, m, other), name in names.items() if (p, m) == (place, mine)}
            for mine in advice
        ]
        each = [_advice(o, average, plain) for o in outcomes]
        verdicts.append("reproduced" if "reproduced" in each else together(each))
    return found, together(verdicts)


def _advice(outcomes: Mapping[str, str], average: str, plain: str) -> str:
    if "lower" in (outcomes[average], outcomes[plain]):
        return "contradicted"
    if outcomes[average] != "higher":
        return "open"
    return "partly" if "lower" in outcomes.values() else "reproduced"


def rises(moves: Mapping[float, Comparison]) -> str:
    """First half of C11, by t₀: the temperature rises wherever it moves, at half of the t₀ at least.

    It fails where the same can be said of falling.
    """
    outcomes = [c.outcome for c in moves.values()]
    up, down = outcomes.count("higher"), outcomes.count("lower")
    if up:
        return "reproduced" if not down and 2 * up >= len(outcomes) else "partly"
    return "contradicted" if 2 * down >= len(outcomes) else "open"


def turns(moves: Mapping[float, Comparison]) -> str:
    """Second half of C11, by t₀: it rises up to `TURNS` and falls from above it. It fails if it never does as said."""
    swap = {"higher": "lower", "lower": "higher"}
    as_said = [c.outcome if t <= TURNS else swap.get(c.outcome, c.outcome) for t, c in moves.items()]
    return all_of(as_said, "higher", "lower")


def memory(log_final: Mapping[float, Sample]) -> tuple[Interval, str]:
    """C8a: the slope of final on initial log-temperature over t₀, run by run, with the interval of its mean.

    The whole interval must reach ½, or stay below 0.1 to contradict. Wholly between the two, memory is kept in part.
    """
    starts = np.log2(sorted(log_final))
    runs = np.array([log_final[t] for t in sorted(log_final)])
    centred = starts - starts.mean()
    slope = mean_interval(centred @ runs / (centred @ centred))
    if slope.low >= 0.5:
        return slope, "reproduced"
    if slope.high < 0.1:
        return slope, "contradicted"
    return slope, "partly" if slope.low >= 0.1 and slope.high < 0.5 else "open"
