"""After training: another pool in the trained network, and one more epoch with it."""

from __future__ import annotations

from typing import Any

from lae_core.pooling import PoolSpec
from lae_core.training import evaluate

SWAP_RATE = 0.1  # of the run's learning rate, where the epoch after a swap starts
WHOLE_PICTURES: dict[str, Any] = {"early_size": None, "early_share": 0.5}  # no small pictures in that epoch


def after_swap(session: Any, pool: str, spread: float) -> dict[str, Any]:
    """Put another pool into the network of a finished session (`loop.Session`) and train one more epoch.

    Gives the accuracy before and after that epoch. Temperatures of the pool are in units of the spread over positions
    that the trained network's own pool sees. The epoch starts at `SWAP_RATE` of the run's learning rate and goes down
    to 0 as the run's schedule does.
    """
    config, spec = session.config, PoolSpec.parse(pool)
    if spec.name == "lae":
        pool = str(spec.replace(t0=float(f"{spec['t0'] * spread:.6g}")))
    other = type(session)(
        config.replace(pool=pool, epochs=1, lr=config.lr * SWAP_RATE, swaps=(), input_sizes=(), **WHOLE_PICTURES),
        session.fabric,
    )
    weights = {n: w for n, w in session.network.state_dict().items() if not n.startswith("global_pool.")}
    loaded = other.network.load_state_dict(weights, strict=False)
    differing = [n for n in (*loaded.missing_keys, *loaded.unexpected_keys) if not n.startswith("global_pool.")]
    if differing:
        raise RuntimeError(
            f"swaps: {differing[0]} is in one of the two networks only; expected all but global_pool in both"
        )
    before = other.validate()
    row = other.epoch(0)
    after = other.validate() if row["train_loss"] is not None else {"valid_error": None}
    return {
        "pool": pool,
        "accuracy_before": _accuracy(before),
        "accuracy": _accuracy(after),
        "temperatures": evaluate.temperatures(other.network),
    }


def _accuracy(row: dict[str, float | None]) -> float | None:
    error = row["valid_error"]
    return None if error is None else 1 - error
