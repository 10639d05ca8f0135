"""A first convolution that whitens patches of the training pictures."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FLOOR = 5e-4  # added to variances, so that components which pictures hardly have are not blown up


@torch.no_grad()
def whiten_first_convolution(model: nn.Module, pictures: Tensor) -> None:
    """Set the first convolution's filters to ± the principal components of patches, scaled to variance 1, and freeze it.

    `pictures`: (N, 3, H, W), normalised as in training. The components come in the order of their variance; filters
    beyond twice their number keep their random start.
    """
    conv = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
    kernel = conv.kernel_size
    patches = F.unfold(pictures.double(), kernel, stride=kernel).transpose(1, 2).flatten(0, 1)
    variances, components = torch.linalg.eigh(torch.cov(patches.T))  # in rising order, one component per column
    components = components.T.flip(0)
    # the sign of a component is arbitrary, and two versions of LAPACK may choose differently
    strongest = components.gather(1, components.abs().argmax(1, keepdim=True))
    filters = components * strongest.sign() / (variances.flip(0)[:, None] + FLOOR).sqrt()
    pairs = min(len(filters), conv.out_channels // 2)
    chosen = torch.cat([filters[:pairs], -filters[:pairs]]).view(2 * pairs, *conv.weight.shape[1:])
    conv.weight[: 2 * pairs] = chosen.to(conv.weight)
    conv.weight.requires_grad_(False)
