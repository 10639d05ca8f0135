"""Find a model's global pool, over positions or tokens, by running it on shapes alone."""

from __future__ import annotations

import contextlib
import copy
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from lae_core.pooling.modules import GlobalPool
from lae_core.pooling.pool_site import PoolSite, remove_hooked

_SIZES = (64, 128, 224, 256, 299)
_SMALL_SIZES = (32, 28, 96)  # of data sets that people write networks of fixed size for: CIFAR, MNIST, STL
_RECTIFIERS = ("relu", "relu_")
# functions that leave the values as they are: a module that calls these and one pool is a pool
_RESHAPES = (
    "__get__ flatten view reshape squeeze unsqueeze permute transpose movedim contiguous to float type_as".split()
)


def locate_global_pool(model: nn.Module) -> Iterator[tuple[PoolSite, tuple[int, int, int]]]:
    """The site of the last pool over all positions after which nothing spatial happens, or a ValueError that says why not.

    Comes with the size of an image that it was found with; further items are the same site with further sizes. A copy is
    run, without an earlier swap; the model itself stays untouched.
    """
    failure: Exception | None = None
    first: PoolSite | None = None
    without: _Watch | None = None
    missed: dict[tuple[int, int, int], list[torch.Size]] = {}
    for size in _input_sizes(model):
        try:
            # a copy without data: what a forward pass leaves behind in the model (cached biases, say) stays out of it
            with FakeTensorMode(allow_non_fake_inputs=True) as fake, FakeCopyMode(fake):
                twin = copy.deepcopy(model).eval()
                remove_hooked(twin)
            watch = _Watch(twin)
            with fake, _quiet():
                watch.run(torch.Size((2, *size)))
        except Exception as error:  # this input size does not suit the model: try the next
            failure = error
            continue
        if not watch.found:  # a window of fixed size is a global pool for one size of picture alone
            without = without or watch
            missed[size] = watch.shapes
        elif first is None:
            first, of, shapes, window = watch.site(), size, watch.shapes, watch.found.window
        elif watch.site() != first:
            continue
        # a larger image for which the output is as it should be: the window was a step on the way, as in VGG
        other = next((s for s in missed if first and window and s > of and missed[s] == shapes), None)
        if other:
            raise ValueError(
                f"{type(model).__name__} pools all positions of an image of {of[1]} x {of[2]} by a window of fixed size, "
                f"but not of one of {other[1]} x {other[2]}, which it takes as well: expected a global pool, such as "
                "nn.AdaptiveAvgPool2d(1)"
            )
        if first and watch.found:
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


@dataclass
class _Value:
    """What is known of a tensor, which is kept alive: its id names it."""

    tensor: Tensor
    producer: str | None = None  # the module that gave it
    prefix: int = 0  # how many tokens in front were cut off since
    touched: list[str] = field(default_factory=list)  # functions that changed it since
    used: list[str] = field(default_factory=list)  # functions that read it since
    pooled: list[str] = field(default_factory=list)  # what pools all its positions


@dataclass
class _Found:
    """The last pool so far."""

    of: _Value  # what it pools
    function: str
    pools: str
    holders: list[int]  # ids of modules that may be the pool, from the outermost on
    channels: int
    last: bool  # whether the channels are
    around: list[str]  # the modules in which it was called, from the outermost on, that may be given another child
    flatten: dict[int, bool] = field(default_factory=dict)  # id of a holder -> whether it gives (batch, channels)

    @property
    def window(self) -> bool:
        """Whether it pools windows of fixed size, of which one covered all positions."""
        return self.function.startswith("avg_pool2d")


class _Watch(TorchFunctionMode):
    """Runs the model once without data, and notes who pools what."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.names = {id(module): name for name, module in model.named_modules()}
        self.stack: list[nn.Module] = []
        self.entered: Counter[int] = Counter()  # id of a module -> how often it was called
        self.called: dict[int, list[str]] = {}  # id of a module -> functions called in it that make new values
        self.values: dict[int, _Value] = {}  # by the id of the tensor
        self.outputs: set[int] = set()
        self.shapes: list[torch.Size] = []  # of the outputs
        self.found: _Found | None = None

    def _value(self, x: Tensor) -> _Value:
        return self.values.setdefault(id(x), _Value(x))

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
            self.shapes = [leaf.shape for leaf in tree_leaves(given) if isinstance(leaf, Tensor)]
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
            value = self._value(output)
            value.producer, value.touched, value.used = self.names.get(id(module), ""), [], []
            if self.found and id(module) in self.found.holders:
                self.found.flatten[id(module)] = output.dim() == 2

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
                self._value(leaf).used.append(name)
        if before is not None and isinstance(result, Tensor) and not any(isinstance(m, GlobalPool) for m in self.stack):
            if before.dim() in (3, 4) and result.numel() * 4 <= before.numel() and _is_pool(name):
                self._note_pool(before, result, "max" if "max" in name else "avg", name)
            elif self.stack and id(self.stack[-1]) in self.names and self._value(before).producer is not None:
                cut = _cut_off(args) if name == "__getitem__" else None
                if name in _RECTIFIERS or name == "dropout" or cut is not None:
                    value, source = self._value(result), self._value(before)
                    value.producer, value.touched = source.producer, [*source.touched, name]
                    value.prefix = value.prefix if cut is None else cut
        return result

    def _note_pool(self, z: Tensor, pooled: Tensor, pools: str, function: str) -> None:
        shape = tuple(size for size in pooled.shape[1:] if size != 1)
        tokens = z.dim() == 3
        if pooled.shape[:1] != z.shape[:1] or shape not in (
            ((z.shape[2],),) if tokens else ((z.shape[1],), (z.shape[3],))
        ):
            return
        value = self._value(z)
        value.pooled.append(pools)
        within = self.stack[-1:] if pools == "ours" else self.stack
        holders = [id(m) for m in within if self.names.get(id(m)) and _may_be_pool(m)]
        last = tokens or shape != (z.shape[1],)
        # as it is now: a module that gives it once more changes `value`
        self.found = _Found(replace(value), function, pools, holders, shape[0], last, self._around())

    def _around(self) -> list[str]:
        """The modules that are being run, without those that would call a new child as one more step."""
        running = [m for m in self.stack if type(m).forward is not nn.Sequential.forward]
        return [self.names[id(m)] for m in running if id(m) in self.names]

    def site(self) -> PoolSite:
        kind = type(self.model).__name__
        found = self.found
        if found is None:
            raise ValueError(
                f"{kind} has no global spatial pool that can be found: it does not end with one mean or maximum over all positions "
                "(a ViT may read its class token; VGG and AlexNet pool to a grid). In a network of your own, expected "
                "nn.AdaptiveAvgPool2d(1), or x.mean((2, 3)) in place of x.flatten(2).mean(-1) or of one mean per dimension"
            )
        several = found.of.pooled
        if len(several) > 1:
            raise ValueError(
                f"{kind} pools the same features {len(several)} times ({', '.join(several)}): expected one global pool"
            )
        pools, channels, last = found.pools, found.channels, found.last
        holder = next((h for h in found.holders if pools == "ours" or self._only_pools(h)), None)
        if holder is not None:
            name = self.names[holder]
            if self.entered[holder] > 1:
                raise ValueError(
                    f"{kind}: its global pool {name!r} is called {self.entered[holder]} times in one forward pass: "
                    "expected a module of its own for the last pool"
                )
            return PoolSite(name, None, pools, False, channels, last, found.flatten[holder])
        producer = found.of.producer
        if not producer:
            raise ValueError(
                f"{kind} pools inside its forward, over something that no module gives: nothing can be put there"
            )
        self._check_producer(kind, producer, found)
        rectify = any(name in _RECTIFIERS for name in found.of.touched)
        # the innermost around both, so that a wrapper may go and a part may be replaced; beside a Sequential, what is in it
        both = [name for name in found.around if not name or producer.startswith(name + ".")]
        owner = both[-1] if both else next(iter(found.around), "")
        return PoolSite(None, producer, pools, rectify, channels, last, False, found.of.prefix, found.window, owner)

    def _only_pools(self, holder: int) -> bool:
        return len(self.called[holder]) == self.entered[holder]

    def _check_producer(self, kind: str, name: str, found: _Found) -> None:
        """What a hook changes must reach the pool alone."""
        module = self.model.get_submodule(name)
        hint = "put the pool into a module of its own, such as nn.AdaptiveAvgPool2d(1)"
        if self.entered[id(module)] > 1:
            raise ValueError(
                f"{kind} pools what {name!r} gives, and calls that {self.entered[id(module)]} times "
                f"in one forward pass: {hint}"
            )
        values = [value for value in self.values.values() if value.producer == name]
        uses = Counter(function for value in values for function in value.used)
        others = uses - Counter([*found.of.touched, found.function])  # the way to the pool
        others.pop("__get__", None)
        if any(id(value.tensor) in self.outputs for value in values):
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


def _has_positions(x: Tensor, found: _Found) -> bool:
    """Whether x is still to be pooled, once a pool was found."""
    if x.dim() == 3:
        return found.of.tensor.dim() == 3 and x.shape[1] > 1
    return x.dim() == 4 and (x.shape[1] * x.shape[2] if found.last else x.shape[2] * x.shape[3]) > 1


def _cut_off(args: tuple[Any, ...]) -> int | None:
    """k for x[:, k:] of tokens (batch, tokens, channels), else None."""
    x, index = args
    if x.dim() != 3 or not isinstance(index, tuple) or len(index) != 2 or index[0] != slice(None):
        return None
    rest = index[1]
    if not isinstance(rest, slice) or rest.stop is not None or rest.step is not None:
        return None
    return rest.start or 0
