"""Tables of pools: final accuracy and speed of learning, by recipes whose networks work."""

from __future__ import annotations

from lae_core.evidence.compare import Comparisons
from lae_core.evidence.rules.parts import (
    AVERAGE,
    CIFAR,
    FIVE,
    IMAGENET,
    MARGIN,
    SCALED,
    TABLE_N,
    WIDE_MARGIN,
    against,
    all_of,
    some_of,
    with_first,
)
from lae_core.evidence.rules.registry import rule


@rule("E1", margin=WIDE_MARGIN, n=TABLE_N, gate="table", places=CIFAR, protocol="pyramidnet")
def e1(comparisons: Comparisons) -> str:
    """Contrasts: LAE at t = 1, with one trained temperature and with one per channel, each against
    average pooling at one common learning rate. Measure: mean validation accuracy over the first
    half of training. Reproduced if all are higher on every data set; contradicted if none is higher
    and one is lower; partly if some are higher; else open."""
    return all_of(comparisons.outcomes())


@rule("C7", margin=WIDE_MARGIN, n=TABLE_N, gate="table", places=CIFAR, protocol="pyramidnet")
def c7(comparisons: Comparisons) -> str:
    """Contrast: the mean of the three LAE pools of E1 against average pooling, same measure, same
    learning rate. Reproduced if higher on every data set; contradicted if higher on none and lower
    on one; partly if higher on some; else open. That a scaled average learns as fast would not
    change the verdict, only its reason."""
    return all_of(comparisons.outcomes(against(AVERAGE)))


@rule("E3", margin=MARGIN, n=TABLE_N, gate="table", places=CIFAR, protocol="wrn")
def e3(comparisons: Comparisons) -> str:
    """Contrasts: LAE with one trained temperature against average pooling, against the average with
    a learned scale where that was run, and against every other pool of the table. Measure: final
    accuracy, each pool at the learning rate that it chose on held-out folds. Reproduced if on every
    data set it is higher than average pooling and than the scaled average, and no pool is higher
    than it; contradicted if it is lower than average pooling on one data set and higher on none;
    partly if it is higher than average pooling on some data set; else open."""
    average = comparisons.outcomes(against(AVERAGE))
    controls = comparisons.outcomes(against(AVERAGE, SCALED))
    if "higher" not in average:
        return "contradicted" if "lower" in average else "open"
    return "reproduced" if set(controls) == {"higher"} and "lower" not in comparisons.outcomes() else "partly"


@rule("C1", margin=MARGIN, n=TABLE_N, gate="table", places=CIFAR, protocol="wrn")
def c1(comparisons: Comparisons) -> str:
    """Contrasts: LAE with one trained temperature against every other pool of table 1, printed or
    run. Reproduced if it is higher than every other pool on both data sets; partly if it is higher
    than average pooling on both and no pool is higher than it; contradicted if some pool is higher
    than it, or if it is nowhere higher than average pooling though every contrast with it is
    decided; else open."""
    outcomes, average = comparisons.outcomes(), comparisons.outcomes(against(AVERAGE))
    if "lower" in outcomes or (average and set(average) <= {"same", "lower"}):
        return "contradicted"
    if average and set(average) == {"higher"}:
        return "reproduced" if set(outcomes) == {"higher"} else "partly"
    return "open"


@rule("C3", margin=MARGIN, n=TABLE_N, gate="table", places=CIFAR, protocol="wrn")
def c3(comparisons: Comparisons) -> str:
    """Contrasts: every LAE pool against average pooling in every setting, printed or run.
    Reproduced if more than half are higher and none is lower; contradicted if at least as many are
    lower as higher, one at least, or if all are the same; open if none is decided; partly
    otherwise."""
    outcomes = comparisons.outcomes(against(AVERAGE))
    higher, lower = outcomes.count("higher"), outcomes.count("lower")
    if (lower and lower >= higher) or (outcomes and set(outcomes) == {"same"}):
        return "contradicted"
    if not higher:
        return "open"
    return "reproduced" if 2 * higher > len(outcomes) and not lower else "partly"


@rule("E2", margin=MARGIN, n=FIVE, gate="table", places=CIFAR, protocol="pyramidnet")
def e2(comparisons: Comparisons) -> str:
    """Contrasts: each LAE pool against average pooling in PyramidNet with ShakeDrop, final
    accuracy. Reproduced if some is higher and none lower; contradicted if some is lower and none
    higher; partly if both occur; else open."""
    return some_of(comparisons.outcomes())


@rule("E4", margin=MARGIN, n=FIVE, gate="table", places=IMAGENET, protocol="mxresnet")
def e4(comparisons: Comparisons) -> str:
    """Contrasts: each LAE pool against average pooling in MXResNet, final accuracy. Reproduced if
    some is higher and none lower; contradicted if some is lower and none higher; partly if both
    occur; else open."""
    return some_of(comparisons.outcomes())


@rule("C29", margin=MARGIN, n=FIVE, gate="table", places=("cifar10",))
def c29(comparisons: Comparisons) -> str:
    """Contrasts: the two pools with the lowest error of E3 on CIFAR-10, average pooling aside, each
    against average pooling, in the table's network and in a larger one that is trained for longer.
    Reproduced if each is higher, lower or the same in both; contradicted if one is decided in both
    and comes out otherwise; else open."""
    pairs = [
        comparisons.outcomes(with_first(first)) for first in dict.fromkeys(contrast.first for contrast in comparisons)
    ]
    decided = [pair for pair in pairs if len(pair) == 2 and not {"undecided", "not run"} & set(pair)]
    if any(before != after for before, after in decided):
        return "contradicted"
    return "reproduced" if pairs and len(decided) == len(pairs) else "open"


@rule("C30", margin=MARGIN, n=TABLE_N, gate="table", places=CIFAR)
def c30(comparisons: Comparisons) -> str:
    """Contrasts: LAE with one trained temperature and with one per channel, each against average
    pooling with a learned scale, final accuracy. Reproduced if all are higher on every data set;
    contradicted if all are the same or lower; partly if some are higher; else open."""
    outcomes = comparisons.outcomes()
    return "contradicted" if outcomes and set(outcomes) <= {"same", "lower"} else all_of(outcomes, opposite="")
