"""How contenders are timed: in one process, in turns, so that a slow moment of the machine hits each alike."""

from __future__ import annotations

import ctypes
import functools
import sys
import time
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn


def turns(names: list[str], rounds: int) -> Iterator[list[str]]:
    """The order of each round, after one that only warms up.

    It changes from round to round, as each contender finds in the cache what its predecessor left there.
    """
    for turn in range(rounds + 1):
        lap, start = divmod(turn, len(names))
        order = names[start:] + names[:start]
        yield order[::-1] if lap % 2 else order


def seconds_of(call: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def best(seconds: dict[str, list[float]]) -> dict[str, float]:
    """The least of each contender's times; the first round only warms up."""
    return {name: min(times[1:]) for name, times in seconds.items()}


def best_of(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best CPU-seconds of each contender."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for order in turns([*contenders], rounds):
        for name in order:
            seconds[name].append(seconds_of(contenders[name], time.process_time))
    return best(seconds)


def best_of_pools(
    pools: dict[str, nn.Module], z: Tensor, grad: Tensor, rounds: int, clock: Callable[[], float] = time.thread_time
) -> dict[str, dict[str, float]]:
    """The best seconds of each pool of z, inference ("forward") and forward + backward ("both")."""
    forward: dict[str, list[float]] = {name: [] for name in pools}
    both: dict[str, list[float]] = {name: [] for name in pools}
    for order in turns([*pools], rounds):
        for name in order:
            # one graph is compiled for training; its forward half stands for forward
            with torch.set_grad_enabled("compiled" in name):
                forward[name].append(seconds_of(functools.partial(pools[name], z), clock))
        for name in order:
            leaves = [z, *pools[name].parameters()]
            both[name].append(seconds_of(functools.partial(_step, pools[name], leaves, grad), clock))
    return {"forward": best(forward), "both": best(both)}


def _step(pool: nn.Module, leaves: list[Tensor], grad: Tensor) -> None:
    # not .backward(), which would also time how the gradient is stored in z.grad
    torch.autograd.grad(pool(leaves[0]), leaves, grad)


def keep_freed_memory() -> None:
    """Tell glibc to keep what is freed, as in a long training loop. Elsewhere the allocator is left as it is."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(-4, 0)  # M_MMAP_MAX: no tensor gets memory that goes back to the system with it
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
