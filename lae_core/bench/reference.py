"""LogAvgExp of one row in mpmath: what every floating-point form is measured against.

The formulas are the paper's, at enough digits that their cancellation does no harm: at temperature t the printed
derivative by t loses about 2·log10(t) digits, and `DIGITS` leaves more than forty beyond that for t up to 1e6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mpmath import mp, mpf

DIGITS = 60


@dataclass(frozen=True)
class Reference:
    """LAE of one row: `value`, `weights` (the derivative by each entry) and `d_log_t`, all mpmath numbers."""

    value: mpf
    weights: tuple[mpf, ...]
    d_log_t: mpf

    @cached_property
    def weight_parts(self) -> tuple[list[float], list[float]]:
        """The weights as floats, and what those leave out: together good to some thirty digits, and fast."""
        high = [float(w) for w in self.weights]
        return high, [float(w - h) for w, h in zip(self.weights, high, strict=True)]


def reference(row: Sequence[float], t: float, digits: int = DIGITS) -> Reference:
    """LAE(z; t) = t·log(mean(exp(z/t))) of a row of finite numbers, with both of its derivatives.

    `row` and `t` are taken exactly as given: round them to the precision under test first.

    >>> r = reference([0.0, 0.0], 4.0)
    >>> float(r.value), [float(w) for w in r.weights], float(r.d_log_t)
    (0.0, [0.5, 0.5], 0.0)
    """
    if not len(row):
        raise ValueError("row = [] is invalid; expected at least one entry")
    if not t > 0:
        raise ValueError(f"t = {t!r} is invalid; expected a number above 0")
    with mp.workdps(digits):
        z = [mpf(float(v)) for v in row]
        temperature = mpf(float(t))
        powers = [mp.exp(v / temperature) for v in z]
        total = mp.fsum(powers)
        value = temperature * mp.log(total / len(z))
        weights = tuple(p / total for p in powers)
        return Reference(value, weights, value - mp.fdot(weights, z))
