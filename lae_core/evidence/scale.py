"""On what a verdict rests, read off the runs themselves: nobody says it, so nobody can say it wrong.

=========  ==========================================================================
symbolic   computer algebra
printed    the paper's own tables, decided again
cpu        our runs, with other networks, data or hyperparameters than the paper's
gpu        the printed protocol in fewer epochs, fewer runs or bf16, and the same in all else
paper      runs that agree with the printed protocol in every field, as many as there
=========  ==========================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lae_core.evidence.gate import family
from lae_core.paper import protocol, tables
from lae_core.runs.records import Record
from lae_core.training.config import RunConfig

SCALES: tuple[str, ...] = ("symbolic", "printed", "cpu", "gpu", "paper")  # of those with runs, the weakest first

# Fields that may differ from the printed protocol: which repeat it is, where it ran, what else was measured at the end.
FREE = ("seed", "fold", "device", "input_sizes", "swaps", "eval_every")


@dataclass(frozen=True)
class Printed:
    """The protocol of one experiment: what a config must equal, how many repeats, and of what kind."""

    candidates: Callable[[RunConfig], Iterable[RunConfig]]
    n: int
    over: str = "seed"


def _squeeze(config: RunConfig) -> Iterable[RunConfig]:
    if config.squeeze:
        return [protocol.squeeze_excite(config.pool, config.squeeze, config.data)]
    return [protocol.wrn(config.pool, config.data)]


def _pyramidnet(config: RunConfig) -> Iterable[RunConfig]:
    first = protocol.pyramidnet(config.pool, config.data)
    yield from (first, first.replace(last_activation="prelu"), first.replace(tail="bn-relu-pool"))
    yield first.replace(lr=0.5)  # the dropped section's other first learning rate
    yield protocol.pyramidnet_retuned(config.pool, config.data)


def _mxresnet(config: RunConfig, epochs: int = 5, tuned_for: str | None = None) -> RunConfig:
    return protocol.mxresnet(config.pool, family(config.data), config.image_size, epochs=epochs, tuned_for=tuned_for)


PROTOCOLS: dict[str, Printed] = {
    "wrn": Printed(lambda c: [protocol.wrn(c.pool, c.data)], tables()["wrn"].n or 0),
    "squeeze": Printed(_squeeze, tables()["se"].n or 0),
    "pyramidnet": Printed(_pyramidnet, 5),
    "mxresnet": Printed(lambda c: [_mxresnet(c)], tables()["mxresnet"].n_comment or 0),
    "input size": Printed(lambda c: [_mxresnet(c)], 28),  # its figures say 18 to 28
    "final temperature": Printed(lambda c: [_mxresnet(c, 25).replace(temperature_lr=c.temperature_lr)], 10, "fold"),
    "initial temperature": Printed(lambda c: (_mxresnet(c, 6, tuned) for tuned in (None, "avg")), 10, "fold"),
    "precision": Printed(lambda c: [_mxresnet(c, 6, "avg")], 10, "fold"),
}


def is_printed(config: RunConfig, experiment: str, *, shortened: bool = False) -> bool:
    """Whether a config agrees with the printed protocol of an experiment in every field that is not free.

    `shortened`: fewer epochs will do, and bf16 in place of the printed precision.
    """
    printed = PROTOCOLS[experiment]
    if (config.fold is None) == (printed.over == "fold"):
        return False
    free = {name: getattr(config, name) for name in FREE}
    try:
        for candidate in printed.candidates(config):
            less = {}
            if shortened and config.precision in (candidate.precision, "bf16"):
                less = {"epochs": min(config.epochs, candidate.epochs), "precision": config.precision}
            if candidate.replace(**free, **less) == config:
                return True
        return False
    except ValueError:  # the paper prints nothing for such a pool, data set or size
        return False


def scale_of(records: Sequence[Record], experiment: str) -> str:
    """*paper* where every run is of the printed protocol and every arm has its n, *gpu* where it is shortened.

    Anything else is *cpu*. An experiment without a name is not in the paper.
    """
    if not experiment:
        return "cpu"
    configs = [RunConfig.from_dict(record.config) for record in records]
    over = PROTOCOLS[experiment].over
    arms = Counter(config.replace(seed=0, fold=None, device="auto") for config in configs)
    repeats = Counter((config.replace(seed=0, fold=None, device="auto"), getattr(config, over)) for config in configs)
    enough = bool(arms) and all(n >= PROTOCOLS[experiment].n for n in arms.values()) and max(repeats.values()) == 1
    if enough and all(is_printed(config, experiment) for config in configs):
        return "paper"
    return "gpu" if configs and all(is_printed(c, experiment, shortened=True) for c in configs) else "cpu"
