"""Networks that take any pool: the paper's `WRN`, `PyramidNet` and `MXResNet`, and `SpeedNet` for short runs."""

from lae_core.models.mxresnet import MXResNet
from lae_core.models.pyramidnet import PyramidNet, ShakeDrop
from lae_core.models.speed import SpeedNet
from lae_core.models.squeeze_excite import SqueezeExcite
from lae_core.models.wrn import WRN

__all__ = ["WRN", "MXResNet", "PyramidNet", "ShakeDrop", "SpeedNet", "SqueezeExcite"]
