"""One grammar names every pool: `avg`, `lae(t0=4, train=channel)`, `mixed(train=one, dtype=float64)`."""

from __future__ import annotations

import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from lae_core.pooling import modules
from lae_core.pooling.modules import GlobalPool
from lae_core.pooling.temperature import check_t0

_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class _Argument:
    default: float | str
    choices: tuple[str, ...] = ()  # empty: a positive number, or a share of one
    share: bool = False  # from 0 to 1

    def read(self, name: str, text: str) -> float | str:
        if self.choices:
            if text not in self.choices:
                raise ValueError(f"{name} is {text!r}; it takes one of {', '.join(self.choices)}")
            return text
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if self.share and not 0 <= value <= 1:
            raise ValueError(f"{name} is {text!r}; it takes a number from 0 to 1")
        if not self.share and not 0 < value < float("inf"):
            raise ValueError(f"{name} is {text!r}; it takes a positive number")
        return value


_DTYPE = _Argument("input", ("input", *_DTYPES))


@dataclass(frozen=True)
class _Pool:
    """What a name stands for: `make(spec, channels, **shared)`, and the arguments that the name takes beside `dtype`.

    `channels` is None unless the spec asks for parameters for each channel; `shared` is what every pool takes.
    """

    make: Callable[..., GlobalPool]
    arguments: dict[str, _Argument] = field(default_factory=dict)


def _avg(spec: PoolSpec, channels: int | None, **shared: Any) -> GlobalPool:
    return modules.AvgPool(**shared) if spec["train"] == "no" else modules.ScaledAvgPool(channels, **shared)


def _lae(spec: PoolSpec, channels: int | None, **shared: Any) -> GlobalPool:
    textbook = spec["form"] == "textbook"
    shared["t_min"] = spec["t_min"]
    if spec["train"].startswith("context"):
        return modules.ContextLAEPool(spec["t0"], channels, textbook, **shared)
    return modules.LAEPool(spec["t0"], channels, spec["train"] != "no", textbook, **shared)


_POOLS: dict[str, _Pool] = {
    "avg": _Pool(_avg, {"train": _Argument("no", ("no", "one", "channel"))}),
    "max": _Pool(lambda spec, channels, **shared: modules.MaxPool(**shared)),
    "lse": _Pool(lambda spec, channels, **shared: modules.LSEPool(**shared)),
    "lae": _Pool(
        _lae,
        {
            "t0": _Argument(1.0),
            "train": _Argument("no", ("no", "one", "channel", "context", "context-channel")),
            "form": _Argument("stable", ("stable", "textbook")),
            "t_min": _Argument(0.0),
            "r0": _Argument(1.0),  # 1/t0, which is written instead
        },
    ),
    "mixed": _Pool(
        lambda spec, channels, **shared: modules.MixedPool(spec["a0"], channels, spec["bounds"] == "unit", **shared),
        {
            "a0": _Argument(0.5, share=True),
            "train": _Argument("one", ("one", "channel")),
            "bounds": _Argument("no", ("no", "unit")),
        },
    ),
    "gated": _Pool(
        lambda spec, channels, **shared: modules.GatedPool(channels, **shared),
        {"train": _Argument("one", ("one", "channel"))},
    ),
    "gem": _Pool(
        lambda spec, channels, **shared: modules.GeMPool(spec["p0"], spec["train"] == "one", **shared),
        {"p0": _Argument(3.0), "train": _Argument("one", ("no", "one"))},
    ),
}


@dataclass(frozen=True)
class PoolSpec:
    """A pool by name and arguments. `PoolSpec.parse(str(spec)) == spec`; arguments at their defaults are not written."""

    name: str
    arguments: tuple[tuple[str, float | str], ...] = ()

    @classmethod
    def parse(cls, text: str | PoolSpec) -> PoolSpec:
        """Read a spec such as `lae(t0=4, train=channel)`; every error names what would be accepted.

        `lae(r0=5)` gives the sharpness r = 1/t, and is read as `lae(t0=0.2)`.
        """
        if isinstance(text, PoolSpec):
            return text
        match = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(f"cannot read the pool {text!r}; write it like 'avg' or 'lae(t0=4, train=channel)'")
        name, inside = match.group(1), match.group(2) or ""
        if name not in _POOLS:
            raise ValueError(f"there is no pool {name!r} (in {text!r}); the pools are {', '.join(_POOLS)}")
        accepted = _POOLS[name].arguments | {"dtype": _DTYPE}
        given: dict[str, float | str] = {}
        for part in filter(None, (piece.strip() for piece in inside.split(","))):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or key not in accepted:
                raise ValueError(f"{name} has no argument {part!r} (in {text!r}); it takes {', '.join(accepted)}")
            if key in given:
                raise ValueError(f"{key} is given twice in {text!r}")
            given[key] = accepted[key].read(f"{key} in {text!r}", value)
        if "r0" in given:
            if "t0" in given:
                raise ValueError(f"t0 and r0 are both given in {text!r}; expected one, as t0 = 1/r0")
            given["t0"] = 1 / given.pop("r0")  # type: ignore[operator]
        if "t_min" in given:
            check_t0(given.get("t0", accepted["t0"].default), given["t_min"])  # type: ignore[arg-type]
        written = ((key, given[key]) for key in accepted if key in given and given[key] != accepted[key].default)
        return cls(name, tuple(written))

    def __getitem__(self, key: str) -> Any:
        """The value of an argument, given or default."""
        if key == "r0":
            return 1 / self["t0"]
        accepted = _POOLS[self.name].arguments | {"dtype": _DTYPE}
        return dict(self.arguments).get(key, accepted[key].default)

    def replace(self, **arguments: float | str) -> PoolSpec:
        """The same pool with some arguments changed."""
        given = dict(self.arguments) | arguments
        return PoolSpec.parse(f"{self.name}({', '.join(f'{key}={value}' for key, value in given.items())})")

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        inside = ", ".join(f"{key}={str(value).removesuffix('.0')}" for key, value in self.arguments)
        return f"{self.name}({inside})"


def make_pool(
    spec: str | PoolSpec, channels: int | None = None, flatten: bool = True, input_fmt: str = "NCHW"
) -> GlobalPool:
    """The pool that `spec` names, for inputs with so many channels; None is enough where no parameter is per channel.

    `input_fmt="NLC"` makes it a pool for tokens, (batch, length, channels); see :class:`.GlobalPool`.

    Channels may be features or class scores. Over scores, from a head that sees every position (a 1×1 convolution),
    `lae` is an "or" over positions.

    Example:
        >>> make_pool("lae(t0=4, train=one)", channels=512)
        LAEPool(t=4, r=0.25, trained)
    """
    spec = PoolSpec.parse(spec)
    shared: dict[str, Any] = {"flatten": flatten, "dtype": _DTYPES.get(spec["dtype"]), "input_fmt": input_fmt}
    pool = _POOLS[spec.name]
    for_each = "train" in pool.arguments and spec["train"] in ("channel", "context-channel")
    whole = isinstance(channels, numbers.Integral) and not isinstance(channels, bool) and channels >= 1
    if not whole and (for_each or channels is not None):
        raise ValueError(f"channels = {channels!r} is invalid for {str(spec)!r}; expected a whole number of at least 1")
    return pool.make(spec, channels if for_each else None, **shared)
