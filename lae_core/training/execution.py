"""How a GPU computes: settings that trade bitwise repeatability for speed. A CPU ignores them.

`$LAE_EXECUTION` lists them, such as `tf32,search`; a run's provenance says which it was made with, and `lae records add`
lets no comparison mix them. By default there is none. The table describes their effect on results as PyTorch and cuDNN
document it; none of them was tried on a GPU for this book.

==============  ==================================================================================================
tf32            FP32 products of matrices and convolutions with 10 bits of mantissa. Repeats bitwise on one kind of
                card; differs from FP32 in the fourth digit of a product. No effect on fp16 and bf16
search          cuDNN times its algorithms for each new shape and takes the fastest of the deterministic ones. Which
                that is may differ from run to run, and with it the rounding
compile         `torch.compile` fuses the network's operations. Rounding differs from eager execution, and may differ
                between versions of PyTorch
channels-first  convolutions read pictures channel by channel, in place of pixel by pixel (channels-last). Another
                order of sums, so other rounding; for comparison, since channels-last is the faster on recent cards
==============  ==================================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from lae_core.training.words import did_you_mean

VARIABLE = "LAE_EXECUTION"
SETTINGS = ("tf32", "search", "compile", "channels-first")


def settings(device: torch.device | str) -> tuple[str, ...]:
    """The settings that act on a device, in the order of `SETTINGS`."""
    words = [word.strip() for word in os.environ.get(VARIABLE, "").split(",") if word.strip()]
    for word in words:
        if word not in SETTINGS:
            hint = did_you_mean(word, SETTINGS)
            raise ValueError(f"{VARIABLE}: {word!r} is invalid; expected some of {', '.join(SETTINGS)}{hint}")
    return tuple(word for word in SETTINGS if word in words) if torch.device(device).type == "cuda" else ()


@contextmanager
def applied(device: torch.device | str) -> Iterator[None]:
    """Set torch's switches as the settings say, and put them back afterwards. Without a setting they are off."""
    chosen = settings(device)
    if torch.device(device).type != "cuda":
        yield
        return
    before = (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
    )
    _switch("tf32" in chosen, "tf32" in chosen, "search" in chosen, True)
    try:
        yield
    finally:
        _switch(*before)


def _switch(matmul: bool, convolutions: bool, search: bool, deterministic: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = matmul
    torch.backends.cudnn.allow_tf32 = convolutions
    torch.backends.cudnn.benchmark = search
    torch.backends.cudnn.deterministic = deterministic
