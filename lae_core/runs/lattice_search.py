"""The paper's first search: steps of a fixed factor r along ρ, ρλ and ρ/(1−μ), each compared on the same folds.

Learning rate ρ, weight decay λ and momentum μ are taken to act through these three. A move (1) scales ρ by r;
(2) scales λ by r and ρ inversely, which keeps ρλ; (3) scales 1−μ by r and ρ likewise, which keeps ρ/(1−μ). A point of
the lattice is the number of steps made in each of the three.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lae_core.runs.search import Candidate, Measure, Params, SearchResult, evaluate, open_study, settled

Point = tuple[int, int, int]


@dataclass(frozen=True)
class Lattice:
    """The start and the resolution; the defaults are the paper's."""

    lr: float = 0.4
    weight_decay: float = 4e-4
    momentum: float = 0.9
    resolution: float = 1.6

    def __post_init__(self) -> None:
        if not (self.lr > 0 and self.weight_decay > 0 and 0 < self.momentum < 1 and self.resolution > 1):
            raise ValueError(
                f"{self} is invalid; expected lr, weight_decay > 0, momentum between 0 and 1, and resolution > 1"
            )

    def params(self, point: Point) -> Params:
        """The hyperparameters at a point."""
        rate, decay, inertia = point
        momentum = self.momentum_after(inertia)
        kept = (1 - momentum) / (1 - self.momentum)
        return {
            "lr": settled(self.lr * self.resolution ** (rate - decay) * kept),
            "weight_decay": settled(self.weight_decay * self.resolution**decay),
            "momentum": settled(momentum),
        }

    @property
    def scalings(self) -> int:
        """How often 1−μ can be scaled by r without passing 1."""
        return math.ceil(-math.log(1 - self.momentum) / math.log(self.resolution)) - 1

    def momentum_after(self, steps: int) -> float:
        """μ with 1−μ scaled by r each step. Where that would pass 1, μ is divided by r instead: two of the paper's
        printed values lie off the lattice and agree with this rule."""
        scaled = min(steps, self.scalings)
        return (1 - (1 - self.momentum) * self.resolution**scaled) / self.resolution ** (steps - scaled)


def lattice_search(
    measure: Measure,
    *,
    name: str,
    storage: str | Path | None,
    lattice: Lattice | None = None,
    folds: int = 5,
    seed: int = 0,
    limit: int = 200,
) -> SearchResult:
    """Walk the lattice downhill until no neighbour is better, or `limit` points were measured (then not converged).

    Directions to try first are drawn by `seed`. A direction that helped is kept until it no longer does. The study's
    attribute `path` lists the points walked, from the start to the best.
    """
    from optuna.distributions import FloatDistribution

    lattice = lattice or Lattice()
    study = open_study(name, storage, {"search": "lattice", **asdict(lattice), "folds": folds, "seed": seed})
    spans = {
        "lr": FloatDistribution(1e-9, 1e6, log=True),
        "weight_decay": FloatDistribution(1e-12, 1e3, log=True),
        "momentum": FloatDistribution(0.0, 1.0),
    }
    values: dict[Point, float] = {}

    def value(point: Point) -> float:
        if point not in values:
            candidate = Candidate(f"lattice {point}", lattice.params(point), tuple(range(folds)))
            values[point] = evaluate(study, [candidate], spans, measure)[0]
        return values[point]

    path: list[Point] = [(0, 0, 0)]
    best = value(path[0])
    ways = [int(way) for way in np.random.default_rng(seed).choice([-1, 1], size=3)]
    stuck, axis = 0, 0
    while stuck < 3 and len(values) < limit:
        moved = False
        for way in (ways[axis], -ways[axis]):
            while len(values) < limit and value(step := _step(path[-1], axis, way)) < best:
                best, moved, ways[axis] = values[step], True, way
                path.append(step)
            if moved:
                break
        stuck = 0 if moved else stuck + 1
        axis = (axis + 1) % 3
        study.set_user_attr("path", [list(point) for point in path])
    return SearchResult(lattice.params(path[-1]), best, stuck == 3, study)


def _step(point: Point, axis: int, way: int) -> Point:
    moved = list(point)
    moved[axis] += way
    return (moved[0], moved[1], moved[2])
