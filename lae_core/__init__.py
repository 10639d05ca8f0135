"""LogAvgExp pooling: `logavgexp`, the pools named by a `PoolSpec`, and `swap_global_pool` for existing models."""

from lae_core.pooling import PoolSpec, logavgexp, make_pool, swap_global_pool, weight_decay_groups

__all__ = ["PoolSpec", "logavgexp", "make_pool", "swap_global_pool", "weight_decay_groups"]
__version__ = "0.1.0"
