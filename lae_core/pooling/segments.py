"""LogAvgExp over groups of rows of different sizes: the nodes of graphs, the instances of bags, packed sequences.

The formulas are those of `plain`, where the entries of a segment are a row.
"""

from __future__ import annotations

import numbers

import torch
from torch import Tensor

from lae_core.pooling import plain
from lae_core.pooling.functional import _check_t, check_device, check_input


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
    return plain.logavgexp(z, t, index, segments)


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
