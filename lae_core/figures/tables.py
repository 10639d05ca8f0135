"""Tables of results as the paper sets them: mean ± deviation, bold by its rule, for the page and for LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape

import pandas as pd

from lae_core.evidence.stats import ALPHA, Better, BoldTest, Group, bold

# An entry that only the correction for many comparisons spares from being called worse.
MARK = "†"


@dataclass(frozen=True)
class ResultTable:
    """Rows are operators, columns are settings; an entry that was not measured is blank."""

    columns: Mapping[str, pd.DataFrame]  # what `bold` decided
    better: Mapping[str, Better]
    note: str
    digits: int
    header: str

    def _frame(self, cell: Callable[[str, str, pd.Series], str]) -> pd.DataFrame:
        """The cells as text; `cell` makes one from the mean and the deviation as text, and the entry."""
        texts = {
            name: {
                row: cell(f"{entry['mean']:.{self.digits}f}", f"{entry['sd']:.{self.digits}f}", entry)
                for row, entry in column.iterrows()
            }
            for name, column in self.columns.items()
        }
        rows = list(dict.fromkeys(row for column in texts.values() for row in column))
        return pd.DataFrame(texts, index=rows).fillna("").rename_axis(columns=self.header)

    def to_html(self) -> str:
        def cell(mean: str, sd: str, entry: pd.Series) -> str:
            mean = f"<strong>{mean}</strong>" if entry["bold"] else mean
            return f"{mean} ± {sd}{MARK if _spared(entry) else ''}"

        frame = self._frame(cell).rename(index=escape)
        frame.columns = [f"{escape(name)} {'↓' if self.better[name] == 'low' else '↑'}" for name in frame]
        text = frame.rename_axis(columns=escape(self.header)).to_html(escape=False, border=0, classes="results")
        return text.replace("<thead>", f"<caption>{escape(self.note)}</caption>\n  <thead>", 1)

    _repr_html_ = to_html

    def to_latex(self) -> str:
        """A `tabular` that needs the package booktabs."""

        def cell(mean: str, sd: str, entry: pd.Series) -> str:
            mean = rf"\mathbf{{{mean}}}" if entry["bold"] else mean
            return rf"${mean} \pm {sd}" + (r"^{\dagger}$" if _spared(entry) else "$")

        style = self._frame(cell).style
        for axis in ("index", "columns"):
            style = style.format_index(escape="latex", axis=axis).format_index_names(escape="latex", axis=axis)
        return f"{style.to_latex(hrules=True, column_format='l' + 'r' * len(self.columns))}% {self.note}"


def _spared(entry: pd.Series) -> bool:
    """Only the correction spares it from being called worse."""
    return entry["holm_bold"] and not entry["bold"]


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
    entries = pd.concat(decided.values())
    fewest, most = entries["n"].min(), entries["n"].max()
    n = f"n = {most}" if fewest == most else f"n from {fewest} to {most}"
    name = "Mann-Whitney U, two-sided" if test == "mann-whitney" else "Welch's t, one-sided"
    note = f"Mean ± standard deviation, {n}."
    note += f" Bold: the best of its column, and all not significantly worse ({name}, p < {ALPHA:g})."
    if (entries["holm_bold"] & ~entries["bold"]).any():
        note += f" {MARK}: no longer significantly worse after Holm's correction over its column."
    return ResultTable(decided, directions, note, digits, header)
