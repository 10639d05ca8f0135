"""What the front page says of the evidence: the answer to "should I use it, and how?", and the ledger at a glance.

Both are written by the verdicts of executed notebooks. `book/advice.yml` holds, for each question, what a verdict either
way would mean. A sentence is shown only where runs of networks that work decided its claim, together with the regime of
these runs. What the paper's own tables say is reported as that, and no advice is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lae_core.book.stage import Stage
from lae_core.book.template import fill
from lae_core.evidence.ledger import Entry, counts

COMPARISONS = ("C3", "E2", "E3", "E4")  # our runs of the paper's tables, LAE against average pooling
CONTROL = "C30"  # whether the gain is more than that of a learned scale
NO_ADVICE = "The evidence has not been run for this copy of the book, so it gives no advice.\n"


@dataclass(frozen=True)
class Advice:
    """A question of someone who has a network, and the answer if the claim is borne out or contradicted."""

    claim: str
    question: str
    holds: str
    fails: str


def load_advice(root: Path) -> list[Advice]:
    return [Advice(**item) for item in yaml.safe_load((root / "book" / "advice.yml").read_text(encoding="utf-8"))]


def write(stage: Stage) -> None:
    """Write the pieces that `book/intro.md` includes into the staged tree."""
    training = [entry for entry in stage.ledger if entry.claim.needs_training and entry.claim.in_paper]
    numbers = {"counts": counts(stage.ledger), "training": training}
    stage.fill("_generated/ledger.md", "ledger.md", entries=stage.ledger, **numbers)
    stage.write("_generated/answer.md", answer(stage.ledger, load_advice(stage.root)))


def answer(entries: Sequence[Entry], advice: Sequence[Advice]) -> str:
    """The answer to "should I use it, and how?", as far as the verdicts go."""
    found = {entry.claim.id: entry for entry in entries}
    both = (found["C3"].verdict, found["C3"].beside) if "C3" in found else ()
    printed = next((verdict for verdict in both if verdict and verdict.scale == "printed"), None)
    if printed is None:
        return NO_ADVICE
    control = found[CONTROL] if CONTROL in found and found[CONTROL].verdict else None
    ours = [found[name] for name in COMPARISONS if name in found]
    ours = [entry for entry in ours if entry.verdict is None or entry.verdict.scale != "printed"]
    asked = [(each, found[each.claim], says(each, found[each.claim])) for each in advice if each.claim in found]
    return fill(
        "answer.md",
        headline=_headline([entry for entry in ours if counts_as_advice(entry)], control),
        ours=ours,
        control=control,
        printed=printed.numbers,
        best=_strongest(printed.numbers),
        decided=[(each, entry, sentence) for each, entry, sentence in asked if sentence],
        waiting=[each for each, _, sentence in asked if not sentence],
    )


def counts_as_advice(entry: Entry) -> bool:
    """Whether runs of networks that work decided the claim."""
    return entry.verdict is not None and entry.verdict.by_runs


def says(advice: Advice, entry: Entry) -> str | None:
    """The sentence that a verdict allows, if any."""
    if not counts_as_advice(entry):
        return None
    sentence = {
        "reproduced": advice.holds,
        # which part of the claim came out, only its page can say
        "partly": "a part of the claim came out and a part did not: read its page.",
        "contradicted": advice.fails,
    }
    text = sentence[entry.state]
    return text[0].upper() + text[1:]


def _headline(ours: list[Entry], control: Entry | None) -> str:
    states = [entry.state for entry in ours]
    if not states:
        return "Not known yet here: no run of ours with a network that works has decided it. Measure it on your task."
    names = " and ".join(entry.claim.id for entry in ours)
    if "contradicted" in states:
        return f"Our runs of {names} speak against it, in part at least. Measure it on your task."
    part = " in part" if "partly" in states else ""
    beaten = control is not None and counts_as_advice(control) and control.state == "reproduced"
    return (
        f"Try it, and measure: our runs of {names} bear out the paper's tables{part}. They {'show' if beaten else 'do not show'} "
        "that LAE gains more than average pooling with a learned scale."
    )


def _strongest(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The pool that wins most often over its losses in the paper's own tables, with its counts."""
    pools: dict[str, dict[str, Any]] = {}
    for key, value in numbers.items():
        if ": " in key:
            pool, outcome = key.split(": ")
            pools.setdefault(pool, {})[outcome] = value
    for pool, outcomes in pools.items():
        outcomes |= {"pool": pool, "comparisons": sum(outcomes.values())}
    return max(pools.values(), key=lambda pool: (pool["higher"] - pool["lower"]) / pool["comparisons"])
