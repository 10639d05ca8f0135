"""`lae bench operator`: what pooling costs, in inference and forward + backward, as ratios to the plain mean.

All contenders take turns in one process, and the best of many rounds counts (`timing`). With one thread its CPU time counts,
which other processes lengthen less than the time on the wall. Freed memory is kept, as in a long training loop. Each
contender gets a gradient that differs from element to element, as it would in a network.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from lae_core.bench.report import write_report
from lae_core.bench.timing import best_of_pools, keep_freed_memory, seconds_of, turns
from lae_core.pooling import logavgexp, swap_global_pool
from lae_core.training.provenance import provenance

SHAPES = ((64, 512, 8, 8), (64, 2048, 8, 8), (64, 128, 28, 28), (8, 64, 112, 112), (2, 16, 4, 4))
TINY = 10_000  # elements; below that, a round is short and there are ten times as many
COMPILED = ("mean", "lae", "logsumexp")
PEERS = ("logsumexp", "logavgexp-pytorch", "timm LsePlus2d")


class _Timed(nn.Module):
    """A contender: one way to pool (batch, channels, height, width) to (batch, channels)."""

    def __init__(self, pool: Callable[[Tensor, Tensor | float], Tensor], t: float, trained: bool) -> None:
        super().__init__()
        self.pool = pool
        self.t = nn.Parameter(torch.tensor(t)) if trained else t

    def forward(self, z: Tensor) -> Tensor:
        return self.pool(z, self.t)


def textbook(z: Tensor, t: Tensor | float, dim: tuple[int, ...] = (2, 3)) -> Tensor:
    """t (logsumexp(z / t) - log n), as the paper writes it."""
    return t * (torch.logsumexp(z / t, dim) - math.log(math.prod(z.shape[d] for d in dim)))


def contenders(t: float, trained: bool) -> dict[str, nn.Module]:
    """Every pool under test by name; "mean" is what the others are measured against, "lae" is ours."""
    pools: dict[str, nn.Module] = {
        "mean": _Timed(lambda z, _: z.mean((2, 3)), t, False),
        "lae": _Timed(lambda z, t: logavgexp(z, t, dim=(2, 3)), t, trained),
        "logsumexp": _Timed(textbook, t, trained),
    }
    try:
        from logavgexp_pytorch import logavgexp as peer
        from timm.layers.other_pool import LsePlus2d
    except ImportError as error:
        raise SystemExit(f"lae bench operator needs the peers: pip install 'logavgexp[peers]' ({error})") from error
    pools["logavgexp-pytorch"] = _Timed(lambda z, t: peer(z.flatten(2), temp=t), t, trained)
    pools["timm LsePlus2d"] = LsePlus2d(r=1 / t, r_learnable=trained)
    return pools


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    shape: tuple[int, ...]
    layout: str  # contiguous or channels_last
    dtype: str
    temperature: str  # fixed or trained
    t: float
    threads: int
    values: str  # normal, or features: as behind a rectifier

    def input(self) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(self.shape, generator=generator)
        if self.values == "features":  # channels differ in scale, and in two maps of five nothing was found
            batch, channels = self.shape[:2]
            z = z.relu() * torch.randn(1, channels, 1, 1, generator=generator).exp()
            z = z * (torch.rand(batch, channels, 1, 1, generator=generator) > 0.4)
        z = z.to(getattr(torch, self.dtype))
        layout = torch.channels_last if self.layout == "channels_last" else torch.contiguous_format
        return z.to(memory_format=layout).requires_grad_()


def cases(args: argparse.Namespace) -> Iterator[Case]:
    dtypes = ["float32"] if args.quick else args.dtypes
    for values, threads, t, dtype in itertools.product(args.values, args.threads, args.t, dtypes):
        for layout in ("contiguous",) if args.quick else ("contiguous", "channels_last"):
            for temperature, shape in itertools.product(("fixed", "trained"), SHAPES[:1] if args.quick else SHAPES):
                yield Case(shape, layout, dtype, temperature, t, threads, values)


def measure(case: Case, rounds: int, compiled: bool) -> dict:
    """The best seconds of every contender, and the bytes that each keeps for its backward pass."""
    torch.set_num_threads(case.threads)
    z = case.input()
    pools = contenders(case.t, case.temperature == "trained")
    kept = {name: _bytes_kept(pool, z) for name, pool in pools.items()}
    if compiled:
        torch._dynamo.reset()
        for name in COMPILED:
            pools[f"{name}, compiled"] = cast(nn.Module, torch.compile(pools[name], fullgraph=True, dynamic=False))
    grad = torch.randn(case.shape[:2]).to(z.dtype)
    clock = time.thread_time if case.threads == 1 else time.perf_counter
    rounds = 10 * rounds if z.numel() < TINY else rounds
    return {**asdict(case), **best_of_pools(pools, z, grad, rounds, clock), "kept": kept}


def _bytes_kept(pool: nn.Module, z: Tensor) -> int:
    """The bytes that autograd keeps until the backward pass, beside the input itself."""
    storages: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        pool(z)
    storages.pop(z.untyped_storage().data_ptr(), None)
    return sum(storages.values())


def resnet50_step(rounds: int) -> dict:
    """What a trained LAE in place of average pooling adds to a ResNet-50 training step at 224 px; the two take turns.

    Whole steps vary by more than that. So `ratio` is from the time that the pools take within the step; `whole` has the
    quartiles of the rounds' ratios of whole steps, to compare.
    """
    from torchvision.models import resnet50

    rounds, batch = max(rounds, 2), 8  # with one round there are no quartiles
    images, labels = torch.randn(batch, 3, 224, 224), torch.randint(1000, (batch,))
    # one network whose pool is exchanged: two would lie elsewhere in memory
    model, lae = resnet50(), "lae(t0=4, train=one)"
    pools = {"avg": model.avgpool}
    swap_global_pool(model, lae)
    pools[lae] = model.avgpool
    within = {name: _seconds_within(pool) for name, pool in pools.items()}
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    steps: dict[str, list[float]] = {name: [] for name in pools}
    for order in turns([*pools], rounds):
        for name in order:
            model.avgpool = pools[name]
            steps[name].append(seconds_of(step, time.perf_counter))
    whole = {name: statistics.median(times[1:]) for name, times in steps.items()}  # the first round warms up
    pool = {name: sum(statistics.median(times[half::2][1:]) for half in (0, 1)) for name, times in within.items()}
    ratios = [b / a for a, b in zip(steps["avg"][1:], steps[lae][1:], strict=True)]
    return {
        "batch": batch,
        "rounds": rounds,
        "seconds": whole,
        "pool": pool,
        "ratio": 1 + (pool[lae] - pool["avg"]) / whole["avg"],
        "whole": statistics.quantiles(ratios, n=4),
    }


def _seconds_within(module: nn.Module) -> list[float]:
    """A list that gets the seconds of each of the module's forward and backward passes from now on, in turn."""
    seconds: list[float] = []
    began: list[float] = []

    def begin(*_: object) -> None:
        began.append(time.perf_counter())

    def end(*_: object) -> None:
        seconds.append(time.perf_counter() - began.pop())

    module.register_forward_pre_hook(begin)
    module.register_forward_hook(end)
    module.register_full_backward_pre_hook(begin)
    module.register_full_backward_hook(end)
    return seconds


def _row(result: dict) -> str:
    both, mean = result["both"], {kind: result[kind]["mean"] for kind in ("forward", "both")}
    fastest = {kind: min(result[kind][name] for name in PEERS) for kind in ("forward", "both")}
    shape = "x".join(map(str, result["shape"]))
    cells = [
        f"{shape:14} {result['layout']:13} {result['dtype']:8} {result['values']:8} {result['threads']} {result['t']:<4g} "
        f"{result['temperature']:7}"
    ]
    cells += [f"{result['forward'][n] / mean['forward']:5.1f} {both[n] / mean['both']:5.1f}" for n in ("lae", *PEERS)]
    cells += [f"{fastest[kind] / result[kind]['lae']:6.2f}x" for kind in ("forward", "both")]
    if "lae, compiled" in both:
        cells += [f"{fastest['both'] / both['lae, compiled']:6.2f}x"]
    return "  ".join(cells)


def main(args: argparse.Namespace) -> int:
    keep_freed_memory()
    where = provenance()
    print(f"{where['cpu']}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}")
    print(
        "ratios to mean, inference and forward + backward; how many times as fast as the fastest eager peer lae is, in"
    )
    print("inference and forward + backward, and compiled, forward + backward")
    names = "  ".join(f"{name[:11]:>11}" for name in ("lae", *PEERS))
    print(
        f"{'shape':14} {'layout':13} {'dtype':8} {'values':8} # {'t':4} {'is':7}  {names}  inference    both compiled",
        flush=True,
    )
    file = None if args.json == "-" else args.json
    report = _earlier(file, where) | {"provenance": where, "rounds": args.rounds}
    known = {_key(case): case for case in report["cases"]}
    for case in cases(args):
        result = measure(case, args.rounds, not (args.eager or args.quick))
        print(_row(result), flush=True)
        known[_key(result)] = result
        report["cases"] = [*known.values()]
        write_report(report, file)  # a long run that is stopped loses nothing
    if args.resnet50:
        report["resnet50"] = resnet50_step(args.rounds)
        low, middle, high = report["resnet50"]["whole"]
        print(
            f"ResNet-50 training step at 224 px, lae / avg: {report['resnet50']['ratio']:.4f} by the time in the pool; "
            f"whole steps {middle:.4f} (half of the rounds: {low:.4f} to {high:.4f})"
        )
    write_report(report, args.json)
    return 0


def _earlier(file: str | None, where: dict) -> dict:
    """What FILE holds already from such a machine: a second call with other options adds to it."""
    if file and Path(file).exists():
        report: dict = json.loads(Path(file).read_text())
        if all(report["provenance"][key] == where[key] for key in ("cpu", "versions")):
            return report
    return {"cases": []}


def _key(result: dict) -> str:
    # as JSON, because a shape is a tuple when measured, and a list when read
    return json.dumps([result[f.name] for f in fields(Case)])
