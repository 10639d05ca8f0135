"""`swap_global_pool(model, spec)`: put any pool in the place of a model's global pool, wherever that is."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from lae_core.pooling.check_swap import check_swap
from lae_core.pooling.locate import locate_global_pool
from lae_core.pooling.pool_site import install
from lae_core.pooling.spec import PoolSpec, make_pool


def swap_global_pool(model: nn.Module, spec: str | PoolSpec, check: bool = True) -> nn.Module:
    """Put the pool that `spec` names in the place of the model's global pool, and return the model.

    Works on classification networks of torchvision and timm, and on others built alike: the pool is found by running the model
    once without data (shapes alone), so it may be a module anywhere or a function called inside `forward`. It may pool
    positions, or tokens as those transformers do that do not read a class token. What comes after it sees the shapes that it
    saw before. timm's `reset_classifier(n)` keeps the new pool. Train or load as usual: the pool's parameters are in
    `model.parameters()` and in the `state_dict`. An optimiser that exists already does not know them: make it afterwards.

    Where `forward` calls a function, the module before it gives the pooled features from then on: `model.features(x)` of a
    MobileNet has one position. A hook for feature maps, as for Grad-CAM, belongs on a layer inside that module.

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
    sites = locate_global_pool(model)
    site, size = next(sites)
    if site.module is not None:
        _refuse_hooks(model, site.module)
    if check:
        following = next(sites, (site, size))[1]  # a model may name a large image, and do with a small one
        sizes = itertools.chain(sorted({size, following}), (later for _, later in sites))
        check_swap(model, site, sizes)
    pool = make_pool(spec, site.channels, flatten=site.flatten, input_fmt=site.input_fmt)
    parameter = next(model.parameters(), None)
    if parameter is not None:
        pool.to(parameter.device)
    pool.train(model.training)
    install(model, site, pool)
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
        if home.startswith(("torch.nn.parallel.distributed", "torch.distributed")):
            raise ValueError(f"{kind} would not share new parameters between processes; expected the model before that")
        if any(torch.nn.parameter.is_lazy(x) for x in module.parameters(recurse=False)):
            raise ValueError(f"{kind} has parameters without a shape; expected the model after its first forward pass")
        if "quantized" in home.split("."):
            raise ValueError(f"{type(model).__name__} is quantised ({home}.{kind}); expected the model before that")


def _refuse_hooks(model: nn.Module, name: str) -> None:
    """A hook on a module that goes would go in silence."""
    for module in model.get_submodule(name).modules():
        if any((module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)):
            raise ValueError(
                f"{type(model).__name__}: its global pool {name!r} has hooks, which would be lost; "
                "expected a model whose hooks are registered after the swap"
            )
