"""LogAvgExp pooling: `logavgexp`, the pools named by a `PoolSpec`, and `swap_global_pool` for existing models."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lae_core.pooling import (
        LogAvgExpPool1d,
        LogAvgExpPool2d,
        LogAvgExpPool3d,
        PoolSpec,
        logavgexp,
        make_pool,
        segment_logavgexp,
        swap_global_pool,
        weight_decay_groups,
    )

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
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Torch takes seconds to load: `lae --help` does without, and Ctrl-C finds someone who listens."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lae_core import pooling

    return getattr(pooling, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
