"""The pools as modules: global, for `(batch, channels, *positions)` of any size.

Each gives (batch, channels), or (batch, channels, 1, ...) with `flatten=False`. `dtype` sets the precision of the pooling step
alone: the input is cast to it, pooled, and the result cast back.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from lae_core.pooling.functional import logavgexp


class GlobalPool(nn.Module):
    """What all pools share: which dimensions are pooled, in which dtype, and the shape of the result."""

    def __init__(self, flatten: bool = True, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.flatten = flatten
        self.dtype = dtype

    def pool(self, z: Tensor) -> Tensor:
        """(batch, channels, positions) to (batch, channels)."""
        raise TypeError(f"{type(self).__name__} does not say how it pools")

    def forward(self, z: Tensor) -> Tensor:
        if z.dim() < 3:
            raise ValueError(f"the input has shape {tuple(z.shape)}; a global pool takes (batch, channels, *positions)")
        rows = z.flatten(2)
        pooled = self.pool(rows if self.dtype is None else rows.to(self.dtype)).to(z.dtype)
        return pooled if self.flatten else pooled.reshape(*z.shape[:2], *(1,) * (z.dim() - 2))

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
        parts = [self.describe(), "" if self.flatten else "flatten=False", f"dtype={self.dtype}" if self.dtype else ""]
        return ", ".join(part for part in parts if part)


class AvgPool(GlobalPool):
    """The mean over positions."""

    def pool(self, z: Tensor) -> Tensor:
        return z.mean(2)


class ScaledAvgPool(GlobalPool):
    """The mean over positions times a trained scale: one, or one per channel. The module holds its logarithm.

    A control for experiments: a pool whose outputs grow trains the layers around it faster, whatever it pools.
    """

    def __init__(self, channels: int | None = None, flatten: bool = True, dtype: torch.dtype | None = None) -> None:
        super().__init__(flatten, dtype)
        self.log_scale = nn.Parameter(torch.zeros(() if channels is None else (channels,)))

    def pool(self, z: Tensor) -> Tensor:
        return z.mean(2) * self.log_scale.exp().to(z.dtype)

    def describe(self) -> str:
        scale = self.log_scale.detach().exp()
        return f"scale={scale:.4g}" if scale.dim() == 0 else f"scale={scale.min():.4g}..{scale.max():.4g}"


class MaxPool(GlobalPool):
    """The maximum over positions."""

    def pool(self, z: Tensor) -> Tensor:
        return z.amax(2)


class LSEPool(GlobalPool):
    """LogSumExp over positions: LAE at t = 1, plus log n."""

    def pool(self, z: Tensor) -> Tensor:
        return logavgexp(z, 1.0, dim=2) + math.log(z.shape[2])


class LAEPool(GlobalPool):
    """LAE over positions, with a temperature that is fixed, trained as one number, or trained for each channel.

    The module holds log t, so that no step of an optimiser can make the temperature negative; a fixed one is a buffer.
    `textbook` computes t (logsumexp(z / t) - log n) as the paper writes it, which loses precision at high t: for comparison.
    """

    def __init__(
        self,
        t0: float = 1.0,
        channels: int | None = None,
        trainable: bool = False,
        textbook: bool = False,
        flatten: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(flatten, dtype)
        self.textbook = textbook
        log_t = torch.full((), math.log(t0)) if channels is None else torch.full((channels,), math.log(t0))
        if trainable:
            self.log_t = nn.Parameter(log_t)
        else:
            self.register_buffer("log_t", log_t)

    @property
    def temperature(self) -> Tensor:
        return _exp(self.log_t)

    def pool(self, z: Tensor) -> Tensor:
        return _lae(z, self.temperature, self.textbook)

    def describe(self) -> str:
        t = self.temperature.detach()
        least, most = f"{t.min():.4g}", f"{t.max():.4g}"
        shown = f"t={least}" if least == most else f"t={least}..{most}"
        shown += f" ({len(t)} channels)" if t.dim() else ""
        trained = "trained" if isinstance(self.log_t, nn.Parameter) else "fixed"
        return f"{shown}, {trained}" + (", textbook form" if self.textbook else "")


class ContextLAEPool(GlobalPool):
    """LAE whose temperature is read off the input: log t = w · (mean, max, sd of the channel) + b, for each sample and channel.

    One w and b for all channels, or one for each. They start at w = 0, b = log t0.
    """

    def __init__(
        self,
        t0: float = 1.0,
        channels: int | None = None,
        textbook: bool = False,
        flatten: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(flatten, dtype)
        self.textbook = textbook
        shape = () if channels is None else (channels,)
        self.weight = nn.Parameter(torch.zeros(3, *shape))
        self.log_t = nn.Parameter(torch.full(shape, math.log(t0)))

    def temperatures(self, z: Tensor) -> Tensor:
        """(batch, channels): the temperature of each sample and channel of z, (batch, channels, positions)."""
        return _exp(_linear(_statistics(z), self.weight, self.log_t))

    @property
    def temperature(self) -> Tensor:
        """The temperature of an input whose statistics are all zero."""
        return _exp(self.log_t)

    def pool(self, z: Tensor) -> Tensor:
        return _lae(z, self.temperatures(z), self.textbook)

    def describe(self) -> str:
        b = self.temperature.detach()
        return (
            f"t from context, at rest {b.min():.4g}..{b.max():.4g}" if b.dim() else f"t from context, at rest {b:.4g}"
        )


class MixedPool(GlobalPool):
    """alpha max + (1 - alpha) mean, with a trained alpha: one, or one for each channel.

    alpha may leave [0, 1]. With `bounded` the module holds its logit, so that it cannot.
    """

    def __init__(
        self,
        a0: float = 0.5,
        channels: int | None = None,
        bounded: bool = False,
        flatten: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(flatten, dtype)
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

    def pool(self, z: Tensor) -> Tensor:
        return torch.lerp(z.mean(2), z.amax(2), self.mixing.to(z.dtype))

    def describe(self) -> str:
        a = self.mixing.detach()
        return f"alpha={a:.4g}" if a.dim() == 0 else f"alpha={a.min():.4g}..{a.max():.4g} ({len(a)} channels)"


class GatedPool(GlobalPool):
    """Max and mean mixed by a gate that reads the input: alpha = sigmoid(w · (mean, max, sd of the channel) + b).

    One w and b for all channels, or one for each. They start at 0, so at alpha = 1/2.
    """

    def __init__(self, channels: int | None = None, flatten: bool = True, dtype: torch.dtype | None = None) -> None:
        super().__init__(flatten, dtype)
        shape = () if channels is None else (channels,)
        self.weight = nn.Parameter(torch.zeros(3, *shape))
        self.bias = nn.Parameter(torch.zeros(shape))

    def pool(self, z: Tensor) -> Tensor:
        statistics = _statistics(z)
        gate = torch.sigmoid(_linear(statistics, self.weight, self.bias)).to(z.dtype)
        return torch.lerp(statistics[0], statistics[1], gate)


class GeMPool(GlobalPool):
    """Generalised mean, (mean z^p)^(1/p) of z clamped at 1e-6; an outside reference. Holds log p."""

    def __init__(
        self, p0: float = 3.0, trainable: bool = True, flatten: bool = True, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__(flatten, dtype)
        log_p = torch.full((), math.log(p0))
        if trainable:
            self.log_p = nn.Parameter(log_p)
        else:
            self.register_buffer("log_p", log_p)

    def pool(self, z: Tensor) -> Tensor:
        # z^p = exp(p log z), so the p-mean of z is the exponential of LAE(log z; 1/p): no power can overflow
        p = self.log_p.exp().to(z.dtype)
        return logavgexp(z.clamp(min=1e-6).log(), 1 / p, dim=2).exp()

    def describe(self) -> str:
        return f"p={self.log_p.detach().exp():.4g}"


def _exp(x: Tensor) -> Tensor:
    """exp(x), of a half type in float32, where it does not overflow."""
    return x.to(torch.promote_types(x.dtype, torch.float32)).exp()


def _lae(z: Tensor, t: Tensor, textbook: bool) -> Tensor:
    """LAE over dim 2 of (batch, channels, positions) with t of shape (), (channels,) or (batch, channels)."""
    if not textbook:
        return logavgexp(z, t, dim=2)
    t = t.to(z.dtype)
    return t * (torch.logsumexp(z / t.unsqueeze(-1), 2) - math.log(z.shape[2]))


def _statistics(z: Tensor) -> Tensor:
    """(3, batch, channels): mean, maximum and standard deviation over positions."""
    # sqrt has an infinite slope at 0, so a constant channel would get nan gradients without the floor
    spread = z.var(2, unbiased=False).clamp(min=1e-12).sqrt()
    return torch.stack([z.mean(2), z.amax(2), spread])


def _linear(statistics: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """w · s + b for each sample and channel, with (3,) or (3, channels) weights."""
    return (statistics * weight.reshape(3, 1, -1)).sum(0) + bias
