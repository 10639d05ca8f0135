"""The front page's advice is what the verdicts allow: for every verdict on every claim that it rests on, and for none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lae_core.book.front_page import COMPARISONS, NO_ADVICE, load_advice, says
from lae_core.book.front_page import answer as answer_with
from lae_core.evidence.claims import Claim, load_claims
from lae_core.evidence.ledger import Entry
from lae_core.evidence.verdicts import Verdict

REPO = Path(__file__).resolve().parents[2]
CLAIMS = {claim.id: claim for claim in load_claims(REPO / "book" / "claims.yml")}
ADVICE = load_advice(REPO)
KINDS = ("higher", "same", "lower", "undecided")
PRINTED = {"lae": (1, 0, 0, 3), "lae(train=one)": (4, 1, 1, 0)}
REGIME = ("WRN-16, CIFAR-10, all 50,000 training pictures: average pooling 91.0 % (n = 10)",)
DECIDED = ("reproduced", "partly", "contradicted")


def answer(entries: list[Entry]) -> str:
    return answer_with(entries, ADVICE)


def printed() -> Entry:
    """C3 with these counts for each pool."""
    numbers = {f"{pool}: {kind}": k for pool, ks in PRINTED.items() for kind, k in zip(KINDS, ks, strict=True)}
    numbers |= {kind: sum(ks[i] for ks in PRINTED.values()) for i, kind in enumerate(KINDS)}
    numbers["comparisons"] = sum(numbers[kind] for kind in KINDS)
    return entry("C3", "partly", "printed", numbers)


def entry(name: str, verdict: str | None, scale: str = "cpu", numbers: dict | None = None) -> Entry:
    regime = REGIME if scale in ("cpu", "gpu", "paper") else ()
    found = Verdict(name, verdict, "Counted.", scale, regime=regime, numbers=numbers or {}) if verdict else None
    return Entry(CLAIMS[name], found, "" if found else "not run")


def ours(name: str, verdict: str | None) -> Entry:
    """What our runs say of a claim; of C3 beside what is printed."""
    return replace(entry(name, verdict), beside=printed().verdict if name == "C3" else None)


def test_without_runs_that_count_nothing_is_advised():
    said = answer([*(ours(name, "not testable here") for name in COMPARISONS), entry("C9", "not testable here")])
    assert said.startswith("**Not known yet here")
    assert "tab-advice" not in said and "Not decided by runs of ours" in said
    assert "better than average pooling in 5 of 10 comparisons and worse in 1" in said
    assert "`lae(train=one)`: better in 4 of 6 comparisons, worse in 1" in said
    assert "never worse" not in said.lower() and "nowhere" not in said


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize(
    ("verdict", "headline"),
    [
        ("reproduced", "Try it"), ("partly", "Try it"), ("contradicted", "Our runs of"), ("open", "Not known"),
        ("not testable here", "Not known"), (None, "Not known"),
    ],
)  # fmt: skip
def test_the_headline_follows_our_own_runs(name, verdict, headline):
    said = answer([printed(), ours(name, verdict)])
    assert said.startswith(f"**{headline}")
    assert f'<a href="claims.html#claim-{name.lower()}">{name}</a> [{verdict or "open"}]' in said


@pytest.mark.parametrize("verdict", ["reproduced", "contradicted", "open", "not testable here", None])
def test_the_control_stands_beside_our_runs_as_soon_as_it_was_run(verdict):
    said = answer([printed(), ours("C3", "partly"), ours("C30", verdict)])
    assert ("They show that LAE gains more" in said) == (verdict == "reproduced")
    assert ("They do not show that LAE gains more" in said) == (verdict != "reproduced")
    assert ("is a control: it changes how fast" in said) == (verdict is not None)


def test_printed_tables_are_not_called_our_runs():
    said = answer([printed(), ours("E3", "open")])
    assert (
        said.startswith("**Not known yet here")
        and "claim-c3" not in said.partition("Our own runs")[2].partition("- In the paper's")[0]
    )


@pytest.mark.parametrize("advice", ADVICE, ids=lambda advice: advice.claim)
def test_each_verdict_has_its_own_sentence_with_its_regime(advice):
    said = {verdict: says(advice, entry(advice.claim, verdict)) or "" for verdict in DECIDED}
    assert said["reproduced"].lower() == advice.holds.lower()
    assert said["contradicted"].lower() == advice.fails.lower() != advice.holds.lower()
    assert "a part did not" in said["partly"] and advice.holds not in said["partly"]  # it may be the other part
    assert REGIME[0] in answer([printed(), entry(advice.claim, "reproduced")])


@pytest.mark.parametrize("advice", ADVICE, ids=lambda advice: advice.claim)
def test_print_weak_networks_and_silence_give_no_advice(advice):
    undecided = [entry(advice.claim, word) for word in (None, "open", "not testable here", "implemented")]
    undecided += [entry(advice.claim, word, "printed") for word in ("consistent with print", "partly", "contradicted")]
    bare = Verdict(advice.claim, "reproduced", "Counted.", "cpu")
    undecided.append(Entry(CLAIMS[advice.claim], bare))  # no regime, so nobody can tell whether its network works
    for each in undecided:
        assert says(advice, each) is None
        said = answer([printed(), each])
        waiting = f'*{advice.question}* <a href="claims.html#claim-{advice.claim.lower()}">{advice.claim}</a>.'
        assert said.rstrip().endswith(f"so there is at most the paper's word: {waiting}")
        assert advice.holds not in said and advice.fails not in said


def test_advice_rests_on_claims_of_the_ledger():
    assert {advice.claim for advice in ADVICE} | set(COMPARISONS) <= set(CLAIMS)
    assert len({advice.claim for advice in ADVICE}) == len(ADVICE)


def test_without_evidence_there_is_no_advice():
    unread = Entry(Claim("C3", "It wins.", "§6", "evidence/x"), None, "not run")
    assert answer([unread, entry("C9", "reproduced")]) == NO_ADVICE
