"""Which values a parameter accepts, as its help says at the end, in square brackets::

    seeds: int = 3  # runs per arm [at least 1]
    share: float = 0.35  # of the peak [above 0, at most 1]
    train: str = "one"  # what is learned [one of no, one, channel]
    pools: list[str] = ["avg"]  # what to compare [a pool]

A rule holds for each entry of a list. So a reader sees it, `lae params` shows it, and `lae run` checks it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_BOUNDS = {"at least": operator.ge, "above": operator.gt, "at most": operator.le, "below": operator.lt}


@dataclass(frozen=True)
class Rule:
    """`text` is what stands in the brackets; `accepts` tells whether a value keeps to it."""

    text: str
    accepts: Callable[[Any], bool]

    def refusal(self, value: Any) -> str:
        """What would be accepted instead of `value`, or nothing if it is."""
        return "" if self.accepts(value) else self.text


def read_rule(help: str) -> Rule | None:
    """The rule at the end of a help text, if it has one; a ValueError if it is none that we know."""
    match = re.search(r"\[([^\[\]]*)\]$", help.strip())
    if match is None:
        return None
    text = match[1].strip()
    if text.startswith("one of "):
        words = [word.strip() for word in text.removeprefix("one of ").split(",")]
        return Rule(text, lambda value: value in words)
    if text == "a pool":
        return Rule("a pool such as avg or lae(t0=4, train=one)", _is_pool)
    bounds = [re.fullmatch(r"(at least|above|at most|below) (-?[\d.]+(?:e-?\d+)?)", part) for part in text.split(", ")]
    if not all(bounds):
        known = "at least 1; above 0, at most 1; one of a, b; a pool"
        raise ValueError(f"the rule [{text}] is invalid; expected one such as: {known}")
    pairs = [(_BOUNDS[bound[1]], float(bound[2])) for bound in bounds if bound]
    return Rule(f"a number {text}", lambda value: all(keeps(value, limit) for keeps, limit in pairs))


def _is_pool(value: str) -> bool:
    from lae_core.pooling import PoolSpec

    try:
        PoolSpec.parse(value)
    except ValueError:
        return False
    return True


def split_list(text: str) -> list[str]:
    """The entries of `a,b`, `[a, b]` or `avg,lae(t0=1, train=one)`: a comma in brackets or quotes separates nothing."""
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    if not inner.strip():
        return []
    entries, depth, quote = [""], 0, ""
    for letter in inner:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        if letter == "," and not depth and not quote:
            entries.append("")
        else:
            entries[-1] += letter
    entries = [entry.strip() for entry in entries]
    if "" in entries:
        raise ValueError("an entry of the list is empty")
    return [entry[1:-1] if entry[0] == entry[-1] and entry[0] in "'\"" else entry for entry in entries]
