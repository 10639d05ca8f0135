"""Data sets as uint8 tensors on the device, checked by content hash. Loading never downloads: `lae data NAME` does."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lae_core.training.datasets import DATASETS, DataSet


def data_root() -> Path:
    """Where prepared data sets are kept: $LAE_DATA, else `data/` here."""
    return Path(os.environ.get("LAE_DATA") or "data")


@dataclass(frozen=True)
class Pictures:
    """One split: the pictures' bytes end to end, each 3×height×width, with their shapes and labels, on one device."""

    pixels: Tensor  # (total,) uint8
    shapes: Tensor  # (N, 2) int64: height, width; on the CPU, where batches are planned
    labels: Tensor  # (N,) int64

    def __len__(self) -> int:
        return len(self.labels)

    @functools.cached_property
    def offsets(self) -> Tensor:
        """(N,) int64: where each picture begins in `pixels`; on the CPU."""
        sizes = 3 * self.shapes.prod(1)
        return sizes.cumsum(0) - sizes

    @functools.cached_property
    def uniform(self) -> Tensor | None:
        """(N, 3, H, W) where all pictures have one shape, else None."""
        if not bool((self.shapes == self.shapes[0]).all()):
            return None
        height, width = self.shapes[0].tolist()
        return self.pixels.view(len(self), 3, height, width)

    def one(self, index: int) -> Tensor:
        """(3, H, W) uint8, a view."""
        height, width = self.shapes[index].tolist()
        start = int(self.offsets[index])
        return self.pixels[start : start + 3 * height * width].view(3, height, width)

    def to(self, device: torch.device) -> Pictures:
        return Pictures(self.pixels.to(device), self.shapes, self.labels.to(device))


def sha256(data: bytes | np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(data).data if isinstance(data, np.ndarray) else data).hexdigest()


def file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def load(name: str, split: str, device: torch.device | str = "cpu") -> Pictures:
    """The "train" or "test" pictures of a data set, verified; if missing or damaged, the error says what to do."""
    spec = DATASETS[name]
    if name == "digits":
        pictures = _digits(split)
    else:
        path = data_root() / name / f"{split}.safetensors"
        if not path.is_file():
            raise FileNotFoundError(
                f"data set {name!r} ({spec.title}) is not in {data_root()}: run `lae data {name}`, "
                f"or set LAE_DATA to the folder that holds it"
            )
        pictures = _stored(str(path.resolve()), path.stat().st_mtime_ns, path.stat().st_size)
    return pictures.to(torch.device(device))


@functools.lru_cache(maxsize=4)
def _stored(path: str, changed: int, size: int) -> Pictures:
    """Read and verify once a process and file state: a sweep loads the same set again and again."""
    from safetensors.torch import load_file

    file = Path(path)
    expected = json.loads((file.parent / "manifest.json").read_text())["files"][file.name]
    if file_sha256(file) != expected:
        name = file.parent.name
        raise ValueError(f"{file} is damaged (its sha256 is not the recorded one): run `lae data {name} --again`")
    tensors = load_file(path)
    return Pictures(tensors["pixels"], tensors["shapes"].long(), tensors["labels"].long())


@functools.lru_cache(maxsize=2)
def _digits(split: str) -> Pictures:
    """scikit-learn's digits, every fifth for the test, enlarged bicubically from 8 to 32 px, in three channels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    test = np.arange(len(labels)) % 5 == 4
    keep = test if split == "test" else ~test
    grey = torch.from_numpy(images[keep].reshape(-1, 1, 8, 8)).float() * (255 / 16)
    large = torch.nn.functional.interpolate(grey, size=(32, 32), mode="bicubic", align_corners=False)
    pixels = large.round().clamp(0, 255).to(torch.uint8).expand(-1, 3, -1, -1).reshape(-1)
    shapes = torch.full((int(keep.sum()), 2), 32)
    return Pictures(pixels, shapes, torch.from_numpy(labels[keep]).long())


@dataclass(frozen=True)
class Split:
    """What a run trains on and what it validates on: pictures and the indices in use."""

    train: Pictures
    train_index: Tensor
    valid: Pictures
    valid_index: Tensor
    spec: DataSet


def split(
    name: str,
    *,
    fold: int | None = None,
    subset: int | None = None,
    eval_subset: int | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Split:
    """The official split, or an 80:20 one of the training set.

    Fold k is part k % 5 of shuffle k // 5, so five folds in a row cover the set once; it does not depend on the seed.
    The training subset is drawn by the seed, the validation subset is the same in every run.
    """
    train = load(name, "train", device)
    valid = train if fold is not None else load(name, "test", device)
    if fold is None:
        train_index, valid_index = torch.arange(len(train)), torch.arange(len(valid))
    else:
        order = torch.from_numpy(np.random.default_rng([0, fold // 5]).permutation(len(train)))
        parts = list(torch.tensor_split(order, 5))
        valid_index = parts.pop(fold % 5).sort().values
        train_index = torch.cat(parts).sort().values
    train_index = _draw(train_index, subset, "subset", [1, seed])
    valid_index = _draw(valid_index, eval_subset, "eval_subset", [2])
    return Split(train, train_index, valid, valid_index, DATASETS[name])


def _draw(index: Tensor, number: int | None, field: str, seed: list[int]) -> Tensor:
    if number is None:
        return index
    if number > len(index):
        raise ValueError(
            f"RunConfig: {field} = {number} is invalid; expected at most {len(index)}, the pictures there are"
        )
    chosen = np.random.default_rng(seed).permutation(len(index))[:number]
    return index[torch.from_numpy(np.sort(chosen))]
