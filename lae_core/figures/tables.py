"""Tables of results as the paper sets them: mean ± deviation, bold by its rule, for the page and for LaTeX."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from lae_core.evidence.stats import ALPHA, Better, BoldEntry, BoldTest, Group, bold

# An entry that only the correction for many comparisons spares from being called worse.
MARK = "†"
_LATEX = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}"}
_LATEX |= {"^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}


def _escape_latex(text: str) -> str:
    return re.sub(r"[&%#_${}~^\\]", lambda match: _LATEX[match.group()], text)


@dataclass(frozen=True)
class ResultTable:
    """Rows are operators, columns are settings; an entry that was not measured is blank."""

    columns: Mapping[str, Mapping[str, BoldEntry]]
    better: Mapping[str, Better]
    note: str
    digits: int
    header: str

    def _frame(self, cell: Callable[[str, str, BoldEntry], str]) -> pd.DataFrame:
        """The cells as text; `cell` makes one from the mean and the deviation as text, and the entry."""
        texts = {
            name: {
                row: cell(f"{entry.summary.mean:.{self.digits}f}", f"{entry.summary.sd:.{self.digits}f}", entry)
                for row, entry in column.items()
            }
            for name, column in self.columns.items()
        }
        rows = list(dict.fromkeys(row for column in self.columns.values() for row in column))
        return pd.DataFrame(texts, index=rows).fillna("").rename_axis(columns=self.header)

    def to_html(self) -> str:
        def cell(mean: str, sd: str, entry: BoldEntry) -> str:
            mean = f"<strong>{mean}</strong>" if entry.bold else mean
            return f"{mean} ± {sd}{MARK if entry.spared else ''}"

        frame = self._frame(cell).rename(index=html.escape)
        frame.columns = [f"{html.escape(name)} {'↓' if self.better[name] == 'low' else '↑'}" for name in frame]
        text = frame.rename_axis(columns=html.escape(self.header)).to_html(escape=False, border=0, classes="results")
        return text.replace("<thead>", f"<caption>{html.escape(self.note)}</caption>\n  <thead>", 1)

    _repr_html_ = to_html

    def to_latex(self) -> str:
        """A `tabular` that needs the package booktabs."""

        def cell(mean: str, sd: str, entry: BoldEntry) -> str:
            mean = rf"\mathbf{{{mean}}}" if entry.bold else mean
            return rf"${mean} \pm {sd}" + (r"^{\dagger}$" if entry.spared else "$")

        frame = self._frame(cell).rename(index=_escape_latex, columns=_escape_latex)
        text = frame.rename_axis(columns=_escape_latex(self.header)).to_latex(
            escape=False, column_format="l" + "r" * len(self.columns)
        )
        return f"{text}% {self.note}"


def result_table(
    columns: Mapping[str, Mapping[str, Group]],
    *,
    better: Better | Mapping[str, Better],
    test: BoldTest = "mann-whitney",
    digits: int = 2,
    header: str = "Pooling",
) -> ResultTable:
    """A table from `{column: {row: sample or Summary}}`, rows in the order in which they first appear.

    `better` says whether low (an error) or high (an accuracy) is good, for all columns or for each.
    """
    directions = dict(better) if isinstance(better, Mapping) else dict.fromkeys(columns, better)
    if missing := [name for name in columns if name not in directions]:
        raise ValueError(f"better has no entry for column {missing[0]!r}: expected 'low' or 'high' for each column")
    decided = {name: bold(groups, better=directions[name], test=test) for name, groups in columns.items()}
    counts = sorted({entry.summary.n for column in decided.values() for entry in column.values()})
    n = f"n = {counts[0]}" if len(counts) == 1 else f"n from {counts[0]} to {counts[-1]}"
    name = "Mann-Whitney U, two-sided" if test == "mann-whitney" else "Welch's t, one-sided"
    note = f"Mean ± standard deviation, {n}."
    note += f" Bold: the best of its column, and all not significantly worse ({name}, p < {ALPHA:g})."
    if any(entry.spared for column in decided.values() for entry in column.values()):
        note += f" {MARK}: no longer significantly worse after Holm's correction over its column."
    return ResultTable(decided, directions, note, digits, header)
