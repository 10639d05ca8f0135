"""Numbers as pages print them."""

from __future__ import annotations

import re

SMALLEST_P = 0.001  # p-values below it are not told apart


def p_text(p: float) -> str:
    """A p-value for a page: two digits, and never a 0 or a power of ten.

    >>> p_text(0.0234), p_text(1.4e-5), p_text(1.0)
    ('0.023', '< 0.001', '1')
    """
    return f"< {SMALLEST_P:g}" if p < SMALLEST_P else f"{p:.2g}"


def sentence(words: str) -> str:
    """Words as a sentence: "not run" as "Not run."."""
    return f"{words[:1].upper()}{words[1:]}."


def true_minus(text: str) -> str:
    """A true minus sign before numbers: after a space, a bracket or a tag, so that neither ranges nor options change."""
    return re.sub(r"(?<![^\s(>])-(?=\d)", "−", text)
