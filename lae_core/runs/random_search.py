"""The paper's second search: random draws, the box shrunk twice to the span of the best, the best measured again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from lae_core.runs.search import Candidate, Measure, Params, SearchResult, evaluate, open_study, settled

FOLDS = 5  # parts of one shuffle of the training set; another shuffle begins at the next multiple


@dataclass(frozen=True)
class Range:
    """The values of one hyperparameter: drawn evenly in log x, in log(1−x) ("complement"), or in x itself."""

    low: float
    high: float
    scale: Literal["log", "complement", "linear"] = "log"

    def __post_init__(self) -> None:
        inside = {"log": self.low > 0, "complement": self.high < 1, "linear": True}
        if self.scale not in inside or not inside[self.scale] or not self.low <= self.high:
            raise ValueError(f"{self} is invalid; expected low <= high, above 0 for log, below 1 for complement")

    @classmethod
    def around(cls, centre: float, factor: float = 10, scale: Literal["log", "complement"] = "log") -> Range:
        if scale == "log":
            return cls(centre / factor, centre * factor)
        return cls(1 - (1 - centre) * factor, 1 - (1 - centre) / factor, "complement")

    def coordinate(self, x: float) -> float:
        return {"log": math.log, "complement": lambda v: -math.log1p(-v), "linear": float}[self.scale](x)

    def value(self, coordinate: float) -> float:
        back = {"log": math.exp, "complement": lambda c: -math.expm1(-c), "linear": float}[self.scale](coordinate)
        return min(max(settled(back), self.low), self.high)  # rounding must not leave the box

    def draw(self, uniform: float) -> float:
        low, high = self.coordinate(self.low), self.coordinate(self.high)
        return self.value(low + uniform * (high - low))

    def span(self, values: Sequence[float]) -> Range:
        return Range(min(values), max(values), self.scale)

    def mean(self, values: Sequence[float]) -> float:
        """The geometric mean for "log", that of 1−x for "complement", the plain one for "linear"."""
        return self.value(sum(map(self.coordinate, values)) / len(values))


PAPER_SPACE: Mapping[str, Range] = {
    "lr": Range.around(0.004),
    "momentum": Range.around(0.95, scale="complement"),
    "beta2": Range.around(0.99, scale="complement"),
    "eps": Range.around(1e-6),
    "weight_decay": Range.around(0.02),
    "flat": Range(0.5, 0.85, "linear"),
}


def random_search(
    measure: Measure,
    *,
    name: str,
    storage: str | Path | None,
    space: Mapping[str, Range] | None = None,
    samples: Sequence[int] = (100, 100, 100),
    top: int = 10,
    finalists: int = 5,
    means: Sequence[int] = (5, 10),
    seed: int = 0,
) -> SearchResult:
    """Draw `samples[0]` points, refine the box to the span of the `top` best, and so on; each stage on a new split.

    Then the best `finalists` of the last stage, and the mean of the best 5 and 10, are measured on five folds of a
    fresh shuffle, and the best of them wins. The defaults are the paper's for Imagenette at 128 px.
    """
    from optuna.distributions import FloatDistribution

    start = dict(space or PAPER_SPACE)
    if not samples or min(samples) < max(top, finalists):
        raise ValueError(
            f"samples = {tuple(samples)} is invalid; expected at least {max(top, finalists)} in each stage"
        )
    settings = {"space": {field: asdict(box) for field, box in start.items()}, "samples": list(samples), "top": top}
    settings |= {"search": "random", "finalists": finalists, "means": list(means), "seed": seed}
    study = open_study(name, storage, settings)
    spans = {field: FloatDistribution(box.low, box.high, log=box.scale == "log") for field, box in start.items()}
    boxes, ranked = start, list[Params]()
    for stage, count in enumerate(samples):
        drawn = [_draw(boxes, seed, stage, index) for index in range(count)]
        candidates = [
            Candidate(f"stage {stage} draw {index}", params, (FOLDS * stage,)) for index, params in enumerate(drawn)
        ]
        errors = evaluate(study, candidates, spans, measure)
        ranked = [params for _, params in sorted(zip(errors, drawn, strict=True), key=lambda pair: pair[0])]
        boxes = {field: box.span([params[field] for params in ranked[:top]]) for field, box in boxes.items()}
    last = tuple(range(FOLDS * len(samples), FOLDS * (len(samples) + 1)))
    finals = [Candidate(f"final {index}", params, last) for index, params in enumerate(ranked[:finalists])]
    for count in means:
        mean = {field: box.mean([params[field] for params in ranked[:count]]) for field, box in start.items()}
        finals.append(Candidate(f"final mean of {count}", mean, last))
    errors = evaluate(study, finals, spans, measure)
    best = min(range(len(finals)), key=errors.__getitem__)
    return SearchResult(dict(finals[best].params), errors[best], True, study)


def _draw(boxes: Mapping[str, Range], seed: int, stage: int, index: int) -> Params:
    """From its own number alone, so that a search that resumes draws the same; a sampler's state would start over."""
    uniforms = np.random.default_rng([seed, stage, index]).random(len(boxes))
    return {field: box.draw(float(u)) for (field, box), u in zip(boxes.items(), uniforms, strict=True)}
