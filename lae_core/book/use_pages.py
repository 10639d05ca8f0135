"""Numbers of the part *Use it*: what pooling costs and which models can be swapped, from what was recorded.

`write` is one of the build's generators. It makes `book/_generated/cost.md` from what `lae bench operator` measured,
`book/_generated/windows.md` from what `lae bench windows` did, and `book/_generated/swapped.md` from the list that the tests of
`swap_global_pool` keep.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from lae_core.figures import speed

if TYPE_CHECKING:
    from lae_core.book.stage import Stage

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
    generated = stage.source / "book" / "_generated"
    generated.mkdir(parents=True, exist_ok=True)
    recorded = stage.root / "book" / "results" / "bench_operator.json"
    (generated / "cost.md").write_text(cost(recorded), encoding="utf-8")
    windows = json.loads((stage.root / "book" / "results" / "bench_windows.json").read_text(encoding="utf-8"))
    (generated / "windows.md").write_text(window_cost(windows), encoding="utf-8")
    models = json.loads((stage.root / "tests" / "pooling" / "swapped.json").read_text(encoding="utf-8"))
    (generated / "swapped.md").write_text(swapped(models), encoding="utf-8")


def cost(recorded: Path) -> str:
    """Time and memory of each pool as multiples of the mean's time and the input's size, over the shapes recorded."""
    frame, report = speed.load(recorded)
    part = speed.plainest(frame, "float32")
    if part.empty:
        raise ValueError(
            f"{recorded} has no case in float32 at t = 1 on one thread; `lae bench operator` measures them"
        )
    rows_shown = ["| pool | fixed t | trained t | memory |", "|---|---:|---:|---:|"]
    for pool, shown in _POOLS.items():
        rows = part[part["pool"] == pool]
        times = (_span(rows.loc[rows["temperature"] == kind, "both"]) for kind in ("fixed", "trained"))
        rows_shown.append(f"| {shown} | {' | '.join(times)} | {_span(rows['kept'].dropna())} |")
    shapes = ", ".join(dict.fromkeys(part["shape"]))
    where = report["provenance"]
    caption = (
        "Time of forward and backward, as a multiple of the mean's, and memory kept for the backward pass, as a multiple of "
        f"the input's: least to most over the shapes ({_UNKNOWN}: not measured)."
    )
    lines = [f"```{{table}} {caption}", ":name: tab-use-cost", "", *rows_shown, "```"]
    lines += [
        "",
        f"Measured in float32 at t = 1, on one thread of {where['cpu']}, torch {where['versions']['torch']}, with contiguous "
        f"inputs of (batch, channels, height, width) {shapes}.",
    ]
    if whole := report.get("resnet50"):
        change = 100 * (whole["ratio"] - 1)
        lines += [
            "",
            f"**In a whole network:** a training step of ResNet-50 at 224 px, batch {whole['batch']}, takes "
            f"{abs(change):.1f} % {'longer' if change > 0 else 'less'} than with average pooling, on the same machine, by the "
            "time that the pools take in it.",
        ]
    return "\n".join(lines) + "\n"


def window_cost(report: dict) -> str:
    """What windows cost, as a sentence: ratios to average pooling, ours and an unfold's."""
    parts = []
    for case in report["cases"]:
        times, mean = case["both"], case["both"]["avg_pool2d"]
        ours, unfold = (times[name] / mean for name in ("LogAvgExpPool2d", "unfold"))
        parts.append(
            f"{ours:.1f} times as long with kernel {case['kernel']} and stride {case['stride']} (an unfold with "
            f"`torch.logsumexp`: {unfold:.1f} times)"
        )
    where = report["provenance"]
    shape = "×".join(map(str, report["cases"][0]["shape"]))
    return (
        f"Compared with `avg_pool2d`, forward and backward take {', '.join(parts)}: float32 of {shape}, one thread of "
        f"{where['cpu']}. The unfold loses digits as t rises, and ours loses none.\n"
    )


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
