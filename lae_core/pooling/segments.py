"""LogAvgExp over groups of rows of different sizes: the nodes of graphs, the instances of bags, packed sequences.

The formulas are those of `plain`; a sum over a row becomes a sum over the entries of a segment.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lae_core.pooling.functional import _check_t, check_device, check_input
from lae_core.pooling.plain import NEAR, gradient_to_t, inside_another_forward_mode, phi, positive


def segment_logavgexp(
    z: Tensor,
    index: Tensor | None = None,
    t: float | Tensor = 1.0,
    num_segments: int | None = None,
    *,
    ptr: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Tensor:
    r"""LogAvgExp of each segment of z along its first dimension, :math:`t \log \mathrm{mean}_{i \in s} \exp(z_i / t)`.

    One of `index`, `ptr` and `lengths` says which entries belong together.

    Args:
        z: (entries, \*rest), of the dtypes that :func:`.logavgexp` takes.
        index: (entries,), the number of the segment of each entry, in any order: `batch` of PyTorch Geometric.
        t: temperature, a positive number or a tensor that broadcasts against the result.
        num_segments: how many segments there are; by default one more than the largest index. It has to be given in code
            that is compiled or exported.
        ptr: (segments + 1,), where each segment starts and the last one ends, beginning with 0.
        lengths: (segments,), how many entries each segment has, one segment after another.

    Returns:
        (segments, \*rest), of z's dtype. An empty segment gives -inf and no gradient; at the other edges it is as in
        :func:`.logavgexp`.

    The values of `index`, `ptr` and `lengths` are checked on a CPU, outside compiled code.

    Example:
        >>> segment_logavgexp(torch.tensor([0.0, 2.0, 5.0]), torch.tensor([0, 0, 2]), t=0.01)
        tensor([1.9931,   -inf, 5.0000])
        >>> segment_logavgexp(torch.randn(10, 64), t=4.0, lengths=torch.tensor([7, 0, 3])).shape
        torch.Size([3, 64])
    """
    check_input(z)
    if z.dim() == 0:
        raise ValueError("z has no dimensions; expected (entries, *rest)")
    index, segments = _segments(z, index, num_segments, ptr, lengths)
    shape = torch.Size((segments, *z.shape[1:]))
    t = _check_t(t, shape, z)
    t = t.reshape((1,) * (z.dim() - t.dim()) + t.shape)
    # the compiler does not take a function with a rule for forward-mode derivatives
    function = _SegmentLAE if torch.compiler.is_compiling() else _SegmentLAEForwardMode
    value: Tensor = function.apply(z, t, index, segments)[0]
    return value


def _segments(
    z: Tensor, index: Tensor | None, num_segments: int | None, ptr: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, int]:
    """The number of the segment of each entry, and how many segments there are."""
    given = {name: x for name, x in (("index", index), ("ptr", ptr), ("lengths", lengths)) if x is not None}
    if len(given) != 1:
        named = " and ".join(given) or "none"
        raise ValueError(f"{named} of index, ptr and lengths given; expected one of them")
    ((name, which),) = given.items()
    if not isinstance(which, Tensor) or which.dtype not in (torch.int64, torch.int32):
        kind = which.dtype if isinstance(which, Tensor) else type(which).__name__
        raise TypeError(f"{name} is {kind}; expected a tensor of int64 or int32")
    if which.dim() != 1:
        raise ValueError(f"{name} has shape {tuple(which.shape)}; expected one dimension")
    check_device(name, which, z)
    look = z.device.type == "cpu" and not torch.compiler.is_compiling()
    if index is None:
        if num_segments is not None:
            raise ValueError(f"num_segments = {num_segments} is given with {name}, which says how many; expected None")
        return _from_bounds(z, name, which, look)
    if index.shape[0] != z.shape[0]:
        raise ValueError(f"index has {index.shape[0]} entries, z has {z.shape[0]}; expected one for each")
    if torch.compiler.is_compiling():
        if num_segments is None:
            raise ValueError("num_segments = None is invalid in compiled code; expected how many segments there are")
        return index.to(torch.int64), num_segments
    if num_segments is None:
        num_segments = int(index.max()) + 1 if index.shape[0] else 0
    elif not isinstance(num_segments, numbers.Integral) or isinstance(num_segments, bool) or num_segments < 0:
        raise ValueError(f"num_segments = {num_segments!r} is invalid; expected a whole number of at least 0")
    if look and index.shape[0] and not 0 <= int(index.min()) <= int(index.max()) < num_segments:
        found = f"{int(index.min())} to {int(index.max())}"
        raise IndexError(f"index holds {found}; expected numbers from 0 to {num_segments - 1}, the last segment")
    return index.to(torch.int64), int(num_segments)


def _from_bounds(z: Tensor, name: str, which: Tensor, look: bool) -> tuple[Tensor, int]:
    ends = which.cumsum(0) if name == "lengths" else which[1:]
    if name == "ptr" and not len(which):
        raise ValueError("ptr is empty; expected it to begin with 0")
    if look:
        starts = ends - which if name == "lengths" else which[:-1]
        last = int(ends[-1]) if len(ends) else 0
        first = 0 if name == "lengths" else int(which[0])
        if first != 0 or last != z.shape[0] or bool((starts > ends).any()):
            wanted = (
                f"rise from 0 to {z.shape[0]}" if name == "ptr" else f"add up to {z.shape[0]}, none of them negative"
            )
            raise ValueError(
                f"{name} = {which.tolist()!s:.80} is invalid for {z.shape[0]} entries; expected it to {wanted}"
            )
    entries = torch.arange(z.shape[0], device=z.device, dtype=ends.dtype)
    return torch.searchsorted(ends, entries, right=True), len(ends)


def _forward(z: Tensor, t: Tensor, index: Tensor, segments: int) -> tuple[Tensor, ...]:
    """LAE, c and L of every segment."""
    sum_, spread, n = _tools(z, index, segments)
    t = positive(t).expand(segments, *z.shape[1:])
    c = _reference_point(z, t, index, sum_, n)
    u = (z - spread(c)) / spread(t)
    mean_expm1, mean_exp = sum_(torch.expm1(u)) / n, sum_(torch.exp(u)) / n
    usable = (mean_expm1 > -0.5) & (mean_exp > 0)
    log_mean = torch.where(usable, torch.log1p(mean_expm1), torch.log(mean_exp))
    return (c + t * log_mean).to(z.dtype), c, log_mean


def _derivatives(
    z: Tensor, t: Tensor, index: Tensor, segments: int, kept: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor]:
    """dLAE/dz of every entry and -dLAE/dt of every segment; without `kept`, c and L, they can be differentiated again."""
    sum_, spread, n = _tools(z, index, segments)
    t = positive(t).expand(segments, *z.shape[1:])
    c = _reference_point(z, t, index, sum_, n) if kept is None else kept[0]
    absent = z.detach() == -math.inf  # c stands in for -inf, which would bring inf * 0 into the next derivative
    u = ((torch.where(absent, spread(c), z) - spread(c)) / spread(t)).masked_fill(absent, -math.inf)
    log_mean = _SegmentLAEForwardMode.apply(u, torch.ones_like(t), index, segments)[0] if kept is None else kept[1]
    empty = log_mean.detach() == -math.inf
    log_mean = spread(log_mean.masked_fill(empty, 0.0))
    delta = (u.masked_fill(absent, 0.0) - log_mean).masked_fill(absent, -math.inf)
    return torch.exp(delta) / spread(n), (sum_(phi(delta)) / n).masked_fill(empty, 0.0)


def _tools(
    z: Tensor, index: Tensor, segments: int
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], Tensor]:
    """The sum over each segment, its inverse, which gives each entry what is its segment's, and the sizes (at least 1)."""

    def sum_(x: Tensor) -> Tensor:
        working = torch.float64 if x.device.type == "cpu" else x.dtype
        zeros = x.new_zeros((segments, *x.shape[1:]), dtype=working)
        return zeros.index_add(0, index, x.to(working)).to(x.dtype)

    def spread(x: Tensor) -> Tensor:
        return x.index_select(0, index)

    ones = torch.ones(
        (index.shape[0], *(1,) * (z.dim() - 1)), dtype=torch.promote_types(z.dtype, torch.float32), device=z.device
    )
    return sum_, spread, sum_(ones).clamp(min=1)


def _reference_point(z: Tensor, t: Tensor, index: Tensor, sum_: Callable[[Tensor], Tensor], n: Tensor) -> Tensor:
    z, t = z.detach().to(t.dtype), t.detach()
    where = index.reshape(-1, *(1,) * (z.dim() - 1)).expand_as(z)
    top = torch.full_like(t, -math.inf).scatter_reduce(0, where, z, "amax")
    mean = sum_(z) / n
    gap = top - mean
    return torch.where((gap >= 0) & (gap < NEAR * t), mean, top).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


class _SegmentLAE(torch.autograd.Function):
    """LAE; and c and L for the backward pass alone."""

    @staticmethod
    def forward(z: Tensor, t: Tensor, index: Tensor, segments: int) -> Any:
        return _forward(z, t, index, segments)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        z, t, index, ctx.segments = inputs
        _, *kept = output
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, t, index, *kept)
        ctx.save_for_forward(z, t, index)

    @staticmethod
    def backward(ctx: Any, grad: Any, *_: Any) -> Any:
        if grad is None:
            return None, None, None, None
        z, t, index, *kept = ctx.saved_tensors
        again = torch.is_grad_enabled() and not torch.compiler.is_compiling()
        by_z, neg_grad_t = _derivatives(z, t, index, ctx.segments, None if again else kept)
        grad_z = (grad.index_select(0, index) * by_z).to(z.dtype)
        return grad_z, gradient_to_t(grad, neg_grad_t, t.shape), None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, z: Tensor, t: Tensor, index: Tensor, segments: int) -> Any:
        if in_dims[2] is not None:
            raise ValueError("index is mapped over by vmap; expected the same segments throughout")

        def behind_entries(x: Tensor, batch_dim: int | None) -> Tensor:
            return x.unsqueeze(1) if batch_dim is None else x.movedim(batch_dim, 1)

        z = behind_entries(z, in_dims[0])
        z = z.expand(z.shape[0], info.batch_size, *z.shape[2:])
        found = _SegmentLAEForwardMode.apply(z, behind_entries(t, in_dims[1]), index, segments)
        return found, (1, 1, 1)


class _SegmentLAEForwardMode(_SegmentLAE):
    @staticmethod
    def jvp(ctx: Any, d_z: Any, d_t: Any, *_: Any) -> Any:
        if inside_another_forward_mode():
            raise RuntimeError(
                "segment_logavgexp: forward mode within forward mode is not supported; "
                "expected torch.func.hessian, or jacrev around jacfwd"
            )
        z, t, index = ctx.saved_tensors
        by_z, neg_grad_t = _derivatives(z, t, index, ctx.segments, None)
        along_z: Any = 0.0 if d_z is None else torch.zeros_like(neg_grad_t).index_add(0, index, by_z * d_z)
        along_t = 0.0 if d_t is None else neg_grad_t * d_t
        return (along_z - along_t).to(z.dtype), None, None
