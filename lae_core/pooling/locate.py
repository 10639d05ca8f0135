"""Find a model's global pool, over positions or tokens, by running it on shapes alone."""

from __future__ import annotations

import contextlib
import copy
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from lae_core.pooling.modules import GlobalPool

_SIZES = (64, 128, 224, 256, 299)
_SMALL_SIZES = (32, 28, 96)  # of data sets that people write networks of fixed size for: CIFAR, MNIST, STL
_RECTIFIERS = ("relu", "relu_")
# functions that leave the values as they are: a module that calls these and one pool is a pool
_RESHAPES = (
    "__get__ flatten view reshape squeeze unsqueeze permute transpose movedim contiguous to float type_as".split()
)


@dataclass(frozen=True)
class PoolSite:
    """Where a global pool is: a module of its own, or a function called on what the module `producer` gave."""

    module: str | None
    producer: str | None
    pools: str  # what it computes: avg, max, or ours for one of our pools
    rectify: bool  # whether a ReLU stands between the producer and the pool
    channels: int
    channels_last: bool  # (batch, height, width, channels), or (batch, tokens, channels)
    flatten: bool
    prefix: int = 0  # how many tokens, such as a class token, stand before those that are pooled
    window: bool = (
        False  # whether the function has a window of fixed size, as avg_pool2d, which as many positions must fill
    )

    @property
    def input_fmt(self) -> str:
        """Where the channels are, as a pool is told it."""
        return "NHWC" if self.channels_last else "NCHW"

    @property
    def shown(self) -> str:
        return f"module {self.module!r}" if self.module is not None else f"function after {self.producer!r}"


def locate_global_pool(
    model: nn.Module, prepare: Callable[[nn.Module], None]
) -> Iterator[tuple[PoolSite, tuple[int, int, int]]]:
    """The site of the last pool over all positions after which nothing spatial happens, or a ValueError that says why not.

    Comes with the size of an image that it was found with; further items are the same site with further sizes. `prepare`
    is applied to the copy that is run; the model itself stays untouched.
    """
    failure: Exception | None = None
    first: PoolSite | None = None
    without: _Watch | None = None
    for size in _input_sizes(model):
        try:
            # a copy without data: what a forward pass leaves behind in the model (cached biases, say) stays out of it
            with FakeTensorMode(allow_non_fake_inputs=True) as fake, FakeCopyMode(fake):
                twin = copy.deepcopy(model).eval()
                prepare(twin)
            watch = _Watch(twin)
            with fake, _quiet():
                watch.run(torch.Size((2, *size)))
        except Exception as error:  # this input size does not suit the model: try the next
            failure = error
            continue
        if not watch.found:  # a window of fixed size is a global pool for one size of picture alone
            without = without or watch
            continue
        if first is None:
            first = watch.site()
        elif watch.site() != first:
            continue
        yield first, size
    if first is None and without is not None:
        without.site()  # raises: it says what is missing
    if first is None:
        said = str(failure).strip().split("\n")[0]
        raise ValueError(
            f"{type(model).__name__} could not be run on images of any size in {_SIZES + _SMALL_SIZES}: "
            f"{type(failure).__name__}: {said}"
        ) from failure


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's own account of a run that fails: that a size does not suit a model is no news."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    disabled, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = disabled


def _input_sizes(model: nn.Module) -> list[tuple[int, int, int]]:
    config = getattr(model, "pretrained_cfg", None) or {}
    named = [tuple(config["input_size"])] if config.get("input_size") else []
    first = next((m.in_channels for m in model.modules() if isinstance(m, nn.Conv2d)), 3)
    channels = named[0][0] if named else first
    sizes = _SIZES if named else _SIZES + _SMALL_SIZES
    return named + [(channels, size, size) for size in sizes if (channels, size, size) not in named]


class _Watch(TorchFunctionMode):
    """Runs the model once without data, and notes who pools what."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.names = {id(module): name for name, module in model.named_modules()}
        self.stack: list[nn.Module] = []
        self.entered: Counter[int] = Counter()  # id of a module -> how often it was called
        self.called: dict[int, list[str]] = {}  # id of a module -> functions called in it that make new values
        self.produced: dict[int, str] = {}  # id of a tensor -> the module that gave it
        self.prefix: dict[int, int] = {}  # id of a tensor -> how many tokens in front were cut off
        self.touched: dict[int, list[str]] = {}  # id of a tensor -> functions that changed it since
        self.used: dict[int, list[str]] = {}  # id of a tensor -> functions that read it since
        self.pooled: dict[int, list[str]] = {}  # id of a tensor -> functions that pool all its positions
        self.alive: list[Any] = []  # ids are only good while their tensors live
        self.outputs: set[int] = set()
        self.found: dict[str, Any] | None = None

    def run(self, shape: torch.Size) -> None:
        parameter = next(self.model.parameters(), torch.empty(0))
        hooks = (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        )
        try:
            with torch.no_grad(), self:
                given = self.model(torch.empty(shape, dtype=parameter.dtype, device=parameter.device))
            self.outputs = {id(leaf) for leaf in tree_leaves(given)}
        finally:
            for hook in hooks:
                hook.remove()

    def _enter(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.stack.append(module)
        self.entered[id(module)] += 1
        self.called.setdefault(id(module), [])
        if self.found and any(isinstance(x, Tensor) and _has_positions(x, self.found) for x in inputs):
            self.found = None  # something spatial follows, so this was not the end: a squeeze inside a block

    def _leave(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(module, GlobalPool) and inputs[0].dim() == 4:
            self._note_pool(inputs[0], output, "ours", "")
        self.stack.pop()
        if isinstance(output, Tensor):
            self.produced[id(output)] = self.names.get(id(module), "")
            self.touched[id(output)] = []
            self.used[id(output)] = []
            self.alive.append(output)
            if self.found and id(module) in self.found["holders"]:
                self.found["flatten"][id(module)] = output.dim() == 2

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        before = args[0] if args and isinstance(args[0], Tensor) else None
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if not any(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):
            return result  # a shape, a device
        if name not in _RESHAPES:
            for module in self.stack:
                self.called[id(module)].append(name)
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor):
                self.used.setdefault(id(leaf), []).append(name)
                self.alive.append(leaf)
        if before is not None and isinstance(result, Tensor) and not any(isinstance(m, GlobalPool) for m in self.stack):
            if before.dim() in (3, 4) and result.numel() * 4 <= before.numel() and _is_pool(name):
                self._note_pool(before, result, "max" if "max" in name else "avg", name)
            elif id(before) in self.produced and self.stack and self.names.get(id(self.stack[-1])) is not None:
                cut = _cut_off(args) if name == "__getitem__" else None
                if cut is not None:
                    self.prefix[id(result)] = cut
                if name in _RECTIFIERS or name == "dropout" or cut is not None:
                    self.used.setdefault(id(result), [])
                    self.produced[id(result)] = self.produced[id(before)]
                    self.touched[id(result)] = [*self.touched[id(before)], name]
                    self.alive.append(result)
        return result

    def _note_pool(self, z: Tensor, pooled: Tensor, pools: str, function: str) -> None:
        shape = tuple(size for size in pooled.shape[1:] if size != 1)
        tokens = z.dim() == 3
        if pooled.shape[0] != z.shape[0] or shape not in (
            ((z.shape[2],),) if tokens else ((z.shape[1],), (z.shape[3],))
        ):
            return
        self.pooled.setdefault(id(z), []).append(pools)
        self.alive.append(z)
        within = self.stack[-1:] if pools == "ours" else self.stack
        self.found = {
            "z": id(z),
            "function": function,
            "pools": pools,
            "holders": [id(m) for m in within if self.names.get(id(m)) and _may_be_pool(m)],
            "flatten": {},
            "producer": self.produced.get(id(z)),
            "touched": self.touched.get(id(z), []),
            "channels": shape[0],
            "last": tokens or shape != (z.shape[1],),
            "tokens": tokens,
            "prefix": self.prefix.get(id(z), 0),
        }

    def site(self) -> PoolSite:
        kind = type(self.model).__name__
        found = self.found
        if found is None:
            raise ValueError(
                f"{kind} has no global spatial pool to swap: it ends without a mean or maximum over all positions "
                "(a ViT may read its class token; VGG and AlexNet pool to a grid)"
            )
        several = self.pooled[found["z"]]
        if len(several) > 1:
            raise ValueError(
                f"{kind} pools the same features {len(several)} times ({', '.join(several)}): expected one global pool"
            )
        shared = {"pools": found["pools"], "channels": found["channels"], "channels_last": found["last"]}
        holder = next((h for h in found["holders"] if self._does_nothing_else(h, found["pools"])), None)
        if holder is not None:
            name = self.names[holder]
            if self.entered[holder] > 1:
                raise ValueError(
                    f"{kind}: its global pool {name!r} is called {self.entered[holder]} times in one forward pass: "
                    "expected a module of its own for the last pool"
                )
            return PoolSite(name, None, rectify=False, flatten=found["flatten"][holder], **shared)
        if not found["producer"]:
            raise ValueError(
                f"{kind} pools inside its forward, over something that no module gives: nothing can be put there"
            )
        self._check_producer(kind, found)
        rectify = any(name in _RECTIFIERS for name in found["touched"])
        window = found["function"].startswith("avg_pool2d")
        return PoolSite(
            None, found["producer"], rectify=rectify, flatten=False, prefix=found["prefix"], window=window, **shared
        )

    def _does_nothing_else(self, holder: int, pools: str) -> bool:
        return pools == "ours" or len(self.called[holder]) == self.entered[holder]

    def _check_producer(self, kind: str, found: dict[str, Any]) -> None:
        """What a hook changes must reach the pool alone."""
        name = found["producer"]
        module = self.model.get_submodule(name)
        hint = "put the pool into a module of its own, such as nn.AdaptiveAvgPool2d(1)"
        if self.entered[id(module)] > 1:
            raise ValueError(
                f"{kind} pools what {name!r} gives, and calls that {self.entered[id(module)]} times "
                f"in one forward pass: {hint}"
            )
        tensors = [tensor for tensor, by in self.produced.items() if by == name]
        uses = Counter(function for tensor in tensors for function in self.used.get(tensor, []))
        others = uses - Counter([*found["touched"], found["function"]])  # the way to the pool
        others.pop("__get__", None)
        if any(tensor in self.outputs for tensor in tensors):
            others["the model's output"] += 1
        if others:
            raise ValueError(
                f"{kind} pools what {name!r} gives, and a hook there would also change what goes to "
                f"{', '.join(others)}: {hint}"
            )


def _may_be_pool(module: nn.Module) -> bool:
    return isinstance(module, GlobalPool) or not any(True for _ in module.parameters())


def _is_pool(name: str) -> bool:
    return name in ("mean", "amax", "max", "sum") or name.startswith(
        ("adaptive_avg_pool", "adaptive_max_pool", "avg_pool2d")
    )


def _has_positions(x: Tensor, found: dict[str, Any]) -> bool:
    """Whether x is still to be pooled, once a pool was found."""
    if x.dim() == 3:
        return found["tokens"] and x.shape[1] > 1
    return x.dim() == 4 and (x.shape[1] * x.shape[2] if found["last"] else x.shape[2] * x.shape[3]) > 1


def _cut_off(args: tuple[Any, ...]) -> int | None:
    """k for x[:, k:] of tokens (batch, tokens, channels), else None."""
    x, index = args
    if x.dim() != 3 or not isinstance(index, tuple) or len(index) != 2 or index[0] != slice(None):
        return None
    rest = index[1]
    if not isinstance(rest, slice) or rest.stop is not None or rest.step is not None:
        return None
    return rest.start or 0
