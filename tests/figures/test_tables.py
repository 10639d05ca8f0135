"""Result tables: what is bold, what is blank, and that both forms are well formed."""

from html.parser import HTMLParser

import pandas as pd

from lae_core.evidence.text import p_text
from lae_core.evidence.verdicts import Verdict
from lae_core.figures import show as shown
from lae_core.figures.tables import MARK, result_table

NOISE = [-0.1, -0.05, 0.0, 0.05, 0.1]  # its deviation is 0.079


def sample(mean: float) -> list[float]:
    return [mean + step for step in NOISE]


COLUMNS = {
    "CIFAR-10": {"avg": sample(5.26), "lae & co_1": sample(4.98)},
    "CIFAR-100": {"avg": sample(22.16), "gem <3>": sample(22.1)},
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
    cells.feed(result_table(COLUMNS, better="low").to_html())
    assert cells.stack == []
    assert cells.rows == [
        ["Pooling", "CIFAR-10 ↓", "CIFAR-100 ↓"],
        ["avg", "5.26 ± 0.08", "*22.16* ± 0.08"],
        ["lae & co_1", "*4.98* ± 0.08", ""],
        ["gem <3>", "", "*22.10* ± 0.08"],
    ]


def test_latex():
    lines = result_table(COLUMNS, better="low").to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert r"avg & $5.26 \pm 0.08$ & $\mathbf{22.16} \pm 0.08$ \\" in lines
    assert r"lae \& co\_1 & $\mathbf{4.98} \pm 0.08$ &  \\" in lines
    assert "n = 5" in lines[-1] and "Mann-Whitney" in lines[-1]


def test_the_corrected_verdict_is_marked_and_explained():
    groups = {"best": sample(5.0), **{f"p{i}": sample(5.16) for i in range(4)}}
    table = result_table({"error": groups}, better="low")
    assert f"5.16 ± 0.08{MARK}" in table.to_html() and "Holm" in table.note
    assert r"^{\dagger}" in table.to_latex()
    assert "Holm" not in result_table(COLUMNS, better="low").note


def test_small_p_values_are_not_shown_as_zero():
    assert [p_text(p) for p in (0.0, 9e-4, 0.001, 0.0468, 1.0)] == ["< 0.001", "< 0.001", "0.001", "0.047", "1"]
    cells = Cells()
    cells.feed(shown.show(pd.DataFrame({"gain": [-0.5, 0.25], "p": [1e-7, 0.5]}), digits=2).data)
    assert cells.rows == [["gain", "p"], ["−0.50", "< 0.001"], ["0.25", "0.5"]]


def test_pools_of_a_table_have_the_names_of_figures_and_intervals_one_column():
    frame = pd.DataFrame(
        {"pool": ["max", "lae(t0=4, train=one)"], "gain": [-0.5, 0.2], "low": [-1, 0.1], "high": [0, 0.3]}
    )
    cells = Cells()
    cells.feed(shown.show(shown.with_interval(frame, "gain"), ["pool", "gain (95 % interval)"]).data)
    assert cells.rows[1:] == [["Max", "−0.50 (−1.00 to +0.00)"], ["LAE (trained t from 4)", "+0.20 (+0.10 to +0.30)"]]


def test_a_ruling_has_word_scale_n_regime_and_rule_and_in_short_the_words_of_the_claim(tmp_path, monkeypatch):
    verdict = Verdict(
        "E3", "open", "At -1.5 points, p < 0.05.", "cpu", because="n = 5, the rule asks for 10", rule="Reproduced if higher.",
        regime=("WRN on CIFAR-10: average pooling 90.1 % (n = 5)",), n=5,
    )  # fmt: skip
    said = shown.show_verdicts(verdict, verdict).data
    assert said.count("**E3: open** (cpu, n = 5). N = 5, the rule asks for 10. At −1.5 points, p < 0.05.") == 2
    assert "- *Regime*: WRN on CIFAR-10: average pooling 90.1 % (n = 5)." in said
    assert "- *Rule*: Reproduced if higher." in said
    (tmp_path / "claims.yml").write_text("[{id: E3, claim: A table., place: table 1, notebook: experiments/wrn}]")
    monkeypatch.setattr(shown, "CLAIMS", tmp_path / "claims.yml")
    cells = Cells()
    cells.feed(shown.show_summary([verdict]).data)
    assert cells.rows == [["claim", "what it says", "verdict"], ["E3", "A table.", "open"]]


def test_a_price_is_a_sentence_a_network():
    bill = pd.DataFrame({"what": ["A-1", "B-2, again"], "runs": [1280, 15], "hours on one Card": [1793.6, 8.2]})
    said = "A-1: 1,280 trainings, about 1,794 hours on one Card. B-2, again: 15 trainings, about 8 hours on one Card."
    assert shown.show_cost(bill).data == said
