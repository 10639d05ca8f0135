"""The memory that a form of LogAvgExp reads and writes, counted on the meta device: no data, no time."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lae_core.bench.operator import textbook
from lae_core.pooling import plain


class _Traffic(TorchDispatchMode):
    """Counts the bytes that every operation reads and writes, and the operations."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not func.is_view and not re.search("empty|detach|alias|full", str(func)):
            tensors = {id(x): x for x in tree_leaves((args, kwargs, out)) if isinstance(x, torch.Tensor)}
            self.bytes += sum(
                math.prod([n for n, stride in zip(x.shape, x.stride(), strict=True) if stride]) * x.element_size()
                for x in tensors.values()
            )
            self.operations += 1
        return out


def traffic(pool: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype, trained: bool) -> tuple[float, int]:
    """Memory that forward and backward move, in reads of the input, and the operations: counted without computing anything."""
    z = torch.empty(64, 512, 8, 8, device="meta", dtype=dtype, requires_grad=True)
    t = torch.empty((), device="meta", requires_grad=trained)
    with _Traffic() as count:
        value = pool(z, t)
        torch.autograd.grad(value, [z, t] if trained else [z], torch.empty_like(value))
    return count.bytes / (z.numel() * z.element_size()), count.operations


def traffic_table() -> pd.DataFrame:
    """`traffic` of the mean, of the textbook form, and of ours in torch operations."""
    forms = {
        "mean": lambda z, t: z.mean((2, 3)),
        "textbook": textbook,
        "ours, plain form": lambda z, t: plain.logavgexp(z, t.view(1, 1, 1, 1), None, (2, 3)),
    }
    rows = []
    for (form, pool), dtype, trained in itertools.product(
        forms.items(), (torch.float32, torch.bfloat16), (False, True)
    ):
        if form != "mean" or not trained:
            reads, operations = traffic(pool, dtype, trained)
            t = "–" if form == "mean" else "trained" if trained else "fixed"
            rows.append({"form": form, "dtype": str(dtype)[6:], "t": t, "reads": reads, "operations": operations})
    return pd.DataFrame(rows)
