"""`lae bench training`: our loop and our augmentation against plain PyTorch, torchvision and timm, on one thread.

Each recipe's loop is timed against its own network in a textbook's loop. Contenders take turns in one process and the
best of many rounds counts. Times are CPU time of this thread, which other programs on the machine disturb least. With
`--accuracy` networks are trained and their accuracies compared.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torchvision import transforms

from lae_core.bench.report import write_report
from lae_core.bench.textbook import PILPictures, Textbook, train_transform
from lae_core.bench.timing import best_of
from lae_core.runs.files import UsageError
from lae_core.training import augment, data, loop, network
from lae_core.training.config import RunConfig
from lae_core.training.datasets import DATASETS
from lae_core.training.provenance import provenance
from lae_core.training.recipes import RECIPES, recipe

WRN8 = RunConfig(depth=8, width=1, pool="avg", batch=128, lr=0.2, weight_decay=5e-4, decay_norm=True, device="cpu")


def bench_augmentation(pictures: data.Pictures, rounds: int) -> list[dict[str, Any]]:
    """Microseconds per picture, from uint8 to a normalised batch, for the two training views."""
    batch = 256
    mean, std = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
    index = torch.arange(batch)
    generator = torch.Generator().manual_seed(0)
    pil = [Image.fromarray(pictures.one(i).permute(1, 2, 0).numpy()) for i in range(batch)]
    tail = [transforms.ToTensor(), transforms.Normalize(mean, std)]
    resize_crop = transforms.Compose(
        [transforms.RandomResizedCrop(32, (0.35, 1)), transforms.RandomHorizontalFlip(), *tail]
    )
    theirs = {"autoaugment": train_transform("autoaugment", mean, std), "resize-crop": resize_crop}
    rows = []
    for kind, transform in theirs.items():
        draws, view = augment.training_view(kind, pictures, 32)

        def ours(draws: int = draws, view: Callable = view) -> Tensor:
            uniforms = torch.rand(batch, draws, generator=generator, dtype=torch.float64)
            return augment.normalise(view(index, uniforms), mean, std)

        def plain(transform: Callable = transform) -> Tensor:
            return torch.stack([transform(image) for image in pil])

        best = best_of({"ours": ours, "torchvision": plain}, rounds)
        us = {name: seconds / batch * 1e6 for name, seconds in best.items()}
        rows.append({"view": kind, **us, "ratio": us["torchvision"] / us["ours"]})
    return rows


def network_alone(session: loop.Session) -> Callable[[], None]:
    """As many steps as an epoch has, on one batch that is ready: forward, backward, optimiser."""
    split, batch = session.split, session.config.batch
    x = augment.normalise(
        augment.whole(split.train, torch.arange(len(split.train)), 32)[:batch], split.spec.mean, split.spec.std
    )
    y = split.train.labels[:batch]
    size = session.config.micro_batch or batch

    def steps() -> None:
        session.model.train()
        for _ in range(len(split.train_index) // batch):
            session.optimiser.zero_grad()
            for part, wanted in zip(x.split(size), y.split(size), strict=True):
                session.fabric.backward(nn.functional.cross_entropy(session.model(part), wanted))
            session.optimiser.step()

    return steps


def _timm(book: Textbook) -> Callable[[], None]:
    """The textbook's network and pictures under timm's loader, AutoAugment and optimiser factory."""
    try:
        from timm.data import create_loader
        from timm.optim import create_optimizer_v2
    except ImportError as error:
        raise SystemExit(f"lae bench training needs timm: pip install 'logavgexp[peers]' ({error})") from error
    config, split = book.config, book.split
    dataset: Any = PILPictures(split.train, split.train_index, lambda image: image)  # the loader sets its own transform
    loader = create_loader(
        dataset, (3, 32, 32), config.batch, is_training=True, use_prefetcher=False, num_workers=0,
        auto_augment="original", mean=book.mean, std=book.std, persistent_workers=False, scale=(0.35, 1),
    )  # fmt: skip
    model = network.build(config)
    optimiser = create_optimizer_v2(
        model, "momentum", lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay
    )

    def epoch() -> None:
        model.train()
        for x, y in loader:
            optimiser.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=config.precision == "bf16"):
                loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimiser.step()

    return epoch


def gemm_peak(precision: str, rounds: int) -> float:
    """FLOP per second of one thread in the product of two square matrices, which nothing that trains exceeds."""
    side = 1024
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = torch.randn(2, side, side).to(dtype)
    seconds = best_of({"product": lambda: [a @ b for _ in range(4)]}, rounds)["product"]
    return 4 * 2 * side**3 / seconds


def in_whole_batches(config: RunConfig, pictures: int) -> RunConfig:
    """The config on at most so many pictures: in its own batches, or in one as large as there are pictures for."""
    passed = config.micro_batch or config.batch
    batch = min(config.batch, pictures // passed * passed or pictures)
    micro_batch = config.micro_batch if batch > passed else None
    return config.replace(subset=pictures // batch * batch, batch=batch, micro_batch=micro_batch)


def bench_recipe(name: str, data_name: str, pictures: int, rounds: int, augmentation: str) -> dict[str, Any]:
    """Pictures per CPU-second of a recipe's loop at its full picture size, against its network in other programs."""
    config = recipe(name, data=data_name, early_size=None, augment=augmentation, eval_subset=100, epochs=1)
    config = in_whole_batches(config, pictures)
    session = loop.Session(config)
    book = Textbook(config, session.split, lambda: network.build(config))
    contenders = {
        "ours": lambda: session.epoch(0),
        "plain PyTorch": book.epoch,
        "network alone": network_alone(session),
    }
    if augmentation == "autoaugment":
        contenders["timm"] = _timm(book)
    best = best_of(contenders, rounds)
    done = len(session.split.train_index)
    rates = {contender: done / seconds for contender, seconds in best.items()}
    work = 3 * session.facts["flops"]  # forward, and twice that backward
    peak = gemm_peak(config.precision, rounds)
    return {
        "recipe": name,
        "augment": augmentation,
        "precision": config.precision,
        "batch": config.batch,
        "pictures_per_second": rates,
        "ratio": {peer: rates["ours"] / rates[peer] for peer in ("plain PyTorch", "timm") if peer in rates},
        "not_network": 1 - rates["ours"] / rates["network alone"],
        "gemm_peak": peak,
        "share_of_peak": rates["ours"] * work / peak,
    }


def bench_accuracy(name: str, seeds: int, epochs: int, subset: int | None, augmentation: str) -> dict[str, Any]:
    """Final accuracy of our loop and of the textbook's, each over the same seeds."""
    found: dict[str, list[float]] = {"ours": [], "textbook": []}
    config = WRN8.replace(data=name, epochs=epochs, subset=subset, augment=augmentation, ramp_up=0.25)
    for seed in range(seeds):
        config = config.replace(seed=seed)
        record = loop.run(config)
        found["ours"].append(record["final"]["accuracy"])
        found["textbook"].append(Textbook(config, loop.Session(config).split).run())
        print(f"  seed {seed}: ours {found['ours'][-1]:.4f}, textbook {found['textbook'][-1]:.4f}", flush=True)
    result = {"config": config.replace(seed=0).to_dict(), "seeds": seeds, "accuracy": found}
    if seeds > 1:
        mean = {who: statistics.mean(values) for who, values in found.items()}
        error = math.sqrt(sum(statistics.variance(values) / seeds for values in found.values()))
        result |= {"mean": mean, "difference": mean["ours"] - mean["textbook"], "standard_error": error}
    return result


def _show(result: dict[str, Any]) -> None:
    if "augmentation" in result:
        print("augmentation, µs per picture (one thread)")
        for row in result["augmentation"]:
            us = f"ours {row['ours']:8.1f}   torchvision {row['torchvision']:8.1f}"
            print(f"  {row['view']:<14} {us}   {row['ratio']:.1f}×")
        print("loop, pictures per CPU-second (one thread)")
        for row in result["recipes"]:
            peers = ", ".join(f"{ratio:.2f}× {peer}" for peer, ratio in row["ratio"].items())
            print(
                f"  {row['recipe']:<10} {row['augment']:<12} {row['precision']}  {row['pictures_per_second']['ours']:6.0f}"
                f"   {peers}   {100 * row['share_of_peak']:.0f} % of the GEMM peak,"
                f" {100 * row['not_network']:.0f} % not network"
            )
    for name, found in result.get("accuracy", {}).items():
        print(f"accuracy, {name}: {json.dumps(found['accuracy'])}")
        if "difference" in found:
            print(
                f"  difference {100 * found['difference']:+.2f} ± {100 * found['standard_error']:.2f} points (standard error)"
            )


def main(args: argparse.Namespace) -> int:
    torch.set_num_threads(1)
    pictures = data.load(args.data, "train")
    if pictures.uniform is None or pictures.uniform.shape[-1] != 32:
        raise UsageError(f"--data = {args.data!r} is invalid; expected cifar10, cifar100 or digits (32 px)")
    if args.pictures > len(pictures):
        raise UsageError(f"--pictures = {args.pictures} is invalid; expected at most {len(pictures)} for {args.data}")
    result: dict[str, Any] = {"data": DATASETS[args.data].title}
    if not args.accuracy_only:
        result["augmentation"] = bench_augmentation(pictures, args.rounds)
        result["recipes"] = [
            bench_recipe(name, args.data, args.pictures, args.rounds, augmentation)
            for name in RECIPES
            if RECIPES[name].image_size == 32
            for augmentation in (RECIPES[name].augment, "autoaugment")
        ]
    if args.accuracy or args.accuracy_only:
        several = bench_accuracy(args.data, args.seeds, args.epochs, args.subset, "autoaugment")
        result["accuracy"] = {f"{args.seeds} seeds": several}
        if args.full_epochs:
            result["accuracy"]["all pictures"] = bench_accuracy(args.data, 1, args.full_epochs, None, "flip-crop")
    result["provenance"] = provenance("cpu")
    _show(result)
    write_report(result, args.json)
    return 0
