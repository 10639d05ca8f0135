"""What raw pixels alone are worth: ridge regression on the pictures that recorded runs trained and were measured on.

A network that does no better is not at work, whatever its pools do. The numbers stand beside every verdict on
training (`evidence/gate.py`); they are recorded, because building the book needs no data.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from lae_core.evidence import gate
from lae_core.runs.export import read_export
from lae_core.training import augment, data
from lae_core.training.config import RunConfig

PENALTIES = (10.0, 100.0, 1000.0, 10000.0)  # pixels from 0 to 1


def accuracy(config: RunConfig) -> float:
    """Accuracy in % of ridge regression on the raw pixels of a run's pictures, without augmentation.

    The penalty is the best of `PENALTIES` on a held-out fifth of the training pictures.
    """
    from sklearn.linear_model import RidgeClassifier

    split = data.split(
        config.data, fold=config.fold, subset=config.subset, eval_subset=config.eval_subset, seed=config.seed
    )
    x, y = _pixels(split.train, split.train_index, config)
    held = np.arange(len(y)) % 5 == 4
    scores = {
        penalty: RidgeClassifier(alpha=penalty, solver="cholesky").fit(x[~held], y[~held]).score(x[held], y[held])
        for penalty in PENALTIES
    }
    best = max(scores, key=lambda penalty: scores[penalty])
    model = RidgeClassifier(alpha=best, solver="cholesky").fit(x, y)
    return 100 * float(model.score(*_pixels(split.valid, split.valid_index, config)))


def _pixels(pictures: data.Pictures, index: torch.Tensor, config: RunConfig) -> tuple[np.ndarray, np.ndarray]:
    look = augment.centre if config.augment == "resize-crop" else augment.whole
    images = look(pictures, index, config.image_size)
    return images.flatten(1).float().div_(255).numpy(), pictures.labels[index].numpy()


def missing(files: list[Path], known: dict[str, float]) -> dict[str, RunConfig]:
    """The pictures of recorded runs that have a gate and no number yet, each with a run that uses them."""
    found = {}
    for path in files:
        for record in read_export(path):
            if gate.family(record.config["data"]) in gate.GATES["table"]:
                found[gate.pictures(record.config)] = RunConfig.from_dict(record.config)
    return {name: config for name, config in found.items() if name not in known}


def main(args: argparse.Namespace) -> int:
    """Compute what is missing for the given files of records, and for whole data sets, and write it down."""
    known = gate.read_ridge()
    wanted = missing([Path(name) for name in args.records] or sorted(gate.RIDGE.parent.glob("*.jsonl")), known)
    for name in args.whole:
        config = RunConfig(data=name)
        if (pictures := gate.pictures(config.to_dict())) not in known:
            wanted[pictures] = config
    for number, (name, config) in enumerate(wanted.items(), start=1):
        known[name] = accuracy(config)
        print(f"{number} of {len(wanted)}: {known[name]:.1f} % on {json.loads(name)}", flush=True)
        gate.write_ridge(known)
    print(f"{len(known)} sets of pictures are recorded in {gate.RIDGE}.")
    return 0
