"""Try a swap on a copy of the model, with data: the same pool in the new place must change nothing, another one something,
and with a pool that always gives the same vector the output must no longer depend on the picture."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from lae_core.pooling.modules import AvgPool, GlobalPool, MaxPool
from lae_core.pooling.pool_site import PoolSite, install, remove_hooked

_BATCH = 3
_MODES = ("eval", "train")
_WITHOUT = "check=False swaps without this check"


class _Trial(GlobalPool):
    """The pool that the model has now; once `spoilt`, with each channel scaled and shifted at random, or, once `blind`,
    with one vector for all pictures."""

    def __init__(self, pool: GlobalPool, site: PoolSite) -> None:
        super().__init__(site.flatten, input_fmt=site.input_fmt)
        self.now, self.spoilt, self.blind = pool, False, False

    def pool(self, z: Tensor, mask: Tensor | None) -> Tensor:
        pooled: Tensor = self.now(z)
        if self.blind:
            return pooled.mean(0, keepdim=True).expand_as(pooled).clone()  # cloned: ReLUs write into it
        if not self.spoilt:
            return pooled
        factor, shift = torch.rand(2, *pooled[:1].shape, dtype=z.dtype, device=z.device)
        spoilt: Tensor = pooled * (0.5 + factor) + z.std(2) * shift
        return spoilt


def check_swap(model: nn.Module, site: PoolSite, sizes: Iterable[tuple[int, int, int]]) -> None:
    """Raise a ValueError unless the swap at `site` would do what it should; `sizes` are images to try it with."""
    kind = type(model).__name__
    copied, before = _run_as_it_is(model, sizes)
    if not any(isinstance(leaf, Tensor) and leaf.is_floating_point() for leaf in before["eval"]):
        raise ValueError(
            f"{kind} returns no floating-point tensors, also not in a tuple, list or dict: not checked; {_WITHOUT}"
        )
    trial = _Trial(_present_pool(copied.model, site), site)
    install(copied.model, site, trial)
    place = f"with its own pool ({site.pools}) put in place of the {site.shown}"
    effect = False
    for mode, outputs in before.items():
        try:
            trial.spoilt = False
            after = copied.run(mode)
            trial.spoilt = True
            spoilt = copied.run(mode)
        except Exception as error:
            raise ValueError(f"{kind} fails in {mode} mode {place}: {_short(error)}") from error
        difference = _difference(outputs, after)
        if difference and not _repeats_itself(_Copy(model, copied.size), mode):
            raise ValueError(f"{kind} gives another output each time in {mode} mode: not checked; {_WITHOUT}")
        if difference:
            raise ValueError(f"{kind} computes something else in {mode} mode {place}: {difference}")
        effect = effect or bool(_difference(outputs, spoilt))
    if not effect:
        raise ValueError(f"{kind} gives the same output whatever is put in place of the {site.shown}")
    trial.spoilt, trial.blind = False, True
    if _differ_by_picture(before["eval"], copied.run("eval")):
        raise ValueError(
            f"{kind}: its output depends on the picture also by another way than the {site.shown}, such as a second "
            "pool or head: expected one global pool; check=False swaps this one alone"
        )


def _differ_by_picture(before: list[Any], blind: list[Any]) -> bool:
    """Whether some output differs between the pictures of the batch though the pool gives one vector for all of them.

    Features that a model returns beside its scores may: they have positions, and the pool does not change them.
    """
    scores = [
        new
        for old, new in zip(before, blind, strict=True)
        if isinstance(new, Tensor) and new.shape[:1] == (_BATCH,) and (new.dim() <= 2 or _difference([old], [new]))
    ]
    return bool(_difference(scores, [leaf[:1].expand_as(leaf) for leaf in scores]))


class _Copy:
    """A copy of a model that runs on one random batch; each run starts from the same state and random numbers."""

    def __init__(self, model: nn.Module, size: tuple[int, int, int]) -> None:
        try:
            self.model = copy.deepcopy(model)
            remove_hooked(self.model)
        except Exception as error:
            reason = f"cannot be copied to try the swap ({_short(error)}); {_WITHOUT}"
            raise ValueError(f"{type(model).__name__} {reason}") from error
        self.size = size
        parameter = next(model.parameters(), torch.empty(0))
        if parameter.is_meta:
            raise ValueError(f"{type(model).__name__} has no values (device meta), nothing to try; {_WITHOUT}")
        self._devices = [parameter.device] if parameter.is_cuda else []
        with torch.random.fork_rng(self._devices), torch.no_grad():
            torch.manual_seed(0)
            # on the CPU, so that every device gets the same picture
            self._images = torch.randn(_BATCH, *size).to(parameter.device, parameter.dtype)
            for weight in self.model.parameters():
                if weight.dim() > 1 and not weight.any():  # a classifier that starts at zero shows no effect
                    weight.normal_(std=0.1)
        buffers = {id(m): dict(m.named_buffers(recurse=False)) for m in self.model.modules()}
        self._state = {m: {n: b.clone() for n, b in values.items()} for m, values in buffers.items()}

    def run(self, mode: str) -> list[Any]:
        for module in self.model.modules():
            module._buffers.update({n: b.clone() for n, b in self._state.get(id(module), {}).items()})
        self.model.train(mode == "train")
        with torch.random.fork_rng(self._devices), torch.no_grad():
            torch.manual_seed(1)
            return tree_leaves(self.model(self._images.clone()))


def _run_as_it_is(model: nn.Module, sizes: Iterable[tuple[int, int, int]]) -> tuple[_Copy, dict[str, list[Any]]]:
    """A copy, and what it gives in each mode, with images of the first size that it takes in both modes."""
    failure = ""
    for size in sizes:
        copied = _Copy(model, size)
        try:
            return copied, {mode: copied.run(mode) for mode in _MODES}
        except Exception as error:
            failure = _short(error)
    raise ValueError(f"{type(model).__name__} cannot be run to try the swap ({failure}); {_WITHOUT}")


def _repeats_itself(copied: _Copy, mode: str) -> bool:
    return not _difference(copied.run(mode), copied.run(mode))


def _present_pool(model: nn.Module, site: PoolSite) -> GlobalPool:
    if site.pools == "ours" and site.module is not None:
        present = copy.deepcopy(model.get_submodule(site.module))
        assert isinstance(present, GlobalPool)  # as `locate_global_pool` says
        present.flatten, present.input_fmt = True, "NCHW"
        return present
    return MaxPool() if site.pools == "max" else AvgPool()


def _difference(before: list[Any], after: list[Any]) -> str:
    """In what two outputs differ by more than rounding, or nothing."""
    if len(before) != len(after):
        return f"{len(before)} outputs become {len(after)}"
    for old, new in zip(before, after, strict=True):
        if not isinstance(old, Tensor) or not isinstance(new, Tensor):
            continue
        if old.shape != new.shape:
            return f"an output of shape {tuple(old.shape)} becomes {tuple(new.shape)}"
        if not old.is_floating_point():
            continue
        tolerance = math.sqrt(torch.finfo(old.dtype).eps)
        scale = old.abs().nan_to_num(0.0, 0.0, 0.0).max().item() if old.numel() else 0.0
        if not torch.allclose(old, new, rtol=0, atol=tolerance * scale, equal_nan=True):
            off = (new - old).abs().nan_to_num(math.inf).max().item()
            return f"an output of at most {scale:.3g} is off by {off:.3g}"
    return ""


def _short(error: Exception) -> str:
    said = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {said:.200}"
