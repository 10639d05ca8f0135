"""`swap_global_pool(model, spec)`: put any pool in the place of a model's global pool, wherever that is."""

from __future__ import annotations

import itertools
from typing import Any, cast

import torch
from torch import Tensor, nn

from lae_core.pooling.check_swap import check_swap
from lae_core.pooling.locate import PoolSite, locate_global_pool
from lae_core.pooling.modules import GlobalPool
from lae_core.pooling.spec import PoolSpec, make_pool

# where the pool is kept if the model itself calls a function instead of holding a module
_ATTRIBUTE = "swapped_global_pool"


def swap_global_pool(model: nn.Module, spec: str | PoolSpec, check: bool = True) -> nn.Module:
    """Put the pool that `spec` names in the place of the model's global pool, and return the model.

    Works on classification networks of torchvision and timm, and on others built alike: the pool is found by running the model
    once without data (shapes alone), so it may be a module anywhere or a function called inside `forward`. It may pool
    positions, or tokens as those transformers do that do not read a class token. What comes after it sees the shapes that it
    saw before. timm's `reset_classifier(n)` keeps the new pool. Train or load as usual: the pool's parameters are in
    `model.parameters()` and in the `state_dict`.

    The swap is tried on a copy first, with a small random batch, in eval and in train mode: with the pool that the model has now
    in the new place, the copy must compute what it computes now, and its output must depend on that pool.
    `check=False` leaves this out, for a model that cannot be run here.

    Raises:
        ValueError: the model has no global pool (a ViT may read its class token; VGG and AlexNet pool to a grid), it lies
            where nothing can be put in its place, or the check failed. The model is then left as it was.

    Example:
        >>> model = swap_global_pool(torchvision.models.resnet50(), "lae(t0=4, train=one)")
    """
    spec = PoolSpec.parse(spec)
    _refuse_what_cannot_be_changed(model)
    sites = locate_global_pool(model, _remove_hooked)
    site, size = next(sites)
    if check:
        following = next(sites, (site, size))[1]  # a model may name a large image, and do with a small one
        sizes = itertools.chain(sorted({size, following}), (later for _, later in sites))
        check_swap(model, site, sizes, _remove_hooked, _install)
    pool = make_pool(spec, site.channels, flatten=site.flatten, input_fmt=site.input_fmt)
    parameter = next(model.parameters(), None)
    if parameter is not None:
        pool.to(parameter.device)
    pool.train(model.training)
    _install(model, site, pool)
    return model


def _refuse_what_cannot_be_changed(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model = {model!r:.80} is invalid; expected a torch.nn.Module")
    for module in model.modules():
        kind, home = type(module).__name__, type(module).__module__
        if isinstance(module, torch.jit.ScriptModule):
            raise ValueError(f"{kind} is scripted, its parts are fixed; expected the model before torch.jit")
        if kind == "OptimizedModule" and home.startswith("torch._dynamo"):
            raise ValueError(f"{kind} is compiled; expected the model before torch.compile (model._orig_mod)")
        if "quantized" in home.split("."):
            raise ValueError(f"{type(model).__name__} is quantised ({home}.{kind}); expected the model before that")


def _install(model: nn.Module, site: PoolSite, pool: GlobalPool) -> None:
    """Put `pool` where `site` says."""
    _remove_hooked(model)
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
        setattr(model, _ATTRIBUTE, pool)
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


def _remove_hooked(model: nn.Module) -> None:
    """Undo an earlier swap by hook, so that the model pools by its own function again."""
    if hasattr(model, _ATTRIBUTE):
        delattr(model, _ATTRIBUTE)
        for module in model.modules():
            for key in [key for key, hook in module._forward_hooks.items() if isinstance(hook, _PoolAfter)]:
                del module._forward_hooks[key]
