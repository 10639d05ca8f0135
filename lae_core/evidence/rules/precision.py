"""The precision of the pooling step."""

from __future__ import annotations

from lae_core.evidence.compare import Comparisons
from lae_core.evidence.rules.parts import FIVE, IMAGENET, WIDE_MARGIN, against, all_of, all_the_same, some_of
from lae_core.evidence.rules.registry import rule


@rule("E8", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="precision")
def e8(comparisons: Comparisons) -> str:
    """Contrasts: the textbook form in FP16 against FP32 at fixed t of 1, 32, 128 and 1024, and FP32
    at 1024 against FP32 at 1. Reproduced if FP16 is lower at 128 and 1024 and not lower at 1 and
    32, and FP32 at 1024 is not lower by 5 points; contradicted if FP16 is lower at none of 128 and
    1024 and one of them is decided; partly if it is lower at one of them, or fails earlier, or FP32
    falls too; else open."""
    half = comparisons.only(lambda c: c.second != "FP32 at the lowest t")
    hot, cold = half.outcomes(lambda c: (c.t or 0) > 32), half.outcomes(lambda c: (c.t or 0) <= 32)
    held = all(c.difference > -5 for key, c in comparisons.items() if key.second == "FP32 at the lowest t")
    if "lower" not in hot:
        return "contradicted" if {"same", "higher"} & set(hot) else "open"
    return "reproduced" if set(hot) == {"lower"} and "lower" not in cold and held else "partly"


@rule("C6", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="precision")
def c6(comparisons: Comparisons) -> str:
    """Contrasts: the exact form in FP32 against FP64 at fixed t of 1, 32, 128 and 1024, final
    accuracy. Reproduced (the supplement's word) if all are the same; contradicted if one is higher
    or lower; else open."""
    return all_the_same(comparisons.outcomes())


@rule("C10", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="precision")
def c10(comparisons: Comparisons) -> str:
    """Contrasts, textbook form in FP16 from t₀ of 128 and 1024: a trained temperature against a
    fixed one, and one temperature against one per channel. Reproduced if trained is higher
    throughout, and one is higher than per channel somewhere and lower nowhere; contradicted if none
    is higher and one is lower; partly if some are higher; else open."""
    trained = comparisons.outcomes(against("fixed"))
    single = comparisons.outcomes(lambda c: c.second != "fixed")
    if trained and set(trained) == {"higher"} and some_of(single) == "reproduced":
        return "reproduced"
    return "partly" if "higher" in trained + single else all_of(trained + single)
