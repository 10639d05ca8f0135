"""What notebooks show beside figures: tables, how runs were made, verdicts, costs; HTML without pandas' index, or Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML, Markdown

from lae_core.evidence.claims import load_claims
from lae_core.evidence.outcomes import accuracies, cpu_hours, describe_runs
from lae_core.evidence.text import p_text, sentence, true_minus
from lae_core.evidence.verdicts import Verdict
from lae_core.figures.style import name_pools
from lae_core.paper import DATA_LABELS
from lae_core.runs.gather import missing_runs
from lae_core.runs.records import Record
from lae_core.training.config import RunConfig

CLAIMS = Path("book") / "claims.yml"  # from the root of the project, where notebooks run
POOLS = {"comparison", "pool", "squeeze_pool"}  # columns that name pools


def show(frame: pd.DataFrame, columns: Sequence[str] | None = None, *, digits: int = 3, **names: str) -> HTML:
    """A frame as a table: the given columns, numbers to `digits` places, booleans as yes and no, data sets by name.

    Pools have the names of the figures, and a column `p` holds p-values. `names` gives columns another heading:
    ``show(frame, p="p-value")``.
    """
    shown = (frame[list(columns)] if columns else frame).copy()
    for column in shown.columns:
        if shown[column].map(lambda value: isinstance(value, bool)).all():
            shown[column] = shown[column].map({True: "yes", False: "no"})
    if "data" in shown:
        shown["data"] = shown["data"].replace(DATA_LABELS)
    if "p" in shown:
        shown["p"] = [p_text(value) if isinstance(value, float) else value for value in shown["p"]]
    for column in POOLS & set(shown):
        shown[column] = [name_pools(value) if isinstance(value, str) else value for value in shown[column]]
    table = shown.rename(columns=names | {c: c.replace("_", " ") for c in shown.columns if c not in names})
    return _table(table, "lae-table lae-figures", digits)


def with_interval(frame: pd.DataFrame, centre: str) -> pd.DataFrame:
    """The frame with the column `centre` and its interval, `low` to `high`, in one column: +0.21 (+0.08 to +0.34)."""
    texts = [f"{c:+.2f} ({a:+.2f} to {b:+.2f})" for c, a, b in zip(frame[centre], frame.low, frame.high, strict=True)]
    return frame.assign(**{f"{centre} (95 % interval)": [text.replace("-", "−") for text in texts]})


def show_text(frame: pd.DataFrame) -> HTML:
    """A frame of words as a table: its cells break into lines, where those of `show` scroll."""
    return _table(frame, "lae-table")


def show_verdicts(*verdicts: Verdict) -> Markdown:
    """Recorded verdicts in full: the word, its scale and n, the evidence, the regime and the rule."""
    return Markdown("\n\n".join(map(_verdict_text, verdicts)))


def _verdict_text(verdict: Verdict) -> str:
    scale = verdict.scale if verdict.n is None else f"{verdict.scale}, n = {verdict.n}"
    because = sentence(verdict.because)
    reason = f" {because}" if verdict.because and because != verdict.evidence else ""
    lines = [name_pools(f"**{verdict.claim}: {verdict.verdict}** ({scale}).{reason} {true_minus(verdict.evidence)}")]
    lines += [f"- *Regime*: {regime}." for regime in verdict.regime]
    return "\n".join([*lines, f"- *Rule*: {true_minus(verdict.rule)}"] if verdict.rule else lines)


def show_runs(
    arms: Mapping[Any, RunConfig],
    runs: Mapping[Any, Sequence[Record]],
    baseline: Sequence[Record],
    *,
    seeds: int | Mapping[Any, int],
    command: str,
) -> Markdown:
    """How an experiment was run, in one paragraph: network, pictures, accuracy of the baseline arm, n and CPU-hours.

    The baseline arm is the one with average pooling. Where runs are not recorded yet it says how many, what they would
    cost, and the command.
    """
    known = list({record.key: record for records in runs.values() for record in records}.values())
    texts = []
    if baseline:
        reached = f"With average pooling it reaches {np.mean(accuracies(baseline)):.1f} % (n = {len(baseline)})."
        texts.append(f"{describe_runs(baseline)} {reached} {len(known)} runs, {cpu_hours(known):.1f} CPU-hours.")
    missing, hours = missing_runs(arms, runs, seeds)
    if missing:
        cost = f", about {hours:.1f} CPU-hours" if known else ""
        few = f"{missing} runs are not recorded yet" if known else f"None of the {missing} runs is recorded yet"
        texts.append(f"**{few}**{cost}: `{command}`.")
    return Markdown(" ".join(texts))


def show_summary(verdicts: Sequence[Verdict]) -> HTML:
    """The verdicts of a notebook as a table for its summary: what the paper claims, and the verdict."""
    words = {claim.id: claim.claim for claim in load_claims(CLAIMS)} if CLAIMS.is_file() else {}
    rows = [{"claim": v.claim, "what it says": words.get(v.claim, "–"), "verdict": v.verdict} for v in verdicts]
    return show_text(pd.DataFrame(rows))


def show_cost(bill: pd.DataFrame) -> Markdown:
    """What `cost.bill` found, one sentence per network. Its last column has the hours and names the card."""
    hours = str(bill.columns[-1])
    return Markdown(
        " ".join(
            f"{what[:1].upper()}{what[1:]}: {runs:,} trainings, about {time:,.0f} {hours}."
            for what, runs, time in zip(bill["what"], bill["runs"], bill[hours], strict=True)
        )
    )


def _table(frame: pd.DataFrame, classes: str, digits: int = 3) -> HTML:
    with pd.option_context("display.max_colwidth", None):
        text = frame.to_html(index=False, border=0, classes=classes, float_format=lambda value: f"{value:.{digits}f}")
    return HTML(true_minus(text))
