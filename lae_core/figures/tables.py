"""Tables of results as the paper sets them: mean ± deviation, bold by its rule, for the page and for LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd

from lae_core.evidence.stats import ALPHA, Better, bold

# An entry that only the correction for many comparisons spares from being called worse.
MARK = "†"


@dataclass(frozen=True)
class ResultTable:
    """Rows are operators, columns are settings; an entry that was not measured is blank."""

    columns: Mapping[str, pd.DataFrame]  # what `bold` decided
    header: str
    arrow: str
    note: str

    def _frame(self, cell: str, strong: str, mark: str) -> pd.DataFrame:
        """The entries as text: `cell` is filled with mean, deviation and mark, and `strong` with a bold mean."""

        def text(entry: pd.Series) -> str:
            mean = f"{entry['mean']:.2f}"
            spared = entry["holm_bold"] and not entry["bold"]
            return cell.format(strong.format(mean) if entry["bold"] else mean, entry["sd"], mark if spared else "")

        texts = {name: column.apply(text, axis=1) for name, column in self.columns.items()}
        return pd.concat(texts, axis=1).fillna("").rename_axis(columns=self.header)

    def to_html(self) -> str:
        frame = self._frame("{} ± {:.2f}{}", "<strong>{}</strong>", MARK)
        frame = frame.rename(index=escape, columns=lambda name: f"{escape(name)} {self.arrow}")
        text = frame.rename_axis(columns=escape(self.header)).to_html(escape=False, border=0, classes="results")
        return text.replace("<thead>", f"<caption>{escape(self.note)}</caption>\n  <thead>", 1)

    _repr_html_ = to_html

    def to_latex(self) -> str:
        """A `tabular` that needs the package booktabs."""
        style = self._frame(r"${} \pm {:.2f}{}$", r"\mathbf{{{}}}", r"^{\dagger}").style
        for axis in ("index", "columns"):
            style = style.format_index(escape="latex", axis=axis).format_index_names(escape="latex", axis=axis)
        return f"{style.to_latex(hrules=True, column_format='l' + 'r' * len(self.columns))}% {self.note}"


def result_table(
    columns: Mapping[str, Mapping[str, Sequence[float]]], *, better: Better, header: str = "Pooling"
) -> ResultTable:
    """A table from `{column: {row: sample}}`, rows in the order in which they first appear; the test is Mann-Whitney's.

    `better` says whether low (an error) or high (an accuracy) is good.
    """
    decided = {name: bold(groups, better=better) for name, groups in columns.items()}
    entries = pd.concat(decided.values())
    fewest, most = entries["n"].min(), entries["n"].max()
    n = f"n = {most}" if fewest == most else f"n from {fewest} to {most}"
    note = f"Mean ± standard deviation, {n}. Bold: the best of its column, and all not significantly worse "
    note += f"(Mann-Whitney U, two-sided, p < {ALPHA:g})."
    if (entries["holm_bold"] & ~entries["bold"]).any():
        note += f" {MARK}: no longer significantly worse after Holm's correction over its column."
    return ResultTable(decided, header, "↓" if better == "low" else "↑", note)
