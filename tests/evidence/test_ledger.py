"""The ledger: every claim has a state, every verdict has a claim, and nothing is decided twice or typed by hand."""

import re
from pathlib import Path

import jupytext
import pytest

from lae_core.evidence.claims import Claim, LedgerError, load_claims
from lae_core.evidence.decision import VERDICTS
from lae_core.evidence.ledger import counts, hours_by_notebook, join
from lae_core.evidence.verdicts import Costs, Verdict

REPO = Path(__file__).resolve().parents[2]
CLAIMS = load_claims(REPO / "book" / "claims.yml")
# The rows of the paper's map: each keeps its id.
ROWS = [
    f"{letter}{number}" for letter, last in (("T", 9), ("N", 6), ("E", 10), ("C", 14)) for number in range(1, last + 1)
]
NOTEBOOKS = {
    path.relative_to(REPO / "notebooks").with_suffix("").as_posix(): path
    for path in (REPO / "notebooks").glob("*/*.md")
}


def some(claim: str, verdict: str = "consistent with print") -> Verdict:
    return Verdict(claim, verdict, "Found.", "printed")


def test_every_row_of_the_map_is_a_claim():
    assert set(ROWS) <= {claim.id for claim in CLAIMS}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_claims_are_short_plain_and_placed(claim):
    assert claim.claim.endswith(".") and len(claim.claim) < 200
    assert re.search(r"§|table|figure|supplement|\(dropped\)|\(commented\)|^not in the paper", claim.place)
    assert claim.notebook.split("/")[0] in ("theory", "evidence", "experiments")


def recorded(path: Path) -> set[str]:
    """The claims on which a notebook's source records a verdict."""
    code = "\n".join(code_cells(path))
    return set(re.findall(r'record_verdict\(\s*"([A-Z]\d+[a-z]?)"', code)) | ruled(code)


def code_cells(path: Path, hidden: bool = True) -> list[str]:
    cells = [cell for cell in jupytext.read(path, fmt="md:myst").cells if cell.cell_type == "code"]
    return [cell.source for cell in cells if hidden or "hide-input" not in cell.metadata.get("tags", [])]


def ruled(code: str) -> set[str]:
    """The claims whose rule this code applies; a rule that is asked for its word alone decides nothing."""
    called = re.findall(r"rules\.([nec]\d+[a-z]?)\((?!found\))", code)
    return {name[0].upper() + name[1:] for name in called}


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_a_notebook_decides_just_the_claims_that_are_its_own(notebook):
    assert recorded(NOTEBOOKS[notebook]) == {claim.id for claim in CLAIMS if notebook in (claim.notebook, claim.also)}


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_the_line_that_decides_is_in_view(notebook):
    every, seen = ("\n".join(code_cells(NOTEBOOKS[notebook], hidden)) for hidden in (True, False))
    assert ruled(every) == ruled(seen)


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_no_parameter_says_what_a_verdict_may_claim(notebook):
    cells = jupytext.read(NOTEBOOKS[notebook], fmt="md:myst").cells
    lines = [
        line for cell in cells if "parameters" in cell.metadata.get("tags", []) for line in cell.source.splitlines()
    ]
    names = {line.split(":")[0] for line in lines}
    assert not {"scale", "verdict", "gate", "margin"} & names


PAGES = [*NOTEBOOKS.values(), *(REPO / "book").glob("*.md")]


def typed_verdicts(text: str) -> list[str]:
    """Places where prose sets a verdict beside a claim's id."""
    words = "|".join(VERDICTS)
    return [match.group() for match in re.finditer(rf"\b[TNEC]\d+[a-z]?\b(?: is|:)? \*{{0,2}}(?:{words})\b", text)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_page_types_a_verdict(path):
    prose = "\n".join(cell.source for cell in jupytext.read(path, fmt="md:myst").cells if cell.cell_type == "markdown")
    assert typed_verdicts(prose) == []


def test_a_typed_verdict_would_be_seen():
    assert typed_verdicts("As we saw, C2 is contradicted.") == ["C2 is contradicted"]
    assert typed_verdicts("**T1: proved** and C13b *open*") == ["T1: proved", "C13b *open"]


@pytest.fixture
def two(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "one.md").touch()
    return [Claim("T1", "One.", "§2", "part/one"), Claim("C1", "Two.", "§4", "experiments/two")], tmp_path


def test_join_gives_every_claim_a_state(two):
    claims, notebooks = two
    ran = join(claims, {"part/one": {"T1": some("T1")}}, notebooks)
    assert [(entry.claim.id, entry.state) for entry in ran] == [("T1", "consistent with print"), ("C1", "open")]
    assert counts(ran) == dict.fromkeys(VERDICTS, 0) | {"consistent with print": 1, "open": 1}
    assert "not written yet" in ran[1].missing and ran[1].open_at_paper_scale and not ran[0].open_at_paper_scale
    assert ran[1].claim.command == "lae run two --profile paper"
    assert "has not been run" in join(claims, {}, notebooks)[0].missing


def test_a_smaller_scale_leaves_the_paper_s_own_open(two):
    claims, notebooks = two
    small = {"experiments/two": {"C1": Verdict("C1", "reproduced", "Found.", "cpu")}}
    full = {"experiments/two": {"C1": Verdict("C1", "reproduced", "Found.", "paper")}}
    assert join(claims, small, notebooks)[1].open_at_paper_scale
    assert not join(claims, full, notebooks)[1].open_at_paper_scale
    weak = {"experiments/two": {"C1": Verdict("C1", "not testable here", "Found.", "paper")}}
    assert join(claims, weak, notebooks)[1].open_at_paper_scale


def test_what_the_paper_does_not_claim_has_no_scale_of_the_paper(tmp_path):
    (entry,) = join([Claim("C1", "Two.", "not in the paper; added", "experiments/two")], {}, tmp_path)
    assert entry.claim.needs_training and not entry.open_at_paper_scale


def test_runs_that_count_come_before_print_and_weak_ones_after(two):
    _, notebooks = two
    twice = [Claim("T1", "One.", "§2", "part/one", "experiments/two")]
    regime = ("average pooling 91 %",)

    def joined(word: str, regime: tuple[str, ...] = regime):
        runs = Verdict("T1", word, "Ran.", "cpu", regime=regime)
        return join(twice, {"part/one": {"T1": some("T1")}, "experiments/two": {"T1": runs}}, notebooks)[0]

    for word in ("reproduced", "partly", "contradicted"):
        assert (joined(word).state, joined(word).source, joined(word).beside.scale) == (
            word,
            "experiments/two",
            "printed",
        )
        assert joined(word, ()).state == "consistent with print"  # without a regime nobody can tell
    for word in ("open", "not testable here"):
        found = joined(word)
        assert (found.state, found.source, found.beside.verdict) == ("consistent with print", "part/one", word)
    assert joined("open").open_at_paper_scale and twice[0].command == "lae run two --profile paper"


def test_hours_belong_to_the_notebook_of_the_experiment():
    costs = Costs("card", {"E1, E2": 100.0, "E2": 10.0, "E3": 5.0, "N5": 7.0})
    hours = hours_by_notebook(join(CLAIMS, {}, REPO / "notebooks"), costs)
    assert hours["experiments/training_curves"] == 100 and hours["experiments/pyramidnet"] == 110
    assert hours["experiments/wrn"] == 5 and hours["experiments/input_size"] == 0
    assert "evidence/hyperparameters" not in hours


@pytest.mark.parametrize(
    ("verdicts", "message"),
    [
        ({"part/one": {"T1": some("T1"), "T2": some("T2")}}, "'T2', which is not in book/claims.yml"),
        ({"part/one": {"T1": some("T1"), "C1": some("C1")}}, "'C1'.*leaves to notebooks/experiments/two.md"),
        ({"part/one": {}}, "records no verdict on 'T1'"),
    ],
)
def test_what_does_not_fit_is_an_error(two, verdicts, message):
    claims, notebooks = two
    with pytest.raises(LedgerError, match=message):
        join(claims, verdicts, notebooks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {id: T1, claim: a, place: b}", "claims.yml.*\n0.notebook\n.*required"),
        ("- {id: T1, claim: a, place: b, notebook: c, verdict: proved}", "0.verdict\n.*input_value='proved'"),
        ("- {id: X1, claim: a, place: b, notebook: c}", "0.id\n.*input_value='X1'"),
        ("- {id: T1, claim: '', place: b, notebook: c}", "0.claim\n.*input_value=''"),
        ("- {id: T1, claim: a, place: b, notebook: c}\n- {id: T1, claim: a, place: b, notebook: c}", "more than once"),
    ],
)
def test_claims_file_is_checked(tmp_path, text, message):
    path = tmp_path / "claims.yml"
    path.write_text(text)
    with pytest.raises(LedgerError, match=message):
        load_claims(path)
