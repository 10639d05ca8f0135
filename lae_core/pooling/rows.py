"""Which elements of a tensor form a row: those along some dimensions, or the entries of a segment.

`plain` writes its formulas once for both. A number per row is a tensor that `spread` brings to the row's elements.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


class Rows:
    """What both have in common. All elements count, each as 1, unless a subclass says otherwise."""

    def __init__(self, where: Any, along: Any) -> None:
        self.where, self.along = where, along

    def total(self, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """The sum over each row, as it is added up in `dtype`."""
        raise NotImplementedError

    def per_row(self, t: Tensor, z: Tensor) -> Tensor:
        """t with a number for each row, or what broadcasts to that."""
        return t

    def spread(self, x: Any) -> Any:
        """For each element the number of its row, or what broadcasts to that."""
        return x

    def only(self, x: Tensor, absent: float) -> Tensor:
        """x, with `absent` in the place of elements that do not count."""
        return x

    def weighted(self, x: Tensor) -> Tensor:
        return x

    def sum(self, x: Tensor) -> Tensor:
        """The weighted sum over each row."""
        return self.exact_total(self.weighted(x))

    def exact_total(self, x: Tensor) -> Tensor:
        # equal terms have equal rounding errors, which add up where a CPU adds them one by one
        return self.total(x, torch.float64 if x.device.type == "cpu" else None).to(x.dtype)


class Along(Rows):
    """Rows along dimensions; a number per row has size 1 there.

    `where` is None, or a mask with z's number of dimensions. It is boolean, True where an element counts; or it holds weights,
    and an element counts if its weight is not 0.
    """

    where: Tensor | None
    along: tuple[int, ...]

    def total(self, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        return x.sum(self.along, keepdim=True, dtype=dtype)

    def only(self, x: Tensor, absent: float) -> Tensor:
        if self.where is None:
            return x
        return x.masked_fill(~self.where if self.where.dtype == torch.bool else self.where.detach() == 0, absent)

    def weighted(self, x: Tensor) -> Tensor:
        return x if self.where is None or self.where.dtype == torch.bool else x * self.where

    def count(self, z: Tensor) -> int | Tensor:
        """How many elements count in each row, or what their weights add up to; 1 if it is nothing."""
        if self.where is None:
            return math.prod([z.shape[d] for d in self.along])
        where = self.where.expand(z.shape)
        if where.dtype == torch.bool:
            return where.sum(self.along, keepdim=True).clamp(min=1)
        total = self.exact_total(where)
        return torch.where(total == 0, 1.0, total)

    def maximum_and_mean(self, z: Tensor, n: int | Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        top = self.only(z, -math.inf).amax(self.along, keepdim=True).to(dtype)
        if self.where is None:
            return top, z.mean(self.along, keepdim=True).to(dtype)
        return top, self.total(self.weighted(self.only(z, 0.0)), dtype) / n


class Segments(Rows):
    """Rows along the first dimension: entry i belongs to segment where[i], of as many as `along` says."""

    where: Tensor
    along: int

    def total(self, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        zeros = x.new_zeros((self.along, *x.shape[1:]), dtype=dtype or x.dtype)
        return zeros.index_add(0, self.where, x.to(zeros.dtype))

    def per_row(self, t: Tensor, z: Tensor) -> Tensor:
        return t.expand(self.along, *z.shape[1:])

    def spread(self, x: Any) -> Any:
        return x.index_select(0, self.where)

    def count(self, z: Tensor) -> Tensor:
        """The size of each segment, at least 1."""
        ones = z.new_ones((z.shape[0], *(1,) * (z.dim() - 1)), dtype=torch.promote_types(z.dtype, torch.float32))
        return self.exact_total(ones).clamp(min=1)

    def maximum_and_mean(self, z: Tensor, n: int | Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        z = z.to(dtype)
        index = self.where.reshape(-1, *(1,) * (z.dim() - 1)).expand_as(z)
        lowest = z.new_full((self.along, *z.shape[1:]), -math.inf)
        return lowest.scatter_reduce(0, index, z, "amax"), self.exact_total(z) / n
