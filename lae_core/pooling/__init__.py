"""The operator and its rivals. Needs torch alone."""

from lae_core.pooling.functional import logavgexp
from lae_core.pooling.segments import segment_logavgexp
from lae_core.pooling.spec import PoolSpec, make_pool
from lae_core.pooling.swap import swap_global_pool
from lae_core.pooling.weight_decay import weight_decay_groups
from lae_core.pooling.windows import LogAvgExpPool1d, LogAvgExpPool2d, LogAvgExpPool3d

__all__ = [
    "LogAvgExpPool1d",
    "LogAvgExpPool2d",
    "LogAvgExpPool3d",
    "PoolSpec",
    "logavgexp",
    "make_pool",
    "segment_logavgexp",
    "swap_global_pool",
    "weight_decay_groups",
]
