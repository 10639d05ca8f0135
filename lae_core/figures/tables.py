"""Tables of results as the paper sets them: mean ± deviation, bold by its rule, for the page and for LaTeX."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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

    rows: Sequence[str]
    columns: Mapping[str, Mapping[str, BoldEntry]]
    better: Mapping[str, Better]
    note: str
    digits: int = 2
    header: str = "Pooling"

    def _number(self, entry: BoldEntry) -> tuple[str, str]:
        return f"{entry.summary.mean:.{self.digits}f}", f"{entry.summary.sd:.{self.digits}f}"

    def to_html(self) -> str:
        def cell(entry: BoldEntry | None) -> str:
            if entry is None:
                return "<td></td>"
            mean, sd = self._number(entry)
            mean = f"<strong>{mean}</strong>" if entry.bold else mean
            return f"<td>{mean} ± {sd}{MARK if entry.bold_corrected and not entry.bold else ''}</td>"

        heads = "".join(
            f'<th scope="col">{html.escape(name)} {"↓" if self.better[name] == "low" else "↑"}</th>'
            for name in self.columns
        )
        lines = ['<table class="results">', f"<caption>{html.escape(self.note)}</caption>"]
        lines.append(f'<thead><tr><th scope="col">{html.escape(self.header)}</th>{heads}</tr></thead>')
        lines.append("<tbody>")
        for row in self.rows:
            cells = "".join(cell(column.get(row)) for column in self.columns.values())
            lines.append(f'<tr><th scope="row">{html.escape(row)}</th>{cells}</tr>')
        return "\n".join([*lines, "</tbody>", "</table>"])

    _repr_html_ = to_html

    def to_latex(self) -> str:
        """A `tabular` that needs the package booktabs."""

        def cell(entry: BoldEntry | None) -> str:
            if entry is None:
                return ""
            mean, sd = self._number(entry)
            mean = rf"\mathbf{{{mean}}}" if entry.bold else mean
            mark = r"^{\dagger}" if entry.bold_corrected and not entry.bold else ""
            return rf"${mean} \pm {sd}{mark}$"

        def line(label: str, cells: Sequence[str]) -> str:
            return " & ".join([_escape_latex(label), *cells]) + r" \\"

        body = [line(row, [cell(column.get(row)) for column in self.columns.values()]) for row in self.rows]
        return "\n".join(
            [
                rf"\begin{{tabular}}{{l{'r' * len(self.columns)}}}",
                r"\toprule",
                line(self.header, [_escape_latex(name) for name in self.columns]),
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                f"% {self.note}",
            ]
        )


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
    if any(entry.bold_corrected and not entry.bold for column in decided.values() for entry in column.values()):
        note += f" {MARK}: no longer significantly worse after Holm's correction over its column."
    rows = list(dict.fromkeys(row for groups in columns.values() for row in groups))
    return ResultTable(rows, decided, directions, note, digits, header)
