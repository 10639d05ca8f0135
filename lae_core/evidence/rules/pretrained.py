"""A pretrained network with frozen weights: not in the paper, so no printed protocol stands behind these rules."""

from __future__ import annotations

from lae_core.evidence.compare import Comparisons
from lae_core.evidence.rules.parts import MARGIN, WIDE_MARGIN, all_of, all_the_same, combine, surely_higher
from lae_core.evidence.rules.registry import rule


@rule("C26", margin=WIDE_MARGIN, n={"other": 20}, gate="frozen", places=("cifar10",))
def c26(comparisons: Comparisons) -> str:
    """Contrast: LAE at t = 1 against the average, both over class scores, on canvases of 160 px
    whose object has 64 px. Reproduced if higher; contradicted if lower or the same; else open."""
    return surely_higher(comparisons.outcomes())


@rule("C26a", margin=WIDE_MARGIN, n={"other": 20}, gate="frozen", places=("cifar10",))
def c26a(comparisons: Comparisons) -> str:
    """Contrast: LAE at t = 1 against the maximum, both over class scores, on the canvases of C26.
    Reproduced if higher; contradicted if lower or the same; else open."""
    return surely_higher(comparisons.outcomes())


@rule("C26b", margin=WIDE_MARGIN, n={"other": 20}, gate="frozen", places=("cifar10",))
def c26b(comparisons: Comparisons) -> str:
    """Contrasts, trained on canvases of 160 px and tested on those of 96 px, and the other way round, as
    dense with distractors: over scores, LAE at t = 1 against the average and against the maximum;
    over features, LAE at t = 1 against LSE. Reproduced if all are higher; contradicted if none is
    higher and one is lower; partly if some are higher; else open."""
    return all_of(comparisons.outcomes())


@rule("C26c", margin=WIDE_MARGIN, n={"other": 20}, gate="frozen", places=("cifar10",))
def c26c(comparisons: Comparisons) -> str:
    """Contrasts, each a difference of two gains of LAE at t = 1 over the average, both over scores:
    on canvases of 160 px less on those of 96 px, where the object's share is larger; and with
    distractors less without any, at 96 px. Reproduced if both are higher; contradicted if none is
    higher and one is lower; partly if one is higher; else open."""
    return all_of(comparisons.outcomes())


@rule("C27", margin=WIDE_MARGIN, n={"other": 10}, gate="frozen", places=("cifar100",))
def c27(comparisons: Comparisons) -> str:
    """Contrasts: LAE over features at t of ¼, 1, 4 and 16, before and after the last activation,
    each against the average at the same place; the picture fills the frame. Reproduced if every one
    is the same or lower; contradicted if one is higher; else open."""
    outcomes = comparisons.outcomes()
    if "higher" in outcomes:
        return "contradicted"
    return "reproduced" if outcomes and set(outcomes) <= {"same", "lower"} else "open"


@rule("C27a", margin=MARGIN, n={"other": 10}, gate="frozen", places=("cifar100",))
def c27a(comparisons: Comparisons) -> str:
    """Contrast: average pooling before against after the last activation. Reproduced if higher;
    contradicted if lower or the same; else open."""
    return surely_higher(comparisons.outcomes())


@rule("C28", margin=WIDE_MARGIN, n={"other": 10}, gate="frozen", places=("imagenette",))
def c28(comparisons: Comparisons) -> str:
    """Contrasts, without any training, by tenths of the test pictures: LAE at t of ¼, 4 and 16 times
    the features' spread against the average that the network was trained with. First half:
    reproduced if it is lower at ¼, contradicted if the same or higher, else open. Second half:
    reproduced if it is the same at 4 and at 16, contradicted if one is higher or lower, else open.
    The claim is both: partly where only one came out."""
    low = comparisons.outcomes(lambda c: (c.t or 0) < 1)
    costs = "contradicted" if {"same", "higher"} & set(low) else all_of(low, "lower", "")
    return combine([costs, all_the_same(comparisons.outcomes(lambda c: (c.t or 0) >= 1))])
