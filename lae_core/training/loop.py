"""One training run: a `RunConfig` in, a record out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import LightningEnvironment
from torch import Tensor
from torch.nn import functional as F

from lae_core.models.whiten import whiten_first_convolution
from lae_core.training import augment, checkpoint, data, deadline, evaluate, execution, network, optim
from lae_core.training.config import RECIPE, RunConfig
from lae_core.training.evaluate import finite
from lae_core.training.provenance import provenance
from lae_core.training.swaps import after_swap
from lae_core.training.transfer import send

PRECISIONS: dict[str, Any] = {"fp32": "32-true", "fp64": "64-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
Progress = Callable[[int, int, dict[str, Any]], None]
CHECKPOINT_SECONDS = 120.0  # between checkpoints inside an epoch, so that a kill costs little of a long run
WHITENING_PICTURES = 5000  # training pictures that a whitened stem is computed from


def run(config: RunConfig, *, checkpoint_dir: Path | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Train one network and return its record, a tree of plain values that JSON can hold.

    With `checkpoint_dir` the run writes a checkpoint after each epoch, after each swap and, in one process, every two
    minutes within an epoch. It goes on from a checkpoint that it finds there; the record is the same, bit for bit,
    however often it was interrupted. `progress(done, epochs, row)` is called after each epoch. Past the time limit
    (`deadline.py`) a run that keeps checkpoints writes one and raises `TimeUp`.

    The record: `config`, `key`, `status` ("finished", or "diverged" where a loss was not finite), `epochs` (one row
    each: losses, errors as shares, learning rate, gradient norms, temperatures, the spread over positions that the
    pool sees), `final`, `pools` (their parameters at the end), `input_sizes` (accuracy by view and size), `swaps`
    (accuracy with other pools, where the config names some), `network`; and, apart
    because no two runs share them, `times` and `provenance`.
    """
    fabric = _fabric(config)
    folder = None if checkpoint_dir is None else Path(checkpoint_dir)
    with _torch_state(config, fabric.device):
        if config.processes == 1:
            return _train(fabric, config, folder, progress)
        launch: Any = fabric.launch  # its annotation forgets the arguments that it passes on
        return launch(_train_in_process, config.to_dict(), folder, progress)


def _fabric(config: RunConfig) -> Fabric:
    device = config.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    config.check("recipe", config.recipe == RECIPE, f"{RECIPE}, which this program trains")
    config.check("device", device == "cpu" or torch.cuda.is_available(), "'cpu' or 'auto': torch sees no GPU here")
    config.check("precision", config.precision != "fp16" or device != "cpu", "'fp32' or 'bf16' on a CPU")
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
def _torch_state(config: RunConfig, device: torch.device) -> Iterator[None]:
    """Torch's global state as the run needs it, put back afterwards."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if config.precision == "fp64" else torch.float32)
    try:
        with execution.applied(device), torch.random.fork_rng():
            yield
    finally:
        torch.set_default_dtype(dtype)


@dataclass
class _Part:
    """Progress within an epoch, saved in checkpoints."""

    step: int  # steps done
    totals: Tensor  # sums over them of loss, share of errors and gradient norm
    highest: Tensor  # the largest gradient norm
    generator: Tensor  # state of the generator of order and draws


@dataclass
class _State:
    """Progress of a run, saved in checkpoints beside the weights."""

    epoch: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    status: str = "running"
    train_seconds: list[float] = field(default_factory=list)
    valid_seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)  # of this process, per epoch with its validation
    part: dict[str, Any] | None = None  # the `_Part` of an epoch under way
    part_seconds: tuple[float, float] = (0.0, 0.0)  # what it took so far, by the clock and of CPU time
    swapped: dict[str, dict[str, Any]] = field(default_factory=dict)  # by pool: what `after_swap` gave


def _train_in_process(fabric: Fabric, config: dict[str, Any], *rest: Any) -> dict[str, Any]:
    """`_train` in a spawned process, for which Fabric passes on plain values only; one thread, as its share."""
    torch.set_num_threads(1)
    whole = RunConfig.from_dict(config)
    with _torch_state(whole, fabric.device):
        return _train(fabric, whole, *rest)


def _train(fabric: Fabric, config: RunConfig, folder: Path | None, progress: Progress | None) -> dict[str, Any]:
    began = time.perf_counter()
    session = Session(config, fabric)
    state = _resume(folder, session)
    while state.epoch < config.epochs and state.status == "running":
        row = _train_epoch(folder, session, state)
        if folder is not None and fabric.is_global_zero:
            _save_checkpoint(folder, session, state)
        if folder is not None and state.status == "running" and deadline.passed():
            raise deadline.TimeUp(f"epoch {state.epoch} of {config.epochs} done")
        if progress is not None and fabric.is_global_zero:
            progress(state.epoch, config.epochs, row)

    end = state.rows[-1]
    final: dict[str, float] = {}
    sizes: dict[str, dict[str, float]] = {}
    swaps: dict[str, dict[str, Any]] = {}
    if state.status == "finished":
        final = {name: end[name] for name in ("train_loss", "train_error", "valid_loss", "valid_error")}
        final["accuracy"] = 1 - end["valid_error"]
        sizes = evaluate.accuracy_by_input_size(session.model, config, session.split) if config.input_sizes else {}
        swaps = _train_after_swaps(folder, session, state)
    return {
        "config": config.to_dict(),
        "key": config.key(),
        "status": state.status,
        "epochs": state.rows,
        "final": final,
        "pools": evaluate.pool_state(session.network),
        "input_sizes": sizes,
        **({"swaps": swaps} if config.swaps else {}),
        "network": session.facts,
        "times": {
            "train": state.train_seconds,
            "validation": state.valid_seconds,
            "cpu": state.cpu_seconds,
            "total": sum(state.train_seconds) + sum(state.valid_seconds),
            "last_start": time.perf_counter() - began,
        },
        "provenance": provenance(fabric.device),
    }


def _train_epoch(folder: Path | None, session: Session, state: _State) -> dict[str, Any]:
    """Train for an epoch, or for the rest of one, and validate where that is due. Its row is added to the state."""
    config = session.config
    # earlier by what the part of this epoch took that a checkpoint held
    start, cpu_start = time.perf_counter() - state.part_seconds[0], time.process_time() - state.part_seconds[1]
    part = None if state.part is None else _Part(**state.part)
    row = session.epoch(state.epoch, part, _part_keeper(folder, session, state, start, cpu_start))
    state.epoch += 1
    state.train_seconds.append(time.perf_counter() - start)
    state.part, state.part_seconds = None, (0.0, 0.0)
    last = state.epoch == config.epochs
    if row["train_loss"] is not None and (last or state.epoch % config.eval_every == 0):
        start = time.perf_counter()
        row |= session.validate()
        state.valid_seconds.append(time.perf_counter() - start)
    state.cpu_seconds.append(time.process_time() - cpu_start)
    row["temperatures"] = evaluate.temperatures(session.network)
    state.rows.append(row)
    if row["train_loss"] is None or row.get("valid_loss", 0.0) is None:
        state.status = "diverged"
    elif last:
        state.status = "finished"
    return row


def _part_keeper(
    folder: Path | None, session: Session, state: _State, start: float, cpu_start: float
) -> Callable[[_Part], None] | None:
    """What writes checkpoints within an epoch that began at these times; None for a run that keeps none there."""
    if folder is None or session.config.processes > 1:
        return None
    saved = time.perf_counter()

    def keep(part: _Part) -> None:
        nonlocal saved
        late = deadline.passed()
        if not late and time.perf_counter() - saved < CHECKPOINT_SECONDS:
            return
        state.part = vars(part)
        state.part_seconds = (time.perf_counter() - start, time.process_time() - cpu_start)
        _save_checkpoint(folder, session, state)
        saved = time.perf_counter()
        if late:
            raise deadline.TimeUp(f"epoch {state.epoch + 1} of {session.config.epochs}, step {part.step}")

    return keep


class Session:
    """The data of a run, and its network and optimiser as Fabric runs them; trains for an epoch, and validates."""

    def __init__(self, config: RunConfig, fabric: Fabric | None = None) -> None:
        self.config, self.fabric = config, fabric or _fabric(config)
        self.device = self.fabric.device
        torch.manual_seed(config.seed)
        self.split = _split(config, self.device)
        # built on the CPU, so that a seed gives the same weights on every device
        self.network = network.build(config)
        if config.whiten:
            chosen = self.split.train_index[:WHITENING_PICTURES]
            pictures = augment.whole(self.split.train, chosen, config.image_size).cpu()
            spec = self.split.spec
            whiten_first_convolution(self.network, augment.normalise(pictures, spec.mean, spec.std))
        self.facts = network.measure(self.network, config.image_size)
        settings = execution.settings(self.device)
        self.channels_first, self.compiled = "channels-first" in settings, "compile" in settings
        if not self.channels_first:
            self.network.to(memory_format=torch.channels_last)
        fused: Any = torch.compile(self.network) if self.compiled else self.network
        self.model: Any = self.fabric.setup_module(fused)
        self.optimiser: Any = self.fabric.setup_optimizers(optim.optimiser(self.network, config))
        self.draws, self.view = self._views(config.image_size)
        self.early_view = self.view
        if config.early_size is not None and config.augment == "resize-crop":
            # made small at once; the views of the other kinds are made at their full size, then resized
            _, self.early_view = self._views(config.early_size)
        # pictures that are mirrored in the first epoch, where `flip` is "alternate"
        self.mirrored_first = (
            torch.rand(len(self.split.train), generator=torch.Generator().manual_seed(config.seed)) < 0.5
        )
        mine = self.split.valid_index[self.fabric.global_rank :: self.fabric.world_size]
        self.valid = evaluate.views(config, self.split, config.image_size, mine)
        self.valid_labels = self.split.valid.labels[mine.to(self.device)]

    def _views(self, size: int) -> tuple[int, Callable[[Tensor, Tensor], Tensor]]:
        config = self.config
        draws, view = augment.training_view(
            config.augment, self.split.train, size, config.crop_scale, config.pad, config.pad_mode, config.fill
        )
        if config.cutout:
            return augment.with_cutout(draws, view, config.cutout, self.split.spec.mean)
        return draws, view

    def reduce(self, totals: Tensor, operation: str) -> list[float]:
        """The sum or the mean over all processes."""
        return torch.as_tensor(self.fabric.all_reduce(totals, reduce_op=operation)).tolist()

    def validate(self) -> dict[str, float | None]:
        totals = evaluate.evaluate(self.model, self.valid, self.valid_labels, self.split)
        loss, wrong, count = self.reduce(totals, "sum")
        # compiled code does not call the hook that looks at what the pool sees
        with torch.compiler.set_stance("force_eager") if self.compiled else nullcontext():
            spread = evaluate.pool_spread(self.model, self.network, self.valid, self.split)
        return {"valid_loss": finite(loss / count), "valid_error": wrong / count, "spread": spread}

    def epoch(
        self, number: int, part: _Part | None = None, keep: Callable[[_Part], None] | None = None
    ) -> dict[str, Any]:
        """Train on every picture once (the last incomplete batch is left out) and summarise.

        `keep` is called after each step with the progress within the epoch; given back as `part`, it resumes there.
        """
        config, labels = self.config, self.split.train.labels
        # The order and the draws belong to the whole batch, so they do not depend on the number of processes.
        seed = int(np.random.SeedSequence([config.seed, number]).generate_state(1, np.uint64)[0] >> 1)
        generator = torch.Generator().manual_seed(seed)
        order = self.split.train_index[torch.randperm(len(self.split.train_index), generator=generator)]
        steps = len(order) // config.batch
        share = config.batch // self.fabric.world_size
        mine = slice(self.fabric.global_rank * share, (self.fabric.global_rank + 1) * share)
        rate = optim.schedule(config)

        def progress_at(step: int) -> float:
            # at the middle of the step: a ramp neither starts nor ends with a step of length 0
            return (number * steps + step + 0.5) / (config.epochs * steps)

        totals = torch.zeros(3, dtype=torch.float64, device=self.device)
        highest = torch.zeros((), dtype=torch.float64, device=self.device)
        first = 0
        if part is not None:
            first, totals, highest = part.step, part.totals.to(self.device), part.highest.to(self.device)
            generator.set_state(part.generator)
        self.model.train()
        for step in range(first, steps):
            rows = order[step * config.batch : (step + 1) * config.batch][mine]
            uniforms = torch.rand(config.batch, self.draws, generator=generator, dtype=torch.float64)[mine]
            if config.flip == "alternate":
                mirrored = self.mirrored_first[rows] ^ bool(number % 2)
                uniforms[:, augment.mirror_draw(config.augment)] = torch.where(mirrored, 0.25, 0.75).double()
            progress = progress_at(step)
            optim.set_lr(self.optimiser, config.lr * rate(progress))
            self.optimiser.zero_grad()
            size = config.early_size if config.early_size and progress < config.early_share else config.image_size
            micro_batch = config.micro_batch or share
            for begin in range(0, share, micro_batch):
                piece = slice(begin, begin + micro_batch)
                loss, wrong = self._accumulate(
                    rows[piece], uniforms[piece], labels[send(rows[piece], self.device)], size
                )
                totals[0] += loss
                totals[1] += wrong
            norm = self._gradient_norm()
            self.optimiser.step()
            totals[2] += norm
            highest = torch.maximum(highest, norm)
            if keep is not None:
                keep(_Part(step + 1, totals, highest, generator.get_state()))
        mean_loss, error, mean_norm = self.reduce(totals / steps, "mean")
        return {
            "epoch": number + 1,
            "lr": config.lr * rate(progress_at(steps - 1)),
            "train_loss": finite(mean_loss),
            "train_error": error,
            "gradient_norm": finite(mean_norm),
            "gradient_norm_max": finite(highest.item()),
        }

    def _accumulate(self, rows: Tensor, uniforms: Tensor, y: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Add the gradient of some pictures of a batch; their part of its mean loss and of its share of errors."""
        config, spec = self.config, self.split.spec
        view = self.view if size == config.image_size else self.early_view
        x = augment.normalise(view(rows, uniforms), spec.mean, spec.std)
        if self.channels_first:
            x = x.contiguous()
        if x.shape[-1] != size:
            x = F.interpolate(x, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
        logits = self.model(x).float()
        share = config.batch // self.fabric.world_size
        loss = F.cross_entropy(logits, y, label_smoothing=config.label_smoothing) * (len(y) / share)
        self.fabric.backward(loss * config.batch if config.loss == "sum" else loss)
        return loss.detach(), (logits.detach().argmax(1) != y).sum() / share

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
    pictures = len(split.train_index)
    config.check("batch", config.batch <= pictures, f"at most the {pictures} training pictures")
    return split


def _train_after_swaps(folder: Path | None, session: Session, state: _State) -> dict[str, dict[str, Any]]:
    """One more epoch with each pool of `swaps`. Together they can take as long as a run, so each is kept when it ends."""
    for pool in session.config.swaps:
        if pool in state.swapped:
            continue
        if folder is not None and deadline.passed():
            raise deadline.TimeUp(f"{len(state.swapped)} of {len(session.config.swaps)} swaps done")
        state.swapped[pool] = after_swap(session, pool, state.rows[-1]["spread"])
        if folder is not None and session.fabric.is_global_zero:
            _save_checkpoint(folder, session, state)
    return state.swapped


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


def _save_checkpoint(folder: Path, session: Session, state: _State) -> None:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    content = {
        "model": session.network.state_dict(),
        "optimiser": session.optimiser.optimizer.state_dict(),
        "precision": session.fabric.strategy.precision.state_dict(),  # the loss scale of fp16
        "rng": {"cpu": torch.get_rng_state(), "cuda": cuda},
        "state": vars(state),
    }
    checkpoint.save(folder, session.config, content)
