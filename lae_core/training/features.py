"""Feature maps of a pretrained network, computed once and kept outside of the repository.

A directory under `$LAE_CACHE` (else `~/.cache/lae`) holds the maps of one set of pictures, named by all that decides
them: the sha256 of the weights, the pictures, the transform, the precision. It is filled part by part, each written
whole, so that an extraction that was stopped goes on where it was.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from pathlib import Path

import torch
from torch import Tensor, nn

from lae_core.models.pretrained import Trunk, as_input, fold, load_pretrained, weights_of
from lae_core.training.canvases import PictureSet
from lae_core.training.files import write_whole
from lae_core.training.progress_bar import progress_bar
from lae_core.training.words import check_word

PART = 250  # pictures in a file
BATCH = 50
TRANSFORM = "(x-127)/128, before the last activation"
# What maps are computed in, and kept in. Folded: with each normalisation in the convolution before it.
PRECISIONS = {
    "fp32": (torch.float32, torch.float16),
    "bf16": (torch.bfloat16, torch.bfloat16),
    "bf16-folded": (torch.bfloat16, torch.bfloat16),
}


def cache_root() -> Path:
    """Where feature maps are kept: $LAE_CACHE, else `~/.cache/lae`."""
    return Path(os.environ.get("LAE_CACHE") or Path.home() / ".cache" / "lae")


def feature_maps(pictures: PictureSet, *, network: str = "efficientnet-lite0", precision: str = "fp32") -> Tensor:
    """The maps of all pictures, (pictures, channels, rows, columns), from the cache; what it lacks is computed.

    `precision` is fp32, or bf16 or bf16-folded where the processor has it.
    """
    from safetensors.torch import save

    check_word("precision", precision, PRECISIONS)
    what = {"weights": weights_of(network).sha256, "pictures": pictures.describe(), "precision": precision}
    what["transform"] = TRANSFORM
    text = json.dumps(what, sort_keys=True)
    folder = cache_root() / hashlib.sha256(text.encode()).hexdigest()[:16]
    files = {start: folder / f"{start:06}.safetensors" for start in range(0, len(pictures), PART)}
    parts = {start: _read(file) for start, file in files.items()}
    missing = [start for start, part in parts.items() if part is None]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "what.json").write_text(text + "\n", encoding="utf-8")
        model = _trunk(network, precision)
        with progress_bar("feature maps", "part", len(files), len(files) - len(missing)) as bar:
            for start in missing:
                part = _compute(pictures, start, min(start + PART, len(pictures)), model, precision)
                write_whole(files[start], save({"maps": part}), durable=False)
                parts[start] = part
                bar.update()
    return torch.cat([part for part in parts.values() if part is not None])


def _read(file: Path) -> Tensor | None:
    """A part of the maps, or None where it is missing or cannot be read."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)["maps"]
    except (OSError, KeyError, SafetensorError):
        return None


@torch.inference_mode()
def _compute(pictures: PictureSet, start: int, stop: int, model: nn.Module, precision: str) -> Tensor:
    computed, kept = PRECISIONS[precision]
    maps = []
    for first in range(start, stop, BATCH):
        x = as_input(pictures.batch(first, min(first + BATCH, stop)))
        maps.append(model(x.to(computed, memory_format=torch.channels_last)).to(kept).contiguous())
    return torch.cat(maps)


@functools.lru_cache(maxsize=1)
def _trunk(network: str, precision: str) -> nn.Module:
    model: nn.Module = Trunk(load_pretrained(network))
    model = (fold(model) if precision.endswith("folded") else model).to(PRECISIONS[precision][0])
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
