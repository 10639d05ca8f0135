"""One training run: a `RunConfig` in, a record out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import LightningEnvironment
from torch import Tensor
from torch.nn import functional as F

from lae_core.training import augment, checkpoint, data, evaluate, network, optim
from lae_core.training.config import RECIPE, RunConfig
from lae_core.training.evaluate import finite
from lae_core.training.provenance import provenance

PRECISIONS: dict[str, Any] = {"fp32": "32-true", "fp64": "64-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
Progress = Callable[[int, int, dict[str, Any]], None]


def run(config: RunConfig, *, checkpoint_dir: Path | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Train one network and return its record, a tree of plain values that JSON can hold.

    With `checkpoint_dir` the run writes a checkpoint after each epoch and goes on from one that it finds there; the
    record is the same, bit for bit, however often it was interrupted. `progress(done, epochs, row)` is called after
    each epoch.

    The record: `config`, `key`, `status` ("finished", or "diverged" where a loss was not finite), `epochs` (one row
    each: losses, errors as shares, learning rate, gradient norms, temperatures), `final`, `pools` (their parameters at
    the end), `input_sizes` (accuracy by view and size), `network`; and, apart because no two runs share them, `times`
    and `provenance`.
    """
    fabric = _fabric(config)
    folder = None if checkpoint_dir is None else Path(checkpoint_dir)
    with _torch_state(config):
        if config.processes == 1:
            return _train(fabric, config, folder, progress)
        launch: Any = fabric.launch  # its annotation forgets the arguments that it passes on
        return launch(_train_in_process, config.to_dict(), folder, progress)


def _fabric(config: RunConfig) -> Fabric:
    if config.recipe != RECIPE:
        raise ValueError(f"RunConfig: recipe = {config.recipe} will not do: this program trains recipe {RECIPE}")
    device = config.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("RunConfig: device = 'cuda' will not do: torch sees no GPU here; give 'cpu' or 'auto'")
    if config.precision == "fp16" and device == "cpu":
        raise ValueError("RunConfig: precision = 'fp16' will not do on a CPU: give 'fp32' or 'bf16'")
    return Fabric(
        accelerator=device,
        devices=config.processes,
        precision=PRECISIONS[config.precision],
        # spawned, not re-executed, so that a run can start from inside any program
        strategy="auto" if config.processes == 1 else "ddp_spawn",
        # named, because where SLURM is installed another environment would be guessed
        plugins=[LightningEnvironment()],
    )


@contextmanager
def _torch_state(config: RunConfig) -> Iterator[None]:
    """Torch's global state as the run needs it, put back afterwards."""
    dtype, deterministic = torch.get_default_dtype(), torch.backends.cudnn.deterministic
    torch.set_default_dtype(torch.float64 if config.precision == "fp64" else torch.float32)
    torch.backends.cudnn.deterministic = True
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.backends.cudnn.deterministic = deterministic


@dataclass
class _State:
    """What a run has come to: the part that a checkpoint keeps beside the weights."""

    epoch: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    status: str = "running"
    train_seconds: list[float] = field(default_factory=list)
    valid_seconds: list[float] = field(default_factory=list)


def _train_in_process(fabric: Fabric, config: dict[str, Any], *rest: Any) -> dict[str, Any]:
    """`_train` in a spawned process, for which Fabric passes on plain values only; one thread, as its share."""
    torch.set_num_threads(1)
    whole = RunConfig.from_dict(config)
    with _torch_state(whole):
        return _train(fabric, whole, *rest)


def _train(fabric: Fabric, config: RunConfig, folder: Path | None, progress: Progress | None) -> dict[str, Any]:
    began = time.perf_counter()
    session = Session(config, fabric)
    state = _resume(folder, session)
    while state.epoch < config.epochs and state.status == "running":
        start = time.perf_counter()
        row = session.epoch(state.epoch)
        state.epoch += 1
        state.train_seconds.append(time.perf_counter() - start)
        last = state.epoch == config.epochs
        if row["train_loss"] is not None and (last or state.epoch % config.eval_every == 0):
            start = time.perf_counter()
            row |= session.validate()
            state.valid_seconds.append(time.perf_counter() - start)
        row["temperatures"] = evaluate.temperatures(session.network)
        state.rows.append(row)
        if row["train_loss"] is None or row.get("valid_loss", 0.0) is None:
            state.status = "diverged"
        elif last:
            state.status = "finished"
        if folder is not None and fabric.is_global_zero:
            _keep(folder, session, state)
        if progress is not None and fabric.is_global_zero:
            progress(state.epoch, config.epochs, row)

    end = state.rows[-1]
    final: dict[str, float] = {}
    sizes: dict[str, dict[str, float]] = {}
    if state.status == "finished":
        final = {name: end[name] for name in ("train_loss", "train_error", "valid_loss", "valid_error")}
        final["accuracy"] = 1 - end["valid_error"]
        sizes = evaluate.over_sizes(session.model, config, session.split) if config.input_sizes else {}
    return {
        "config": config.to_dict(),
        "key": config.key(),
        "status": state.status,
        "epochs": state.rows,
        "final": final,
        "pools": evaluate.pool_state(session.network),
        "input_sizes": sizes,
        "network": session.facts,
        "times": {
            "train": state.train_seconds,
            "validation": state.valid_seconds,
            "total": sum(state.train_seconds) + sum(state.valid_seconds),
            "last_start": time.perf_counter() - began,
        },
        "provenance": provenance(fabric.device),
    }


class Session:
    """What a run works with: its data, its network and optimiser as Fabric runs them, and one epoch of training."""

    def __init__(self, config: RunConfig, fabric: Fabric | None = None) -> None:
        self.config, self.fabric = config, fabric or _fabric(config)
        self.device = self.fabric.device
        torch.manual_seed(config.seed)
        self.split = _split(config, self.device)
        # built on the CPU, so that a seed gives the same weights on every device
        self.network = network.build(config)
        self.facts = network.measure(self.network, config.image_size)
        self.model: Any = self.fabric.setup_module(self.network.to(memory_format=torch.channels_last))
        self.optimiser: Any = self.fabric.setup_optimizers(optim.optimiser(self.network, config))
        self.draws, self.view = augment.trainer(
            config.augment, self.split.train, config.image_size, config.crop_scale, fill=config.fill
        )
        mine = self.split.valid_index[self.fabric.global_rank :: self.fabric.world_size]
        self.valid = evaluate.views(config, self.split, config.image_size, mine)
        self.wanted = self.split.valid.labels[mine.to(self.device)]
        if config.cutout:
            self.draws, self.view = augment.with_cutout(self.draws, self.view, config.cutout, self.split.spec.mean)

    def reduce(self, totals: Tensor, how: str) -> list[float]:
        """The processes' sum or mean."""
        return torch.as_tensor(self.fabric.all_reduce(totals, reduce_op=how)).tolist()

    def validate(self) -> dict[str, float | None]:
        totals = evaluate.evaluate(self.model, self.valid, self.wanted, self.split)
        loss, wrong, count = self.reduce(totals, "sum")
        return {"valid_loss": finite(loss / count), "valid_error": wrong / count}

    def epoch(self, number: int) -> dict[str, Any]:
        """Every training picture once (the last incomplete batch is left out), and what there is to say of it."""
        config, spec, labels = self.config, self.split.spec, self.split.train.labels
        # The order and the draws belong to the whole batch, so they do not depend on the number of processes.
        seed = int(np.random.SeedSequence([config.seed, number]).generate_state(1, np.uint64)[0] >> 1)
        generator = torch.Generator().manual_seed(seed)
        order = self.split.train_index[torch.randperm(len(self.split.train_index), generator=generator)]
        steps = len(order) // config.batch
        share = config.batch // self.fabric.world_size
        part = slice(self.fabric.global_rank * share, (self.fabric.global_rank + 1) * share)
        rate = optim.schedule(config)
        totals = torch.zeros(3, dtype=torch.float64, device=self.device)
        highest = torch.zeros((), dtype=torch.float64, device=self.device)
        self.model.train()
        for step in range(steps):
            rows = order[step * config.batch : (step + 1) * config.batch][part]
            uniforms = torch.rand(config.batch, self.draws, generator=generator, dtype=torch.float64)[part]
            x = augment.normalise(self.view(rows, uniforms), spec.mean, spec.std)
            y = labels[rows.to(self.device)]
            # the factor at the middle of the step: a ramp neither starts nor ends with a step of length 0
            lr = config.lr * rate((number * steps + step + 0.5) / (config.epochs * steps))
            optim.set_lr(self.optimiser, lr)
            self.optimiser.zero_grad()
            logits = self.model(x).float()
            loss = F.cross_entropy(logits, y, label_smoothing=config.label_smoothing)
            self.fabric.backward(loss)
            norm = self._gradient_norm()
            self.optimiser.step()
            totals[0] += loss.detach()
            totals[1] += (logits.detach().argmax(1) != y).sum() / len(y)
            totals[2] += norm
            highest = torch.maximum(highest, norm)
        mean_loss, error, mean_norm = self.reduce(totals / steps, "mean")
        return {
            "epoch": number + 1,
            "lr": lr,
            "train_loss": finite(mean_loss),
            "train_error": error,
            "gradient_norm": finite(mean_norm),
            "gradient_norm_max": finite(highest.item()),
        }

    def _gradient_norm(self) -> Tensor:
        if self.config.precision == "fp16":  # gradients are scaled: this one knows by how much
            norm = self.fabric.clip_gradients(self.model, self.optimiser, max_norm=math.inf, error_if_nonfinite=False)
            return torch.as_tensor(norm).double()
        return torch.nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None]).double()


def _split(config: RunConfig, device: torch.device) -> data.Split:
    split = data.split(
        config.data,
        fold=config.fold,
        subset=config.subset,
        eval_subset=config.eval_subset,
        seed=config.seed,
        device=device,
    )
    if len(split.train_index) < config.batch:
        raise ValueError(
            f"RunConfig: batch = {config.batch} will not do: there are {len(split.train_index)} training pictures"
        )
    return split


def _resume(folder: Path | None, session: Session) -> _State:
    kept = None if folder is None else checkpoint.load(folder, session.config)
    if kept is None:
        return _State()
    session.network.load_state_dict(kept["model"])
    session.optimiser.optimizer.load_state_dict(kept["optimiser"])
    session.fabric.strategy.precision.load_state_dict(kept.get("precision", {}))
    torch.set_rng_state(kept["rng"]["cpu"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all(kept["rng"]["cuda"])
    return _State(**kept["state"])


def _keep(folder: Path, session: Session, state: _State) -> None:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    content = {
        "model": session.network.state_dict(),
        "optimiser": session.optimiser.optimizer.state_dict(),
        "precision": session.fabric.strategy.precision.state_dict(),  # the loss scale of fp16
        "rng": {"cpu": torch.get_rng_state(), "cuda": cuda},
        "state": vars(state),
    }
    checkpoint.save(folder, session.config, content)
