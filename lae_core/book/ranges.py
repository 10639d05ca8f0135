"""Which values a parameter accepts, as its help says at the end, in square brackets::

    seeds: int = 3  # runs per arm [at least 1]
    share: float = 0.35  # of the peak [above 0, at most 1]
    train: str = "one"  # what is learned [one of no, one, channel]
    pools: list[str] = ["avg"]  # what to compare [a pool]

A rule holds for each entry of a list. Parameters that mean the same in every notebook have theirs in `COMMON`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# The rule of a parameter by its name, unless its help gives another.
COMMON = {
    **dict.fromkeys(("seeds", "mx_seeds", "temperature_seeds"), "at least 2"),
    **dict.fromkeys(
        ("epochs", "mx_epochs", "batch", "subset", "mx_subset", "eval_subset", "mx_eval_subset"), "at least 1"
    ),
    **dict.fromkeys(("lr", "common_lr", "own_lr", "rates", "start_lr", "width", "factor"), "above 0"),
    **dict.fromkeys(("t0", "faster_t0", "temperature"), "above 0"),
    **dict.fromkeys(("sizes", "image_sizes", "input_sizes", "mx_sizes", "pixels"), "at least 8"),
    "depth": "at least 1",
    "mx_shares": "above 0",
    "device": "one of auto, cpu, cuda",
    "augment": "an augmentation",
    "pool": "a pool",
}
_BOUNDS = {"at least": operator.ge, "above": operator.gt, "at most": operator.le, "below": operator.lt}


@dataclass(frozen=True)
class Rule:
    """`text` says what is accepted; `accepts` tells whether a value is. `slow`: it loads torch, which takes seconds."""

    text: str
    accepts: Callable[[Any], bool]
    slow: bool = False


def read_rule(name: str, help: str) -> Rule | None:
    """The rule of a parameter, at the end of its help text or by its name; a ValueError if the rule is not one of these forms."""
    match = re.search(r"\[([^\[\]]*)\]$", help.strip())
    text = match[1].strip() if match else COMMON.get(name)
    if text is None:
        return None
    if text.startswith("one of "):
        words = [word.strip() for word in text.removeprefix("one of ").split(",")]
        return Rule(text, lambda value: value in words)
    if text == "a pool":
        return Rule("a pool such as avg or lae(t0=4, train=one)", _is_pool, slow=True)
    if text == "an augmentation":
        return Rule("an augmentation of RunConfig, such as flip-crop", _is_augmentation, slow=True)
    bounds = [re.fullmatch(r"(at least|above|at most|below) (-?[\d.]+(?:e-?\d+)?)", part) for part in text.split(", ")]
    if not all(bounds):
        known = "at least 1; above 0, at most 1; one of a, b; a pool; an augmentation"
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


def _is_augmentation(value: str) -> bool:
    from lae_core.training.config import RunConfig

    return value in RunConfig.words("augment")


def split_list(text: str) -> list[str]:
    """The entries of `a,b`, `[a, b]` or `avg,lae(t0=1, train=one)`: a comma in parentheses separates nothing."""
    inner = re.sub(r"^\[(.*)\]$", r"\1", text.strip(), flags=re.DOTALL)
    if not inner.strip():
        return []
    entries = [entry.strip() for entry in re.split(r",(?![^()]*\))", inner)]
    if "" in entries:
        raise ValueError("an entry of the list is empty")
    return [re.sub(r"""^(['"])(.*)\1$""", r"\2", entry) for entry in entries]
