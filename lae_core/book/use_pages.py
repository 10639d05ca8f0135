"""Numbers of the part *Use it*: what pooling costs and which models can be swapped, from what was recorded.

`write` is one of the build's generators. It makes `book/_generated/cost.md` from what `lae bench operator` measured,
`book/_generated/windows.md` from what `lae bench windows` did, and `book/_generated/swapped.md` from the list that the tests of
`swap_global_pool` keep.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from lae_core.book.stage import Stage
from lae_core.book.template import fill
from lae_core.figures import speed

# as they are called in the record, and on the page
_POOLS = {
    "mean": "the mean",
    "lae": "`logavgexp`",
    "lae, compiled": "`logavgexp`, compiled",
    "logsumexp": "textbook form, `torch.logsumexp`",
    "logsumexp, compiled": "textbook form, compiled",
    "logavgexp-pytorch": "logavgexp-pytorch",
    "timm LsePlus2d": "timm's `LsePlus2d`",
}
_UNKNOWN = "–"


def write(stage: Stage) -> None:
    """Write the pieces into the staged tree."""
    results = stage.root / "book" / "results"
    stage.write("_generated/cost.md", cost(results / "bench_operator.json"))
    stage.write(
        "_generated/windows.md", window_cost(json.loads((results / "bench_windows.json").read_text(encoding="utf-8")))
    )
    models = stage.root / "tests" / "pooling" / "swapped.json"
    stage.write("_generated/swapped.md", swapped(json.loads(models.read_text(encoding="utf-8"))))


def cost(recorded: Path) -> str:
    """Time and memory of each pool as multiples of the mean's time and the input's size, over the shapes recorded."""
    frame, report = speed.load(recorded)
    part = speed.plainest(frame, "float32")
    if part.empty:
        raise ValueError(
            f"{recorded} has no case in float32 at t = 1 on one thread; `lae bench operator` measures them"
        )
    rows = []
    for pool, shown in _POOLS.items():
        own = part[part["pool"] == pool]
        times = (_span(own.loc[own["temperature"] == kind, "both"]) for kind in ("fixed", "trained"))
        rows.append((shown, *times, _span(own["kept"].dropna())))
    whole = report.get("resnet50")
    return fill(
        "cost.md", rows=rows, shapes=part["shape"].unique(), unknown=_UNKNOWN, whole=whole, machine=report["provenance"]
    )


def window_cost(report: dict) -> str:
    """What windows cost, as a sentence: ratios to average pooling, ours and an unfold's."""
    return fill("windows.md", cases=report["cases"], machine=report["provenance"])


def _span(values: pd.Series) -> str:
    if values.empty:
        return _UNKNOWN
    least, most = (f"{value:.1f}" for value in (values.min(), values.max()))
    return least if least == most else f"{least} to {most}"


def swapped(models: dict) -> str:
    """How many models of each library can be swapped, and which cannot."""
    what = {"torchvision": "classification models", "timm": "families, tried on one small model of each"}
    lines = []
    for library, found in models.items():
        number, refused = found["counts"]["swapped"], found["without a global pool"]
        if found["failed"]:
            raise ValueError(f"{library}: {len(found['failed'])} failed to be swapped: {', '.join(found['failed'])}")
        names = ", ".join(dict.fromkeys(name.split("_")[0] for name in sorted(refused)))
        lines.append(f"- **{library}**: {number} of {number + len(refused)} {what[library]}. Not: {names}.")
    return "\n".join(lines) + "\n"
