"""Result tables: what is bold, what is blank, and that both forms are well formed."""

from html.parser import HTMLParser

import pytest

from lae_core.evidence.stats import Summary
from lae_core.evidence.tables import MARK, result_table

COLUMNS = {
    "CIFAR-10": {"avg": Summary(5.26, 0.15, 30), "lae & co_1": Summary(4.98, 0.12, 30)},
    "CIFAR-100": {"avg": Summary(22.16, 0.22, 30), "gem <3>": Summary(22.1, 0.3, 30)},
}


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.stack, self.rows = [], []

    def handle_starttag(self, tag, attrs):
        self.stack.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if "td" in self.stack or "th" in self.stack:
            self.rows[-1][-1] += f"*{data}*" if self.stack[-1] == "strong" else data


def test_html():
    cells = Cells()
    cells.feed(result_table(COLUMNS, better="low", test="welch").to_html())
    assert cells.stack == []
    assert cells.rows == [
        ["Pooling", "CIFAR-10 ↓", "CIFAR-100 ↓"],
        ["avg", "5.26 ± 0.15", "*22.16* ± 0.22"],
        ["lae & co_1", "*4.98* ± 0.12", ""],
        ["gem <3>", "", "*22.10* ± 0.30"],
    ]


def test_latex():
    lines = result_table(COLUMNS, better="low", test="welch").to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert r"avg & $5.26 \pm 0.15$ & $\mathbf{22.16} \pm 0.22$ \\" in lines
    assert r"lae \& co\_1 & $\mathbf{4.98} \pm 0.12$ &  \\" in lines
    assert "n = 30" in lines[-1] and "Welch" in lines[-1]


def test_the_corrected_verdict_is_marked_and_explained():
    groups = {"best": Summary(5.0, 0.1, 10), **{f"p{i}": Summary(5.09, 0.1, 10) for i in range(4)}}
    table = result_table({"error": groups}, better="low", test="welch")
    assert f"5.09 ± 0.10{MARK}" in table.to_html() and "Holm" in table.note
    assert r"^{\dagger}" in table.to_latex()
    assert "Holm" not in result_table(COLUMNS, better="low", test="welch").note


def test_each_column_needs_a_direction():
    with pytest.raises(ValueError, match="'CIFAR-100'"):
        result_table(COLUMNS, better={"CIFAR-10": "low"}, test="welch")
