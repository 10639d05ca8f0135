"""The named recipes: runs of minutes on one CPU core, whose networks work.

Each is a `RunConfig` with average pooling, to which an experiment gives its pools and seeds. They were tuned on held-out
folds of the training set. What they reach on the test set, and in how many CPU-minutes, is recorded in
`book/results/recipes.jsonl` and shown in the chapter on the training loop.
"""

from __future__ import annotations

from typing import Any

from lae_core.training.config import RunConfig
from lae_core.training.provenance import has_bf16
from lae_core.training.words import check_word

# A plain convolutional network with Muon, after Keller Jordan's airbench: 49 positions for the global pool.
_SPEED = RunConfig(
    network="speed",
    depth=8,
    strides=(2, 2, 1),
    whiten=True,
    augment="flip-crop",
    pad=2,
    pad_mode="reflect",
    flip="alternate",
    early_size=24,
    label_smoothing=0.2,
    batch=1000,
    micro_batch=500,
    loss="sum",
    optimiser="muon",
    lr=0.24,
    ramp_up=0.0,  # from the full rate straight down to 0
    momentum=0.85,
    nesterov=True,
    weight_decay=0.006,  # of the head alone: Muon keeps the norm of convolutions
    vector_lr=0.22,
    head_lr=2.8,
    temperature_lr=0.022,
)

# The paper's MXResNet and its recipe for average pooling on Imagewoof at 128 px, in a smaller network.
_MXRESNET = RunConfig(
    network="mxresnet",
    depth=10,
    width=0.5,
    data="imagewoof2-128",
    image_size=128,
    early_size=96,
    early_share=0.7,
    augment="resize-crop",
    label_smoothing=0.1,
    batch=64,
    optimiser="ranger",
    lr=0.00436,
    schedule="flat-cosine",
    flat=0.702,
    momentum=0.906,
    beta2=0.9921,
    eps=6.23e-7,
    weight_decay=0.0104,
)

RECIPES: dict[str, RunConfig] = {
    "minute": _SPEED.replace(width=0.25, epochs=4),
    "ten": _SPEED.replace(width=0.5, epochs=8),
    "half-hour": _SPEED.replace(width=0.75, epochs=14),
    "quarter": _MXRESNET.replace(epochs=10),
}

# For trying things out, in a second: nothing is learned and nothing decided.
SMOKE = RunConfig(depth=8, width=0.5, data="digits", subset=128, eval_subset=50, epochs=1, batch=64, augment="none")

# With a hundred classes each class's weights in the head see a tenth of the pictures, so their steps are longer. The
# weight decay per step stays what it was.
_CIFAR100 = {"head_lr": 20.0, "weight_decay": 0.0008}


def fast_precision() -> str:
    """The precision that this CPU trains fastest in."""
    return "bf16" if has_bf16() else "fp32"


def recipe(name: str, **changes: Any) -> RunConfig:
    """The named recipe on the CPU, in this machine's fast precision, with some fields changed; fitted to the data set.

    The name "smoke" is a training of a second, for trials.

    Example:
        >>> recipe("ten", pool="lae(t0=4, train=one)", seed=3)
    """
    named = RECIPES | {"smoke": SMOKE}
    check_word("recipe", name, named)
    config = named[name]
    fast = {} if config is SMOKE else {"precision": fast_precision()}
    hundred = _CIFAR100 if config.network == "speed" and changes.get("data") == "cifar100" else {}
    return config.replace(**({"device": "cpu"} | fast | hundred | changes))
