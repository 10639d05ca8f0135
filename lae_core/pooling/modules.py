"""The pools as modules: global, for `(batch, channels, *positions)` of any size, or with `input_fmt` for tokens.

Each gives (batch, channels), or (batch, channels, 1, ...) with `flatten=False`. `dtype` sets the precision of the pooling step
alone: the input is cast to it, pooled, and the result cast back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lae_core.pooling import temperature
from lae_core.pooling.functional import check_input, logavgexp

_CHANNELS_FIRST, _CHANNELS_LAST = ("NCHW", "NCL", "NCDHW"), ("NLC", "NHWC", "NDHWC")


class GlobalPool(nn.Module):
    r"""What all pools share: which dimensions are pooled, in which dtype, and the shape of the result.

    `input_fmt`, named as in timm, says where the channels are: "NCHW" stands for (batch, channels, \*positions), "NLC" for tokens
    and "NHWC" for images, both (batch, \*positions, channels). The number of positions is free. `channels` is their number
    where each has parameters of its own.
    """

    def __init__(
        self,
        flatten: bool = True,
        dtype: torch.dtype | None = None,
        input_fmt: str = "NCHW",
        channels: int | None = None,
    ) -> None:
        super().__init__()
        if input_fmt not in _CHANNELS_FIRST + _CHANNELS_LAST:
            known = ", ".join(_CHANNELS_FIRST + _CHANNELS_LAST)
            raise ValueError(f"input_fmt = {input_fmt!r} is invalid; expected one of {known}")
        self.flatten = flatten
        self.dtype = dtype
        self.input_fmt = input_fmt
        self.channels = channels

    def pool(self, z: Tensor, mask: Tensor | None) -> Tensor:
        """(batch, channels, positions) to (batch, channels), with a mask that broadcasts to the former.

        Rows in which nothing counts may come out as anything finite or -inf, with finite derivatives.
        """
        raise TypeError(f"{type(self).__name__} does not say how it pools")

    def forward(self, z: Tensor, mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        r"""The pooled input. What `mask` or `lengths` exclude does not count; where there is nothing the result is -inf.

        Args:
            z: the input, in the format `input_fmt`.
            mask: boolean, (batch, \*positions), or of as many dimensions as z; sizes of 1 are broadcast.
            lengths: (batch,), for inputs with one dimension of positions: how many of them count, from the first on.
        """
        check_input(z)
        last = self.input_fmt in _CHANNELS_LAST
        if z.dim() < 3:
            shape = "(batch, *positions, channels)" if last else "(batch, channels, *positions)"
            raise ValueError(f"the input has shape {tuple(z.shape)}; a global pool takes {shape}")
        check_channels(self.channels, z.shape[-1 if last else 1])
        if lengths is not None:
            mask = _mask_of(lengths, mask, z.shape[0], z.shape[1:-1] if last else z.shape[2:], z.device)
        if mask is not None:
            mask = _rows(_check_mask(mask, z, last), last)
        rows = _rows(z, last)
        if rows.shape[2] == 0:
            pooled = rows.sum(2) - math.inf
        else:
            pooled = self.pool(rows if self.dtype is None else rows.to(self.dtype), mask).to(z.dtype)
        if mask is not None:
            pooled = pooled.masked_fill(~mask.any(2), -math.inf)
        if self.flatten:
            return pooled
        ones = (1,) * (z.dim() - 2)
        batch, channels = pooled.shape
        return pooled.reshape(batch, *ones, channels) if last else pooled.reshape(batch, channels, *ones)

    def feat_mult(self) -> int:
        """How many features the pool makes of one channel; timm's classifier heads ask for it."""
        return 1

    def is_identity(self) -> bool:
        """Whether positions pass through unpooled; timm's heads ask for it."""
        return False

    def describe(self) -> str:
        """The pool's own part of its printed form."""
        return ""

    def extra_repr(self) -> str:
        meta = any(x.is_meta for x in (*self.parameters(), *self.buffers()))
        parts = [
            "no values (device meta)" if meta else self.describe(),
            "" if self.flatten else "flatten=False",
            f"dtype={self.dtype}" if self.dtype else "",
        ]
        parts += [] if self.input_fmt == "NCHW" else [f"input_fmt={self.input_fmt}"]
        return ", ".join(part for part in parts if part)


class AvgPool(GlobalPool):
    """The mean over positions."""

    def pool(self, z: Tensor, mask: Tensor | None) -> Tensor:
        return _mean(z, mask)


class ScaledAvgPool(GlobalPool):
    """The mean over positions times a trained scale: one, or one per channel. The module holds its logarithm.

    A control for experiments: a pool whose outputs grow trains the layers around it faster, whatever it pools.
    """

    def __init__(self, channels: int | None = None, **shared: Any) -> None:
        super().__init__(channels=channels, **shared)
        self.log_scale = nn.Parameter(torch.zeros(() if channels is None else (channels,)))

    def pool(self, z: Tensor, mask: Tensor | None) -> Tensor:
        return _mean(z, mask) * self.log_scale.exp().to(z.dtype)

    def describe(self) -> str:
        scale = self.log_scale.detach().exp()
        return f"scale={scale:.4g}" if scale.dim() == 0 else f"scale={scale.min():.4g}..{scale.max():.4g}"


class MaxPool(GlobalPool):
    """The maximum over positions."""

    def pool(self, z: Tensor, mask: Tensor | None) -> Tensor:
        return _max(z, mask)


class LSEPool(GlobalPool):
    """LogSumExp over positions: LAE at t = 1, plus log n."""

    def pool(self, z: Tensor, mask: Tensor | None) -> Tensor:
        n = math.log(z.shape[2]) if mask is None else _count(mask).log()
        return logavgexp(z, 1.0, 2, mask) + n


class LAEPool(GlobalPool):
    """LAE over positions, with a temperature that is fixed, trained as one number, or trained for each channel.

    The module holds log t, so that no step of an optimiser can make the temperature negative; a fixed one is a buffer.
    With a floor `t_min` it holds log(t - t_min), so that no step can take t below that. The floor is an argument, as a stride
    is, and not in the `state_dict`: a pool that loads one needs the same `t_min`.
    `textbook` computes t (logsumexp(z / t) - log n) as the paper writes it, which loses precision at high t: for comparison.
    """

    log_t: Tensor

    def __init__(
        self,
        t0: float = 1.0,
        channels: int | None = None,
        trainable: bool = False,
        textbook: bool = False,
        t_min: float = 0.0,
        **shared: Any,
    ) -> None:
        super().__init__(channels=channels, **shared)
        self.textbook = textbook
        self.t_min = t_min
        temperature.hold(self, temperature.start(t0, channels, t_min), trainable)

    @property
    def temperature(self) -> Tensor:
        return temperature.from_log(self.log_t, self.t_min)

    def pool(self, z: Tensor, mask: Tensor | None) -> Tensor:
        return _lae(z, self.temperature, self.textbook, mask)

    def describe(self) -> str:
        trained = "trained" if isinstance(self.log_t, nn.Parameter) else "fixed"
        floor = f", t_min={self.t_min:.4g}" if self.t_min else ""
        return f"{temperature.describe(self.temperature)}, {trained}{floor}" + (
            ", textbook form" if self.textbook else ""
        )


class ContextLAEPool(GlobalPool):
    """LAE whose temperature is read off the input: log t = w · (mean, max, sd of the channel) + b, for each sample and channel.

    One w and b for all channels, or one for each. They start at w = 0, b = log t0.
    """

    def __init__(
        self,
        t0: float = 1.0,
        channels: int | None = None,
        textbook: bool = False,
        t_min: float = 0.0,
        **shared: Any,
    ) -> None:
        super().__init__(channels=channels, **shared)
        self.textbook = textbook
        self.t_min = t_min
        self.log_t = nn.Parameter(temperature.start(t0, channels, t_min))
        self.weight = nn.Parameter(torch.zeros(3, *self.log_t.shape))

    def temperatures(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        """(batch, channels): the temperature of each sample and channel of z, (batch, channels, positions)."""
        return temperature.from_log(_linear(_statistics(z, mask), self.weight, self.log_t), self.t_min)

    @property
    def temperature(self) -> Tensor:
        """The temperature of an input whose statistics are all zero."""
        return temperature.from_log(self.log_t, self.t_min)

    def pool(self, z: Tensor, mask: Tensor | None) -> Tensor:
        return _lae(z, self.temperatures(z, mask), self.textbook, mask)

    def describe(self) -> str:
        floor = f", t_min={self.t_min:.4g}" if self.t_min else ""
        return f"t from context, at rest {temperature.describe(self.temperature)}{floor}"


class MixedPool(GlobalPool):
    """alpha max + (1 - alpha) mean, with a trained alpha: one, or one for each channel.

    alpha may leave [0, 1]. With `bounded` the module holds its logit, so that it cannot.
    """

    def __init__(
        self,
        a0: float = 0.5,
        channels: int | None = None,
        bounded: bool = False,
        **shared: Any,
    ) -> None:
        super().__init__(channels=channels, **shared)
        if bounded and not 0 < a0 < 1:
            raise ValueError(f"a0 = {a0} is invalid; expected a number between 0 and 1 where alpha is bounded")
        start = torch.full((() if channels is None else (channels,)), float(a0))
        if bounded:
            self.logit_alpha = nn.Parameter(start.logit())
        else:
            self.alpha = nn.Parameter(start)

    @property
    def mixing(self) -> Tensor:
        """alpha, the weight of the maximum."""
        return self.logit_alpha.sigmoid() if hasattr(self, "logit_alpha") else self.alpha

    def pool(self, z: Tensor, mask: Tensor | None) -> Tensor:
        return torch.lerp(_mean(z, mask), _max(z, mask), self.mixing.to(z.dtype))

    def describe(self) -> str:
        a = self.mixing.detach()
        return f"alpha={a:.4g}" if a.dim() == 0 else f"alpha={a.min():.4g}..{a.max():.4g} ({len(a)} channels)"


class GatedPool(GlobalPool):
    """Max and mean mixed by a gate that reads the input: alpha = sigmoid(w · (mean, max, sd of the channel) + b).

    One w and b for all channels, or one for each. They start at 0, so at alpha = 1/2.
    """

    def __init__(self, channels: int | None = None, **shared: Any) -> None:
        super().__init__(channels=channels, **shared)
        shape = () if channels is None else (channels,)
        self.weight = nn.Parameter(torch.zeros(3, *shape))
        self.bias = nn.Parameter(torch.zeros(shape))

    def pool(self, z: Tensor, mask: Tensor | None) -> Tensor:
        statistics = _statistics(z, mask)
        gate = torch.sigmoid(_linear(statistics, self.weight, self.bias)).to(z.dtype)
        return torch.lerp(statistics[0], statistics[1], gate)


class GeMPool(GlobalPool):
    """Generalised mean, (mean z^p)^(1/p) of z clamped at 1e-6; an outside reference. Holds log p."""

    def __init__(self, p0: float = 3.0, trainable: bool = True, **shared: Any) -> None:
        super().__init__(**shared)
        log_p = torch.full((), math.log(p0))
        if trainable:
            self.log_p = nn.Parameter(log_p)
        else:
            self.register_buffer("log_p", log_p)

    def pool(self, z: Tensor, mask: Tensor | None) -> Tensor:
        # z^p = exp(p log z), so the p-mean of z is the exponential of LAE(log z; 1/p): no power can overflow
        p = self.log_p.exp().to(z.dtype)
        return logavgexp(z.clamp(min=1e-6).log(), 1 / p, 2, mask).exp()

    def describe(self) -> str:
        return f"p={self.log_p.detach().exp():.4g}"


def check_channels(expected: int | None, channels: int) -> None:
    if expected is not None and channels != expected:
        raise ValueError(
            f"the input has {channels} channels; expected {expected}, as many as the pool has parameters for"
        )


def _rows(x: Tensor, last: bool) -> Tensor:
    """(batch, channels, positions) of an input or a mask with its channels in the second or the last dimension."""
    return (x.movedim(-1, 1) if last else x).flatten(2)


def _mask_of(
    lengths: Tensor, mask: Tensor | None, batch: int, positions: Sequence[int], device: torch.device
) -> Tensor:
    """(batch, positions): True up to the length of each sample."""
    if mask is not None:
        raise ValueError("mask and lengths are both given; expected one of them")
    if len(positions) != 1:
        raise ValueError(f"lengths is given for {len(positions)} dimensions of positions; expected one, or a mask")
    if not isinstance(lengths, Tensor) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        kind = lengths.dtype if isinstance(lengths, Tensor) else type(lengths).__name__
        raise TypeError(f"lengths is {kind}; expected a tensor of integers")
    if lengths.shape != (batch,):
        raise ValueError(f"lengths has shape {tuple(lengths.shape)}; expected one number per sample, ({batch},)")
    readable = lengths.device.type == "cpu" and not torch.compiler.is_compiling()
    if readable and bool(((lengths < 0) | (lengths > positions[0])).any()):
        raise ValueError(f"lengths = {lengths.tolist()!s:.80} is invalid; expected numbers from 0 to {positions[0]}")
    return torch.arange(positions[0], device=device) < lengths.to(device)[:, None]


def _check_mask(mask: Tensor, z: Tensor, last: bool) -> Tensor:
    """The mask with the size of z in each dimension of positions, and z's number of dimensions."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask is {kind}; expected a boolean tensor, True where a position counts")
    given = mask.shape
    if mask.dim() == z.dim() - 1:
        mask = mask.unsqueeze(-1 if last else 1)
    fits = mask.dim() == z.dim() and all(m in (1, size) for m, size in zip(mask.shape, z.shape, strict=True))
    if not fits:
        without = tuple(z.shape[:-1]) if last else (z.shape[0], *z.shape[2:])
        raise ValueError(f"mask has shape {tuple(given)}; expected {without} or {tuple(z.shape)}")
    positions = z.shape[1:-1] if last else z.shape[2:]
    return mask.expand(mask.shape[0], *((*positions, -1) if last else (-1, *positions)))


def _count(mask: Tensor) -> Tensor:
    """How many positions count in each row, at least 1."""
    return mask.sum(2).clamp(min=1)


def _mean(z: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return z.mean(2)
    return (z.masked_fill(~mask, 0.0).sum(2, dtype=_wide(z.dtype)) / _count(mask)).to(z.dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums: in float16 they would overflow where their mean does not."""
    return torch.promote_types(dtype, torch.float32)


def _max(z: Tensor, mask: Tensor | None) -> Tensor:
    return z.amax(2) if mask is None else _only(z, mask).amax(2)


def _only(z: Tensor, mask: Tensor) -> Tensor:
    """z with -inf where the mask is False; with zeros alone where it is False throughout."""
    return z.masked_fill(~mask, -math.inf).masked_fill(~mask.any(2, keepdim=True), 0.0)


def _lae(z: Tensor, t: Tensor, textbook: bool, mask: Tensor | None) -> Tensor:
    """LAE over dim 2 of (batch, channels, positions) with t of shape (), (channels,) or (batch, channels)."""
    if not textbook:
        return logavgexp(z, t, 2, mask)
    t = t.to(z.dtype)
    n: float | Tensor = math.log(z.shape[2])
    if mask is not None:
        z, n = _only(z, mask), _count(mask).log()
    return t * (torch.logsumexp(z / t.unsqueeze(-1), 2) - n)


def _statistics(z: Tensor, mask: Tensor | None) -> Tensor:
    """(3, batch, channels): mean, maximum and standard deviation over positions."""
    mean = _mean(z, mask)
    if mask is None:
        variance = z.var(2, unbiased=False)
    else:
        deviations = z.masked_fill(~mask, 0.0) - mean.unsqueeze(2)
        variance = _mean(deviations.to(_wide(z.dtype)).square(), mask).to(z.dtype)
    # sqrt has an infinite slope at 0, so a constant channel would get nan gradients without the floor
    return torch.stack([mean, _max(z, mask), variance.clamp(min=1e-12).sqrt()])


def _linear(statistics: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """w · s + b for each sample and channel, with (3,) or (3, channels) weights."""
    return (statistics * weight.reshape(3, 1, -1)).sum(0) + bias
