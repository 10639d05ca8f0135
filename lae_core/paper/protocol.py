"""The printed protocol as configs: every network of the paper with the hyperparameters of its tables.

A row that the paper gives no hyperparameters for takes those of its nearest printed one (t₀ = 4 those of t₀ = 1), as
`choices` on the page about training says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lae_core.paper import searches, tables
from lae_core.paper.lattice import printed_lattice
from lae_core.pooling import PoolSpec
from lae_core.training.config import Precision, RunConfig

# Parameters known for the networks as the paper builds them, with average pooling and ten classes.
PARAMETERS = {"wrn": 6_173_472, "pyramidnet": 16_676_730, "mxresnet": 23_641_003}

# Each size of picture could be cut from the archive that the benchmark provides for it; the cited code takes full size.
ARCHIVE = {128: 160, 256: 320}

# AutoAugment fills with grey as the cited codes do, and the slopes of PReLUs decay as in Hoffer's.
WRN = RunConfig(fill=128, decay_slopes=True)
# ShakeDrop's code takes Nesterov momentum by default, and decays everything.
PYRAMIDNET = RunConfig(
    network="pyramidnet", depth=110, width=200, last_activation="relu", batch=128, epochs=300, schedule="step", lr=0.1,
    weight_decay=1e-4, decay_norm=True, nesterov=True, fill=128,
)  # fmt: skip


def printed_pool(pool: str) -> str:
    """The pool under which the paper prints hyperparameters: whatever t₀ or precision, those of t₀ = 1."""
    spec = PoolSpec.parse(pool)
    kept = [f"{name}={value}" for name, value in spec.arguments if name == "train"]
    return str(PoolSpec.parse(f"{spec.name}({', '.join(kept)})"))


def wrn(pool: str, data: str, *, tuned_for: str | None = None) -> RunConfig:
    """N2: WRN-18-6 with the hyperparameters of `tuned_for`, by default of the pool itself."""
    return _with("hyper_wrn", WRN.replace(pool=pool, data=data), pool=tuned_for or pool, data=data)


def squeeze_excite(pool: str, squeeze: str, data: str) -> RunConfig:
    """N3: the same with Squeeze-and-Excitation."""
    base = WRN.replace(pool=pool, squeeze=squeeze, data=data)
    return _with("hyper_se", base, pool=pool, squeeze_pool=squeeze, data=data)


def mxresnet(
    pool: str,
    data: str,
    size: int,
    *,
    tuned_for: str | None = None,
    epochs: int = 5,
    archive: str = "full",
    precision: Precision = "fp16",
) -> RunConfig:
    """N4: MXResNet-50 on Imagenette or Imagewoof, version 1, at 128 or 256 px.

    As in the cited code: full-size pictures (`archive` "small" takes those of 160 or 320 px), the network in FP16 with
    dynamic loss scaling, and validation on the middle of a picture that is 32 px larger.
    """
    if size not in ARCHIVE:
        sizes = " or ".join(map(str, ARCHIVE))
        raise ValueError(f"size = {size!r} is invalid; expected {sizes}, for which the paper prints hyperparameters")
    if archive not in ("full", "small"):
        raise ValueError(f"archive = {archive!r} is invalid; expected 'full' or 'small'")
    base = RunConfig(
        network="mxresnet", depth=50, width=1, pool=pool, data=f"{data}-{archive if archive == 'full' else ARCHIVE[size]}",
        image_size=size, augment="resize-crop", label_smoothing=0.1, optimiser="ranger", schedule="flat-cosine",
        batch=64, epochs=epochs, valid_crop=size / (size + 32), precision=precision,
    )  # fmt: skip
    return _with("hyper_mxresnet", base, pool=tuned_for or pool, data=data, size=size)


def pyramidnet(pool: str, data: str, **changes: Any) -> RunConfig:
    """N1: PyramidNet-110 with ShakeDrop, with the tail of the dropped figure."""
    return PYRAMIDNET.replace(pool=pool, data=data, tail="bn-pool-bn-relu", **changes)


def pyramidnet_retuned(pool: str, data: str) -> RunConfig:
    """N1 as the authors re-tuned it by hand, on CIFAR-100: also with a PReLU in its tail."""
    return _with("hyper_pyramidnet", pyramidnet(pool, data, last_activation="prelu"), pool=pool, data=data)


@dataclass(frozen=True)
class Search:
    """One hyperparameter search: the runs that it varies, and the arguments of the function that searches."""

    config: RunConfig
    settings: dict[str, Any]


def lattice_searches() -> dict[str, Search]:
    """N5: one search for each row of the hyperparameter tables of WRN-18-6, without and with Squeeze-and-Excitation."""
    printed = searches()["lattice"]
    settings = {"lattice": printed_lattice(), "folds": printed["folds"]}
    found = {}
    for row in tables()["hyper_wrn"].frame().itertuples():
        config = WRN.replace(pool=row.pool, data=row.data, epochs=printed["epochs"])
        found[f"{row.data}, {row.pool}"] = Search(config, settings)
    for row in tables()["hyper_se"].frame().itertuples():
        config = WRN.replace(pool=row.pool, squeeze=row.squeeze_pool, data=row.data, epochs=printed["epochs"])
        found[f"{row.data}, {row.pool}, squeeze {row.squeeze_pool}"] = Search(config, settings)
    return found


def random_searches() -> dict[str, Search]:
    """N6: one search for each row of the hyperparameter table of MXResNet."""
    printed = searches()["random"]
    found = {}
    for row in tables()["hyper_mxresnet"].frame().itertuples():
        size = int(row.size)
        settings = {"samples": printed["samples"][row.data][size], "top": printed["top"][size]}
        settings |= {name: printed[name] for name in ("finalists", "means")}
        config = mxresnet(row.pool, row.data, size, epochs=printed["epochs"])
        found[f"{row.data} {size}, {row.pool}"] = Search(config, settings)
    return found


def _with(table: str, base: RunConfig, **row: Any) -> RunConfig:
    frame = tables()[table].frame()
    for column, value in row.items():
        wanted = printed_pool(value) if column in ("pool", "squeeze_pool") else value
        frame = frame[frame[column] == wanted]
        if frame.empty:
            given = sorted({str(entry) for entry in tables()[table].frame()[column]})
            raise ValueError(
                f"{column} = {value!r} is invalid; expected one that the paper prints hyperparameters for: {', '.join(given)}"
            )
    printed = frame.iloc[0]
    names = {"lr": "lr", "weight_decay": "weight_decay", "momentum": "momentum"}
    names |= {"beta2": "beta2", "eps": "eps", "flat": "flat_share"} if "beta2" in printed else {}
    names |= {"lr_decay": "lr_decay"} if "lr_decay" in printed else {}
    return base.replace(**{field: float(printed[column]) for field, column in names.items()})
