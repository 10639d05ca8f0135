"""How evidence notebooks show tables and verdicts: plain HTML without pandas' index, and one sentence a verdict."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from IPython.display import HTML, Markdown

from lae_core.evidence.claims import Verdict


def show(frame: pd.DataFrame, columns: Sequence[str] | None = None, *, digits: int = 3, **names: str) -> HTML:
    """A frame as a table: the given columns, numbers to `digits` places, booleans as yes and no.

    `names` gives columns another heading: ``show(frame, p="p-value")``.
    """
    shown = (frame[list(columns)] if columns else frame).copy()
    for column in shown.columns:
        if shown[column].map(lambda value: isinstance(value, bool)).all():
            shown[column] = shown[column].map({True: "yes", False: "no"})
    table = shown.rename(columns=names | {c: c.replace("_", " ") for c in shown.columns if c not in names})
    return HTML(table.to_html(index=False, border=0, float_format=lambda value: f"{value:.{digits}f}", na_rep="best"))


def ruling(verdict: Verdict) -> Markdown:
    """The verdict just recorded, as a sentence."""
    return Markdown(f"**{verdict.claim}: {verdict.verdict}.** {verdict.evidence}")


def rulings(verdicts: Sequence[Verdict]) -> HTML:
    """All verdicts of a notebook, for its summary."""
    rows = [{"claim": v.claim, "verdict": v.verdict, "evidence": v.evidence} for v in verdicts]
    with pd.option_context("display.max_colwidth", None):
        return show(pd.DataFrame(rows))
