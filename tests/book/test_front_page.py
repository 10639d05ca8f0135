"""The front page's advice is what the verdicts allow: for every verdict on every claim that it rests on, and for none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lae_core.book import front_page
from lae_core.book.front_page import ADVICE, COMPARISONS, answer, says
from lae_core.evidence.claims import Verdict
from lae_core.evidence.ledger import Claim, Entry, load_claims

REPO = Path(__file__).resolve().parents[2]
CLAIMS = {claim.id: claim for claim in load_claims(REPO / "book" / "claims.yml")}
KINDS = ("better", "level", "worse")
WINS = {"lae": (1, 3, 0), "lae(train=one)": (4, 1, 1)}


def printed(outcomes: dict[str, tuple[int, int, int]]) -> Entry:
    """C3 with these counts for each pool."""
    numbers = {f"{pool}: {kind}": k for pool, ks in outcomes.items() for kind, k in zip(KINDS, ks, strict=True)}
    numbers |= {kind: sum(ks[i] for ks in outcomes.values()) for i, kind in enumerate(KINDS)}
    numbers["comparisons"] = sum(numbers[kind] for kind in KINDS)
    return entry("C3", "partly", "printed numbers", numbers)


def entry(name: str, verdict: str | None, scale: str = "cpu", numbers: dict | None = None) -> Entry:
    found = Verdict(name, verdict, "Counted.", scale, numbers=numbers or {}) if verdict else None
    return Entry(CLAIMS[name], found, "" if found else "not run")


@pytest.mark.parametrize(
    ("outcomes", "headline"),
    [
        (WINS, "Try it, and measure: in the paper's tables `lae` "),
        ({"lae": (0, 4, 0), "lae(train=one)": (4, 1, 1)}, "Perhaps: it wins more often than it loses"),
        ({"lae": (0, 2, 2), "lae(train=one)": (1, 1, 1)}, "Not on this evidence"),
    ],
)
def test_headline_follows_the_printed_numbers(outcomes, headline):
    said = answer([printed(outcomes)])
    assert said.startswith(f"**{headline}")
    assert ("swap_global_pool" in said) == headline.startswith("Try")  # a line to copy only where it can be advised


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("verdict", ["reproduced", "partly", "contradicted", "open", None])
def test_own_runs_that_say_otherwise_take_the_headline_back(name, verdict):
    said = answer([printed(WINS), entry(name, verdict)])
    assert said.startswith("**Perhaps" if verdict == "contradicted" else "**Try it")
    assert f'<a href="claims.html#claim-{name.lower()}">{name}</a> [{verdict or "open"}]' in said
    small = answer([printed(WINS), entry(name, verdict, "smoke")])
    assert small.startswith("**Try it"), "a smoke run shows that the notebook works, and nothing else"


@pytest.mark.parametrize("advice", ADVICE, ids=lambda advice: advice.claim)
def test_each_verdict_has_its_own_sentence(advice):
    verdicts = ("reproduced", "partly", "contradicted")
    said = {verdict: says(advice, entry(advice.claim, verdict)) or "" for verdict in verdicts}
    assert said["reproduced"].lower() == advice.holds.lower()
    assert said["contradicted"].lower() == advice.fails.lower() != advice.holds.lower()
    assert said["partly"].startswith("Borne out in part: ") and advice.holds in said["partly"]
    for undecided in (
        entry(advice.claim, None),
        entry(advice.claim, "open"),
        entry(advice.claim, "reproduced", "smoke"),
    ):
        assert says(advice, undecided) is None
        said = answer([printed(WINS), undecided])
        waiting = f'*{advice.question}* <a href="claims.html#claim-{advice.claim.lower()}">{advice.claim}</a>.'
        assert said.rstrip().endswith(f"Not decided yet; the paper's word is all there is: {waiting}")
        assert advice.holds not in said and advice.fails not in said


def test_advice_rests_on_claims_of_the_ledger():
    assert {advice.claim for advice in ADVICE} | set(COMPARISONS) <= set(CLAIMS)
    assert len({advice.claim for advice in ADVICE}) == len(ADVICE)


def test_without_evidence_there_is_no_advice():
    unread = Entry(Claim("C3", "It wins.", "§6", "evidence/x"), None, "not run")
    assert answer([unread, entry("C9", "reproduced")]) == f"{front_page.NO_ADVICE}\n"
