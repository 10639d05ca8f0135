"""A GPU that is not there: tensors on `cuda` are fake, those on the CPU are real, so that a run's own code can be followed.

FakeTensor knows shapes, dtypes and devices, and refuses to mix devices; nothing is computed on it. There are no gradients:
`FakeFabric.backward` puts fake ones in their place, so that the optimiser steps too.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CUDA = torch.device("cuda", 0)
aten = torch.ops.aten
# Operations whose result has a length that depends on values: the CPU waits for the GPU to know it.
LENGTH_FROM_VALUES = ("nonzero", "bincount", "masked_select", "unique", "_unique2", "repeat_interleave")


def _on_gpu(value: Any) -> bool:
    return isinstance(value, FakeTensor) and value.device.type == "cuda"


class FakeGPU(TorchDispatchMode):
    """Sends what touches the GPU to FakeTensorMode, the rest to the CPU, and notes where the CPU waits for the GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        wanted = torch.device(kwargs["device"]).type if kwargs.get("device") is not None else None
        if not (wanted == "cuda" or any(isinstance(leaf, FakeTensor) for leaf in leaves)):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if func is aten._local_scalar_dense.default:
            self._note(".item() or .tolist()")
            return 1.0 if args[0].is_floating_point() else 1
        if func is aten._to_copy.default and wanted is not None and wanted != args[0].device.type:
            if not kwargs.get("non_blocking"):
                self._note(f"blocking copy to {wanted}")
            if wanted == "cpu":
                with unset_fake_temporarily():
                    return torch.ones(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype)
        if (
            name == "copy_"
            and _on_gpu(args[0]) != _on_gpu(args[1])
            and args[1].ndim
            and not (len(args) > 2 and args[2])
        ):
            self._note("blocking copy_")
        if name in LENGTH_FROM_VALUES and any(map(_on_gpu, leaves)):
            self._note(name)
        if name in ("index", "index_put", "index_put_", "_index_put_impl_") and _on_gpu(args[0]):
            for index in filter(lambda i: isinstance(i, Tensor), args[1]):
                if not _on_gpu(index):
                    self._note("an index from the CPU, copied while all wait")
                elif index.dtype in (torch.bool, torch.uint8):
                    self._note("a mask as an index")
        return func(*args, **kwargs)

    def _note(self, what: str) -> None:
        ours = [
            frame for frame in traceback.extract_stack() if "/lae_core/" in frame.filename or "optim" in frame.filename
        ]
        self.waits.append(f"{what} at {ours[-1].filename}:{ours[-1].lineno}" if ours else what)


@contextmanager
def fake_gpu() -> Iterator[FakeGPU]:
    with FakeTensorMode(allow_non_fake_inputs=True), FakeGPU() as gpu:
        yield gpu


class FakeFabric:
    """What a `Session` asks of Fabric, for one process on the fake GPU."""

    device, global_rank, world_size, is_global_zero = CUDA, 0, 1, True

    def setup_module(self, module: nn.Module) -> nn.Module:
        self.model = module.to(self.device)
        return self.model

    def setup_optimizers(self, optimiser: Any) -> Any:
        return optimiser

    def backward(self, loss: Tensor) -> None:
        assert loss.device.type == "cuda" and loss.ndim == 0
        for parameter in self.model.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)

    def clip_gradients(self, model: nn.Module, optimiser: Any, **_: Any) -> Tensor:
        return torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])

    def all_reduce(self, totals: Tensor, **_: Any) -> Tensor:
        assert totals.device.type == "cuda"
        return totals
