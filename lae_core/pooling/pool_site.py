"""Where the global pool of a model is, how another one is put there, and how that is undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from lae_core.pooling.modules import GlobalPool

# where the pool is kept if a function is called and there is no module
_ATTRIBUTE = "swapped_global_pool"


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
    window: bool = False  # whether the function has a window of fixed size, which as many positions must fill
    owner: str = ""  # the module that shall hold the pool, where that is no module so far

    @property
    def input_fmt(self) -> str:
        """Where the channels are, as a pool is told it."""
        return "NHWC" if self.channels_last else "NCHW"

    @property
    def shown(self) -> str:
        return f"module {self.module!r}" if self.module is not None else f"function after {self.producer!r}"


def install(model: nn.Module, site: PoolSite, pool: GlobalPool) -> None:
    """Put `pool` where `site` says."""
    remove_hooked(model)
    if site.module is not None:
        previous = model.get_submodule(site.module)
        if hasattr(previous, "pool_type"):  # timm's heads compare it when they are reset
            pool.pool_type = previous.pool_type
        # one module may be registered under several names
        for name in [n for n, m in model.named_modules(remove_duplicate=False) if m is previous]:
            model.set_submodule(name, pool)
        if hasattr(model, "reset_classifier"):
            object.__setattr__(model, "reset_classifier", _ResetClassifier(model, site.module))
    elif site.producer is not None:
        setattr(model.get_submodule(site.owner), _ATTRIBUTE, pool)
        model.get_submodule(site.producer).register_forward_hook(_PoolAfter(pool, site))


class _PoolAfter:
    """A forward hook that pools what a module gives. The mean that follows then has one position and changes nothing.

    Before a window of fixed size the result fills all positions, so that its mean over the window is the result, to rounding.
    """

    def __init__(self, pool: GlobalPool, site: PoolSite) -> None:
        self.pool, self.rectify, self.prefix, self.window = pool, site.rectify, site.prefix, site.window

    def __call__(self, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        z = output.relu() if self.rectify else output
        if self.window:
            return cast(Tensor, self.pool(z)).expand_as(z)
        if not self.prefix:
            return cast(Tensor, self.pool(z))
        return torch.cat([z[:, : self.prefix], self.pool(z[:, self.prefix :])], 1)


class _ResetClassifier:
    """timm's `reset_classifier`, which would build average pooling anew, with our pool put back."""

    def __init__(self, model: nn.Module, path: str) -> None:
        self.model, self.path = model, path

    def __call__(self, num_classes: int, *args: Any, **kwargs: Any) -> None:
        pool = self.model.get_submodule(self.path)
        reset: Any = type(self.model).reset_classifier  # type: ignore[attr-defined]
        reset(self.model, num_classes, *args, **kwargs)
        asked_for_another = any(value is not None for value in (*args, kwargs.get("global_pool")))
        if not asked_for_another:
            self.model.set_submodule(self.path, pool)


def remove_hooked(model: nn.Module) -> None:
    """Undo an earlier swap by hook, so that the model pools by its own function again."""
    for module in list(model.modules()):
        module._modules.pop(_ATTRIBUTE, None)
        for key in [key for key, hook in module._forward_hooks.items() if isinstance(hook, _PoolAfter)]:
            del module._forward_hooks[key]
