"""Other input sizes: the networks of the tables of pools, tested on larger and smaller pictures."""

from __future__ import annotations

from lae_core.evidence.compare import Comparisons
from lae_core.evidence.rules.parts import FIVE, IMAGENET, TABLE_N, WIDE_MARGIN, all_of, all_the_same, combine
from lae_core.evidence.rules.registry import rule


def _zooms_and_crops(comparisons: Comparisons) -> str:
    zoom = comparisons.outcomes(lambda c: "zoom" in c.first)
    crops = comparisons.outcomes(lambda c: "zoom" not in c.first)
    return combine([all_of(part) for part in (zoom, crops)])


@rule("E5", margin=WIDE_MARGIN, n=TABLE_N, gate="table", places=IMAGENET, protocol="input size")
def e5(comparisons: Comparisons) -> str:
    """As C13, which it is the figure of."""
    return _zooms_and_crops(comparisons)


@rule("C13", margin=WIDE_MARGIN, n=TABLE_N, gate="table", places=IMAGENET, protocol="input size")
def c13(comparisons: Comparisons) -> str:
    """Contrasts: the two LAE pools with a trained temperature, their mean, against average pooling,
    for zooms and for crops. Measure: mean accuracy over the sizes off that of training less the
    accuracy at it. Reproduced if higher in zooms and in crops everywhere; contradicted if lower and
    never higher in both; partly if some of it is higher; else open."""
    return _zooms_and_crops(comparisons)


@rule("C13a", margin=WIDE_MARGIN, n=FIVE, gate="table", places=IMAGENET, protocol="input size")
def c13a(comparisons: Comparisons) -> str:
    """Contrasts: the mixed pool against LAE at t = 1 in the measure of C13, for zooms and crops.
    Reproduced if higher on Imagenette and lower on Imagewoof throughout; contradicted if the
    opposite is seen on both; partly if a part came out as said; else open."""
    nette = comparisons.outcomes(lambda c: c.place.startswith("Imagenette"))
    woof = comparisons.outcomes(lambda c: not c.place.startswith("Imagenette"))
    return combine([all_of(nette), all_of(woof, "lower", "higher")])


@rule("C13c", margin=WIDE_MARGIN, n=FIVE, gate="table", places=("imagewoof",), protocol="input size")
def c13c(comparisons: Comparisons) -> str:
    """Contrasts: LAE at t = 1 against average pooling on Imagewoof, accuracy at two thirds and at
    four thirds of the size of training. Reproduced if higher on both sides throughout; contradicted
    if on both sides lower and never higher; partly if some are higher; else open."""
    smaller = comparisons.outcomes(lambda c: "smaller" in c.first)
    larger = comparisons.outcomes(lambda c: "larger" in c.first)
    return combine([all_of(smaller), all_of(larger)])


@rule("C23", margin=WIDE_MARGIN, n=FIVE, gate="table", places=("imagenette",), protocol="input size")
def c23(comparisons: Comparisons) -> str:
    """Contrasts: LAE at t = 1 and the mixed pool against average pooling on Imagenette, in the
    measure of C13. Reproduced if all are the same; contradicted if one is higher or lower; else
    open."""
    return all_the_same(comparisons.outcomes())
