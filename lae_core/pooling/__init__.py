"""The operator and its rivals. Needs torch alone."""

from lae_core.pooling.functional import logavgexp
from lae_core.pooling.spec import PoolSpec, make_pool
from lae_core.pooling.swap import swap_global_pool
from lae_core.pooling.weight_decay import weight_decay_groups

__all__ = ["PoolSpec", "logavgexp", "make_pool", "swap_global_pool", "weight_decay_groups"]
