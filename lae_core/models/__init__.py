"""The paper's networks, each with any pool: `WRN`, `PyramidNet`, `MXResNet`, and the `SqueezeExcite` block."""

from lae_core.models.mxresnet import MXResNet
from lae_core.models.pyramidnet import PyramidNet, ShakeDrop
from lae_core.models.squeeze_excite import SqueezeExcite
from lae_core.models.wrn import WRN

__all__ = ["MXResNet", "PyramidNet", "ShakeDrop", "SqueezeExcite", "WRN"]
