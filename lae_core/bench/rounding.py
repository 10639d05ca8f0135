"""What the precision of the pooling step does to a network, without training one: bias and noise of value and gradients.

Features are pooled as a network does, with the pool's own dtype, and compared with the exact form in double precision on
the same inputs. An error counts beside the signal: for the value how much it varies from picture to picture, for a
gradient its size. Noise of 1 drowns the signal; bias does not go away by averaging over pictures.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lae_core.pooling import PoolSpec, make_pool


def features(rows: int, positions: int) -> Tensor:
    """(rows, positions) numbers as a network's last layer has them: rectified, of spread about 1."""
    generator = torch.Generator().manual_seed(0)
    draws, level = torch.randn(rows, positions, generator=generator), torch.randn(rows, 1, generator=generator)
    return (1.5 * draws + level).relu()


def errors(pool: str, z: Tensor) -> pd.DataFrame:
    """Bias and noise of an LAE pool's value and gradients on rows of z, as shares of the signal; a row for each part."""
    spec = PoolSpec.parse(pool).replace(train="channel")
    given, exact = _parts(spec, z), _parts(spec.replace(dtype="float64", form="stable"), z.double())
    rows = []
    for part, found in given.items():
        true = exact[part]
        signal = true.std() if part == "value" else np.sqrt(np.mean(true**2))
        error = found - true
        rows.append({"part": part, "bias": abs(error.mean()) / signal, "noise": error.std() / signal})
    return pd.DataFrame(rows)


def _parts(spec: PoolSpec, z: Tensor) -> dict[str, np.ndarray]:
    """Each row's value, and its gradients to z and to log t. Rows are channels, each with a temperature of its own."""
    module = make_pool(spec, len(z)).to(z.dtype)
    leaf = z[None].clone().requires_grad_()
    value = module(leaf)
    d_z, d_log_t = torch.autograd.grad(value.sum(), (leaf, cast(Tensor, module.log_t)))
    found = {"value": value, "gradient to z": d_z, "gradient to log t": d_log_t}
    return {part: tensor.detach().double().numpy().ravel() for part, tensor in found.items()}
