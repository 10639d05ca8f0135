"""Squeeze-and-Excitation, and the tail of PyramidNet."""

from __future__ import annotations

from lae_core.evidence.compare import Comparisons
from lae_core.evidence.rules.parts import CIFAR, FIVE, MARGIN, against, all_of, combine, some_of
from lae_core.evidence.rules.registry import rule


@rule("E9", margin=MARGIN, n=FIVE, gate="table", places=CIFAR, protocol="squeeze")
def e9(comparisons: Comparisons) -> str:
    """Contrasts, average as global pool: LAE in the squeeze against the average there, final
    accuracy. Where pools were picked by a shorter recipe, only runs with the longer one count.
    Reproduced if some is higher and none lower; contradicted if some is lower and none higher;
    partly if both occur; else open."""
    return some_of(comparisons.outcomes())


@rule("C4", margin=MARGIN, n=FIVE, gate="table", places=CIFAR, protocol="squeeze")
def c4(comparisons: Comparisons) -> str:
    """Contrasts of E9, printed or run. Reproduced if every LAE pool in the squeeze is higher than
    the average there on both data sets; partly if some are; contradicted if none is higher and one
    lower, or all are the same; else open."""
    outcomes = comparisons.outcomes()
    return "contradicted" if outcomes and set(outcomes) == {"same"} else all_of(outcomes)


@rule("C5", margin=MARGIN, n=FIVE, gate="table", places=CIFAR, protocol="squeeze")
def c5(comparisons: Comparisons) -> str:
    """Contrasts, printed or run: the network with Squeeze-and-Excitation, the same LAE pool in both
    places, against the network without it. No gain is the same or lower; what is not significant
    shows neither. Reproduced if two thirds or more show no gain; contradicted if more than half are
    higher; partly if a third or more show no gain; else open."""
    outcomes = comparisons.outcomes()
    gains, none = outcomes.count("higher"), outcomes.count("same") + outcomes.count("lower")
    if 2 * gains > len(outcomes):
        return "contradicted"
    if not outcomes or 3 * none < len(outcomes):
        return "open"
    return "reproduced" if 3 * none >= 2 * len(outcomes) else "partly"


@rule("C14", margin=MARGIN, n=FIVE, gate="table", places=CIFAR, protocol="pyramidnet")
def c14(comparisons: Comparisons) -> str:
    """Contrasts, with average pooling and with LAE: a PReLU tail against a ReLU tail, and the order
    BN-Pool-BN-ReLU against BN-ReLU-Pool. Reproduced if PReLU is higher with both pools and the
    orders differ with both; contradicted if PReLU is lower, or the same, with both; partly if some
    of that came out; else open."""
    activation = comparisons.outcomes(against("ReLU"))
    order = comparisons.outcomes(against("BN-ReLU-Pool"))
    if activation and set(activation) <= {"same", "lower"}:
        return "contradicted"
    met = [outcome == "higher" for outcome in activation] + [outcome in ("higher", "lower") for outcome in order]
    return "reproduced" if activation and order and all(met) else "partly" if any(met) else "open"


@rule("C25", margin=None, n=FIVE, gate="table", places=("cifar100",), protocol="pyramidnet")
def c25(comparisons: Comparisons) -> str:
    """Contrast: by how many per cent the gap between training and validation accuracy is narrower
    with LAE than with average pooling, both re-tuned. By the 95 % interval: reproduced if it holds
    22 and not 0; contradicted if it does not hold 22; else open."""
    words = []
    for c in comparisons.values():
        holds, clear = c.interval.low <= 22 <= c.interval.high, c.interval.low > 0
        words.append("contradicted" if not holds else "reproduced" if clear else "open")
    return combine(words or ["open"])
