"""How evidence notebooks show tables and verdicts: plain HTML without pandas' index, and one sentence a verdict."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from IPython.display import HTML, Markdown

from lae_core.evidence.claims import Verdict
from lae_core.evidence.paper import DATA_LABELS


def show(frame: pd.DataFrame, columns: Sequence[str] | None = None, *, digits: int = 3, **names: str) -> HTML:
    """A frame as a table: the given columns, numbers to `digits` places, booleans as yes and no, data sets by name.

    `names` gives columns another heading: ``show(frame, p="p-value")``.
    """
    shown = (frame[list(columns)] if columns else frame).copy()
    for column in shown.columns:
        if shown[column].map(lambda value: isinstance(value, bool)).all():
            shown[column] = shown[column].map({True: "yes", False: "no"})
    if "data" in shown:
        shown["data"] = shown["data"].replace(DATA_LABELS)
    table = shown.rename(columns=names | {c: c.replace("_", " ") for c in shown.columns if c not in names})
    return _table(table, "lae-table lae-figures", digits)


def ruling(verdict: Verdict) -> Markdown:
    """The verdict just recorded, as a sentence."""
    return Markdown(f"**{verdict.claim}: {verdict.verdict}.** {verdict.evidence}")


def rulings(verdicts: Sequence[Verdict]) -> HTML:
    """All verdicts of a notebook, for its summary."""
    rows = [{"claim": v.claim, "verdict": v.verdict, "evidence": v.evidence} for v in verdicts]
    return _table(pd.DataFrame(rows), "lae-table")


def _table(frame: pd.DataFrame, classes: str, digits: int = 3) -> HTML:
    with pd.option_context("display.max_colwidth", None):
        text = frame.to_html(index=False, border=0, classes=classes, float_format=lambda value: f"{value:.{digits}f}")
    return HTML(text)
