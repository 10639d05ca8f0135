"""Find a model's global spatial pool by running it on shapes alone."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from lae_core.pooling.modules import GlobalPool

_SIZES = (64, 128, 224, 256, 299)
_RECTIFIERS = ("relu", "relu_")


@dataclass(frozen=True)
class PoolSite:
    """Where a global pool is: a module of its own, or a function called on what the module `producer` gave."""

    module: str | None
    producer: str | None
    rectify: bool  # whether a ReLU stands between the producer and the pool
    channels: int
    channels_last: bool  # (batch, height, width, channels)
    flatten: bool


def locate_global_pool(model: nn.Module) -> PoolSite:
    """The site of the last pool over all positions after which nothing spatial happens, or a ValueError that says why not."""
    failure: Exception | None = None
    for size in _input_sizes(model):
        # a copy without data: what a forward pass leaves behind in the model (cached biases, say) stays out of the original
        with FakeTensorMode(allow_non_fake_inputs=True) as fake, FakeCopyMode(fake):
            twin = copy.deepcopy(model).eval()
        watch = _Watch(twin)
        try:
            with fake:
                watch.run(torch.Size((2, *size)))
        except Exception as error:  # this input size does not suit the model: try the next
            failure = error
            continue
        return watch.site()
    raise ValueError(
        f"{type(model).__name__} could not be run on images of any size in {_SIZES}: {failure}"
    ) from failure


def _input_sizes(model: nn.Module) -> list[tuple[int, int, int]]:
    config = getattr(model, "pretrained_cfg", None) or {}
    named = [tuple(config["input_size"])] if config.get("input_size") else []
    channels = next((m.in_channels for m in model.modules() if isinstance(m, nn.Conv2d)), 3)
    return named + [(channels, size, size) for size in _SIZES]


class _Watch(TorchFunctionMode):
    """Runs the model once without data, and notes who pools what."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.names = {id(module): name for name, module in model.named_modules()}
        self.stack: list[nn.Module] = []
        self.produced: dict[int, str] = {}  # id of a tensor -> the module that gave it
        self.touched: dict[int, list[str]] = {}  # id of a tensor -> functions that changed it since
        self.alive: list[Tensor] = []  # ids are only good while their tensors live
        self.found: dict[str, Any] | None = None

    def run(self, shape: torch.Size) -> None:
        parameter = next(self.model.parameters())
        hooks = (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        )
        try:
            with torch.no_grad(), self:
                self.model(torch.empty(shape, dtype=parameter.dtype, device=parameter.device))
        finally:
            for hook in hooks:
                hook.remove()

    def _enter(self, module: nn.Module, inputs: tuple) -> None:
        self.stack.append(module)
        if self.found and any(
            isinstance(x, Tensor) and x.dim() == 4 and _positions(x, self.found["last"]) > 1 for x in inputs
        ):
            self.found = None  # something spatial follows, so this was not the end: a squeeze inside a block

    def _leave(self, module: nn.Module, inputs: tuple, output: Any) -> None:
        if isinstance(module, GlobalPool) and inputs[0].dim() == 4:
            self._note_pool(inputs[0], output)
        self.stack.pop()
        if isinstance(output, Tensor):
            self.produced[id(output)] = self.names.get(id(module), "")
            self.touched[id(output)] = []
            self.alive.append(output)
            if self.found and self.found["pool"] == self.names.get(id(module)):
                self.found["flatten"] = output.dim() == 2

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        before = args[0] if args and isinstance(args[0], Tensor) else None
        result = func(*args, **kwargs)
        if before is not None and isinstance(result, Tensor):
            name = getattr(func, "__name__", "")
            if before.dim() == 4 and result.numel() * 4 <= before.numel() and _is_pool(name):
                self._note_pool(before, result)
            elif id(before) in self.produced and self.stack and self.names.get(id(self.stack[-1])) is not None:
                if name in _RECTIFIERS or name == "dropout":
                    self.produced[id(result)] = self.produced[id(before)]
                    self.touched[id(result)] = [*self.touched[id(before)], name]
                    self.alive.append(result)
        return result

    def _note_pool(self, z: Tensor, pooled: Tensor) -> None:
        shape = tuple(size for size in pooled.shape[1:] if size != 1)
        if shape not in ((z.shape[1],), (z.shape[3],)):
            return
        channels_last = shape != (z.shape[1],)
        holders = [m for m in self.stack if self.names.get(id(m)) and _only_pools(m)]
        pool = self.names[id(holders[0])] if holders else None
        self.found = {
            "pool": pool,
            "producer": self.produced.get(id(z)),
            "touched": self.touched.get(id(z), []),
            "channels": shape[0],
            "last": channels_last,
            "flatten": pooled.dim() == 2,
        }

    def site(self) -> PoolSite:
        kind = type(self.model).__name__
        found = self.found
        if found is None:
            raise ValueError(
                f"{kind} has no global spatial pool to swap: it ends without a mean or maximum over all positions "
                "(a ViT pools tokens or none; VGG and AlexNet pool to a grid)"
            )
        if found["pool"] is None and not found["producer"]:
            raise ValueError(
                f"{kind} pools inside its forward, over something that no module gives: nothing can be put there"
            )
        rectify = any(name in _RECTIFIERS for name in found["touched"])
        flatten = found["flatten"] if found["pool"] is not None else False
        producer = None if found["pool"] is not None else found["producer"]
        return PoolSite(found["pool"], producer, rectify, found["channels"], found["last"], flatten)


def _only_pools(module: nn.Module) -> bool:
    return isinstance(module, GlobalPool) or not any(True for _ in module.parameters())


def _is_pool(name: str) -> bool:
    return name in ("mean", "amax", "max", "sum") or name.startswith(
        ("adaptive_avg_pool", "adaptive_max_pool", "avg_pool2d")
    )


def _positions(x: Tensor, channels_last: bool) -> int:
    return x.shape[1] * x.shape[2] if channels_last else x.shape[2] * x.shape[3]
