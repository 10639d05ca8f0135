"""Squeeze-and-Excitation with any pool for the squeeze."""

from __future__ import annotations

from torch import Tensor, nn

from lae_core.pooling import PoolSpec, make_pool


class SqueezeExcite(nn.Module):
    """Scale each channel by a gate computed from its pooled value: x · σ(W₂ relu(W₁ pool(x))).

    (B, C, H, W) → (B, C, H, W). The bottleneck has C // ratio units, at least one.
    """

    def __init__(self, channels: int, pool: PoolSpec | str = "avg", ratio: int = 16) -> None:
        super().__init__()
        hidden = max(1, channels // ratio)
        self.pool = make_pool(pool, channels)
        self.gate = nn.Sequential(
            nn.Linear(channels, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, channels), nn.Sigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.pool(x))[:, :, None, None]
