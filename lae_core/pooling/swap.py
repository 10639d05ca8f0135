"""`swap_global_pool(model, spec)`: put any pool in the place of a model's global pool, wherever that is."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from lae_core.pooling.locate import PoolSite, locate_global_pool
from lae_core.pooling.modules import GlobalPool
from lae_core.pooling.spec import PoolSpec, make_pool

# where the pool is kept if the model itself calls a function instead of holding a module
_ATTRIBUTE = "swapped_global_pool"


def swap_global_pool(model: nn.Module, spec: str | PoolSpec) -> nn.Module:
    """Put the pool that `spec` names in the place of the model's global spatial pool, and return the model.

    Works on classification networks of torchvision and timm, and on others built alike: the pool is found by running the model
    once without data (shapes alone), so it may be a module anywhere or a function called inside `forward`. What comes after it
    sees the shapes that it saw before. timm's `reset_classifier(n)` keeps the new pool. Train or load as usual: the pool's
    parameters are in `model.parameters()` and in the `state_dict`.

    Raises:
        ValueError: the model has no global spatial pool (a ViT pools tokens or none; VGG and AlexNet pool to a grid), or it lies
            where nothing can be put in its place. The model is then left as it was.

    Example:
        >>> model = swap_global_pool(torchvision.models.resnet50(), "lae(t0=4, train=one)")
    """
    spec = PoolSpec.parse(spec)
    _remove_hooked(model)
    site = locate_global_pool(model)
    pool = make_pool(spec, site.channels, flatten=site.flatten)
    parameter = next(model.parameters(), None)
    if parameter is not None:
        pool.to(parameter.device)
    pool.train(model.training)
    if site.module is not None:
        previous = model.get_submodule(site.module)
        replacement: nn.Module = _ChannelsLast(pool) if site.channels_last else pool
        if hasattr(previous, "pool_type"):  # timm's heads compare it when they are reset
            replacement.pool_type = previous.pool_type
        model.set_submodule(site.module, replacement)
        if hasattr(model, "reset_classifier"):
            object.__setattr__(model, "reset_classifier", _ResetClassifier(model, site.module))
    elif site.producer is not None:
        setattr(model, _ATTRIBUTE, pool)
        model.get_submodule(site.producer).register_forward_hook(_PoolAfter(pool, site))
    return model


class _ChannelsLast(nn.Module):
    """A pool for (batch, height, width, channels)."""

    def __init__(self, pool: GlobalPool) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, z: Tensor) -> Tensor:
        return _pool_channels_last(self.pool, z)

    def feat_mult(self) -> int:
        return self.pool.feat_mult()

    def is_identity(self) -> bool:
        return False


class _PoolAfter:
    """A forward hook that pools what a module gives. The mean that follows then has one position and changes nothing."""

    def __init__(self, pool: GlobalPool, site: PoolSite) -> None:
        self.pool, self.rectify, self.channels_last = pool, site.rectify, site.channels_last

    def __call__(self, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        z = output.relu() if self.rectify else output
        return _pool_channels_last(self.pool, z) if self.channels_last else self.pool(z)


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


def _pool_channels_last(pool: GlobalPool, z: Tensor) -> Tensor:
    pooled = pool(z.movedim(-1, 1))
    return pooled if pool.flatten else pooled.movedim(1, -1)


def _remove_hooked(model: nn.Module) -> None:
    """Undo an earlier swap by hook, so that the model pools by its own function again."""
    if hasattr(model, _ATTRIBUTE):
        delattr(model, _ATTRIBUTE)
        for module in model.modules():
            for key in [key for key, hook in module._forward_hooks.items() if isinstance(hook, _PoolAfter)]:
                del module._forward_hooks[key]
