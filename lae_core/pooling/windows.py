"""LogAvgExp over windows: modules that take the place of `nn.AvgPool2d` and `nn.MaxPool2d`, and of their 1D and 3D forms.

They have the arguments and output shapes of those. Positions in the padding never count, so that a window at the border is
pooled over what it holds of the input: as in maximum pooling, and in average pooling with `count_include_pad=False`.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lae_core.pooling import temperature
from lae_core.pooling.functional import check_input, logavgexp
from lae_core.pooling.modules import check_channels

_TRAIN = ("no", "one", "channel")
_SIZES = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}


class LogAvgExpPool(nn.Module):
    """What the three have in common."""

    positions: int
    log_t: Tensor

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        t0: float = 1.0,
        train: str = "no",
        channels: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = self._per_position("kernel_size", kernel_size, 1)
        self.stride = self.kernel_size if stride is None else self._per_position("stride", stride, 1)
        self.padding = self._per_position("padding", padding, 0)
        if any(2 * pad > kernel for pad, kernel in zip(self.padding, self.kernel_size, strict=True)):
            raise ValueError(
                f"padding = {padding!r} is invalid for kernel_size = {kernel_size!r}; expected at most half of it"
            )
        self.ceil_mode = bool(ceil_mode)
        if train not in _TRAIN:
            raise ValueError(f"train = {train!r} is invalid; expected one of {', '.join(_TRAIN)}")
        whole = isinstance(channels, numbers.Integral) and not isinstance(channels, bool) and channels >= 1
        if not whole and (train == "channel" or channels is not None):
            raise ValueError(
                f"channels = {channels!r} is invalid for train = {train!r}; expected a whole number of at least 1"
            )
        log_t = temperature.start(t0, channels if train == "channel" else None)
        temperature.hold(self, log_t, trainable=train != "no")

    def _per_position(self, name: str, value: int | Sequence[int], least: int) -> tuple[int, ...]:
        values = tuple(value) if isinstance(value, Sequence) else (value,) * self.positions
        good = all(isinstance(v, numbers.Integral) and not isinstance(v, bool) and v >= least for v in values)
        if len(values) != self.positions or not good:
            several = "" if self.positions == 1 else f", or {self.positions} of them"
            raise ValueError(f"{name} = {value!r} is invalid; expected a whole number of at least {least}{several}")
        return tuple(map(int, values))

    @property
    def temperature(self) -> Tensor:
        return temperature.from_log(self.log_t)

    def forward(self, z: Tensor) -> Tensor:
        check_input(z)
        if z.dim() not in (self.positions + 1, self.positions + 2):
            sizes = ", ".join(_SIZES[self.positions])
            raise ValueError(
                f"the input has shape {tuple(z.shape)}; expected (batch, channels, {sizes}) or (channels, {sizes})"
            )
        if not all(z.shape[-self.positions - 1 :]):
            raise ValueError(f"the input has shape {tuple(z.shape)}; expected at least one channel and one position")
        t = self.temperature
        check_channels(len(t) if t.dim() else None, z.shape[-self.positions - 1])
        t = t if t.dim() == 0 else t.reshape(-1, *(1,) * self.positions)
        return pool_windows(z, t, self.kernel_size, self.stride, self.padding, self.ceil_mode)

    def extra_repr(self) -> str:
        trained = "trained" if isinstance(self.log_t, nn.Parameter) else "fixed"
        window = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        ceil = ", ceil_mode=True" if self.ceil_mode else ""
        return f"{window}{ceil}, {temperature.describe(self.temperature)}, {trained}"


class LogAvgExpPool1d(LogAvgExpPool):
    """LogAvgExp over windows of (batch, channels, length) or (channels, length).

    Args:
        kernel_size: the size of a window.
        stride: the step from one window to the next; by default the size of a window.
        padding: how far windows reach beyond each end, at most half of their size. What lies there never counts.
        ceil_mode: keep a last window that reaches further.
        t0: the temperature, or the one that training starts from.
        train: "no" for a fixed temperature, "one" to learn it, "channel" to learn one per channel.
        channels: how many channels there are, for `train="channel"`.

    Example:
        >>> LogAvgExpPool1d(4, stride=2)(torch.randn(8, 64, 100)).shape
        torch.Size([8, 64, 49])
    """

    positions = 1


class LogAvgExpPool2d(LogAvgExpPool):
    """LogAvgExp over windows of (batch, channels, height, width) or (channels, height, width).

    The arguments are those of :class:`.LogAvgExpPool1d`, where a size may also be a pair.

    Example:
        >>> LogAvgExpPool2d(3, stride=2, padding=1, t0=0.2)(torch.randn(8, 64, 56, 56)).shape
        torch.Size([8, 64, 28, 28])
    """

    positions = 2


class LogAvgExpPool3d(LogAvgExpPool):
    """LogAvgExp over windows of (batch, channels, depth, height, width) or (channels, depth, height, width).

    The arguments are those of :class:`.LogAvgExpPool1d`, where a size may also be a triple.
    """

    positions = 3


def pool_windows(
    z: Tensor,
    t: Tensor,
    kernel_size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    ceil_mode: bool,
) -> Tensor:
    """LAE over windows of the last dimensions of z, with t that broadcasts against the result."""
    first = z.dim() - len(kernel_size)
    arguments = list(zip(z.shape[first:], kernel_size, stride, padding, strict=True))
    for place, (size, kernel, _, pad) in enumerate(arguments):
        if size + 2 * pad < kernel:
            raise ValueError(
                f"the input has size {size} in dimension {first + place}; "
                f"a window of {kernel} with padding {pad} expects at least {kernel - 2 * pad}"
            )
    if torch.compiler.is_exporting():
        return _padded(z, t, arguments, ceil_mode)

    def pool_from(part: Tensor, place: int, windows: list[tuple[int, int]]) -> Tensor:
        """Choose among the groups of each dimension in turn, from `place` on; pool, and put the results side by side."""
        if place == len(arguments):
            return _pool(part, t, windows)
        pooled = []
        for start, kernel, step, count in _groups(*arguments[place], ceil_mode):
            there = part.narrow(first + place, start, (count - 1) * step + kernel)
            pooled.append(pool_from(there, place + 1, [*windows, (kernel, step)]))
        return pooled[0] if len(pooled) == 1 else torch.cat(pooled, first + place)

    return pool_from(z, 0, [])


def _pool(z: Tensor, t: Tensor, windows: list[tuple[int, int]], mask: Tensor | None = None) -> Tensor:
    """LAE over windows that lie within the last dimensions of z, with a size and a step for each of these."""
    if mask is not None:
        mask = _unfold(mask[None].to(z.dtype), windows) > 0
    columns = _unfold(z, windows)
    places = min(len(windows), 2)
    return logavgexp(columns, t, tuple(range(columns.dim() - places - len(windows), columns.dim() - places)), mask)


def _unfold(z: Tensor, windows: list[tuple[int, int]]) -> Tensor:
    """The windows, with their offsets in front of their places: the operator is fastest along rows of places.

    (..., length) becomes (..., offsets, places); of two dimensions (..., offsets, offsets, places, places); of three
    dimensions (..., places, offsets, offsets, offsets, places, places).
    """
    kernels, steps = zip(*windows, strict=True)
    places = [(size - k) // step + 1 for size, k, step in zip(z.shape[-len(windows) :], kernels, steps, strict=True)]
    if len(windows) == 3:
        z = z.unfold(-3, kernels[0], steps[0]).movedim(-1, -3)
    leading = z.shape[: -min(len(windows), 2)]
    if len(windows) == 1:
        z, kernel, step = z.unsqueeze(-2), (1, *kernels), (1, *steps)
    else:
        kernel, step = kernels[-2:], steps[-2:]
    columns = nn.functional.unfold(z.reshape(-1, *z.shape[-3:]), kernel, stride=step)
    return columns.reshape(*leading, *kernels[-2:], *places[-2:])


def _output_size(size: int, kernel: int, stride: int, padding: int, ceil_mode: bool) -> int:
    """How many windows there are, by torch's rule: in ceil mode the last must not start in the padding."""
    beyond = size + 2 * padding - kernel
    count = beyond // stride + 1
    if ceil_mode and beyond % stride and count * stride < size + padding:
        count += 1
    return count


def _groups(size: int, kernel: int, stride: int, padding: int, ceil_mode: bool) -> list[tuple[int, int, int, int]]:
    """Windows of equal size at equal distances, as (start, size, step, count): all that are whole, each cut one alone."""
    count = _output_size(size, kernel, stride, padding, ceil_mode)
    begin = min(-(-padding // stride), count)
    end = max(min((size + padding - kernel) // stride + 1, count), begin)
    groups = []
    for i in (*range(begin), *range(end, count)):
        start, stop = max(i * stride - padding, 0), min(i * stride - padding + kernel, size)
        groups.append((start, stop - start, 1, 1))
    if end > begin:
        groups.insert(begin, (begin * stride - padding, kernel, stride, end - begin))
    return groups


def _padded(z: Tensor, t: Tensor, arguments: list[tuple[int, int, int, int]], ceil_mode: bool) -> Tensor:
    """The same in one piece, with a mask over padded windows: for exported graphs, whose sizes are not known."""
    windows = [(kernel, step) for _, kernel, step, _ in arguments]
    if not ceil_mode and not any(pad for *_, pad in arguments):
        return _pool(z, t, windows)
    around = []
    for size, kernel, step, pad in reversed(arguments):
        end = (_output_size(size, kernel, step, pad, ceil_mode) - 1) * step + kernel
        around += [pad, max(end - size - pad, 0)]
    mask = torch.ones(z.shape[z.dim() - len(arguments) :], dtype=torch.bool, device=z.device)
    return _pool(nn.functional.pad(z, around), t, windows, nn.functional.pad(mask, around))
