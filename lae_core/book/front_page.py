"""What the front page says of the evidence: the answer to "should I use it, and how?", and the ledger at a glance.

Both are written by the verdicts of executed notebooks. `ADVICE` holds, for each question, what a verdict either way
would mean; which of the sentences is shown is decided by the verdict alone, and none is shown without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lae_core.book.claims_page import ledger, verdict_badge
from lae_core.evidence.ledger import Entry, counts

if TYPE_CHECKING:
    from lae_core.book.stage import Stage

COMPARISONS = ("E2", "E3", "E4")  # our runs of the paper's tables, LAE against average pooling
NO_ADVICE = "The evidence has not been run for this copy of the book, so it gives no advice."


@dataclass(frozen=True)
class Advice:
    """A question of someone who has a network, and the answer if the claim is borne out or contradicted."""

    question: str
    claim: str
    holds: str
    fails: str


ADVICE = (
    Advice(
        "Which temperature?",
        "C9",
        "start at t₀ = 4 and train it.",
        "do not take t₀ = 4, trained, on trust: compare it with others.",
    ),
    Advice(
        "Must it be just that one?",
        "C12",
        "no, starts between 1 and 32 beat average pooling.",
        "it matters: not every start between 1 and 32 beats average pooling.",
    ),
    Advice(
        "In a network tuned for average pooling?",
        "C20",
        "not with t = 1, which is unlikely to help there.",
        "yes, even t = 1 did better there.",
    ),
    Advice(
        "Other hyperparameters?",
        "C7a",
        "try smaller steps than with average pooling.",
        "there is no sign that LAE wants smaller steps.",
    ),
    Advice(
        "A learning rate of its own for t?",
        "C8",
        "yes, a larger one than the weights have.",
        "no, leave it at that of the weights.",
    ),
    Advice(
        "Single precision?",
        "C6",
        "it is enough for the pooling step.",
        "the precision of the pooling step changes the accuracy.",
    ),
    Advice(
        "In Squeeze-and-Excitation?",
        "C4",
        "LAE in the squeeze beats average pooling there.",
        "do not expect a gain from LAE in the squeeze.",
    ),
    Advice(
        "Will it learn faster?",
        "C7",
        "early in training, at the same learning rate.",
        "no, not at the same learning rate.",
    ),
    Advice(
        "Will it bear other input sizes?",
        "C13",
        "better than average pooling does.",
        "no better than average pooling does.",
    ),
)


def write(stage: Stage) -> None:
    """Write the pieces that `book/intro.md` includes into the staged tree."""
    entries = ledger(stage.root, {name: done.verdicts for name, done in stage.executed.items()})
    pieces = stage.source / "book" / "_generated"
    pieces.mkdir(parents=True, exist_ok=True)
    (pieces / "ledger.md").write_text(glance(entries), encoding="utf-8")
    (pieces / "answer.md").write_text(answer(entries), encoding="utf-8")


def glance(entries: list[Entry]) -> str:
    """The ledger at a glance: one bar, each part as wide as it has claims and a link to them."""
    parts = [
        f'<li class="lae-{name}" style="flex-grow: {number}" data-verdict="{name}" data-count="{number}">'
        f'<a href="claims.html?verdict={name}"><strong>{number}</strong> {name}</a></li>'
        for name, number in counts(entries).items()
        if number
    ]
    training = [entry for entry in entries if entry.claim.needs_training]
    waiting = sum(entry.open_at_paper_scale for entry in training)
    how_many = "all" if waiting == len(training) else str(waiting)
    return "\n".join(
        [
            "```{raw} html",
            f'<ul class="lae-ledger" aria-label="{len(entries)} claims by verdict">{"".join(parts)}</ul>',
            "```",
            "",
            f"The book follows {len(entries)} [claims](claims.md) of the paper. {len(training)} of them are about "
            f"training; {how_many} of these are still open at the paper's own scale.",
            "",
        ]
    )


def answer(entries: list[Entry]) -> str:
    """The answer to "should I use it, and how?", as far as the verdicts go."""
    found = {entry.claim.id: entry for entry in entries}
    printed = found["C3"].verdict if "C3" in found else None
    if printed is None:
        return f"{NO_ADVICE}\n"
    pools = _outcomes(printed.numbers)
    number = {name: int(printed.numbers[name] or 0) for name in ("comparisons", "better", "level", "worse")}
    unbeaten = [pool for pool, outcomes in pools.items() if outcomes["worse"] == 0 < outcomes["better"]]
    strongest = max(pools, key=lambda pool: (pools[pool]["better"] - pools[pool]["worse"]) / sum(pools[pool].values()))
    ours = [found[name] for name in COMPARISONS if name in found]
    lines = [
        f"**{_headline(number, unbeaten, ours)}**",
        "",
        f"- In the paper's printed tables LAE pools are significantly better than average pooling in {number['better']} of "
        f"{number['comparisons']} comparisons, level in {number['level']} and worse in {number['worse']} ({_link('C3')}).",
        f"- The setting that wins most often there is `{strongest}`: {_spell(pools[strongest])}.",
    ]
    if unbeaten:
        alike: dict[str, list[str]] = {}
        for pool in unbeaten:
            alike.setdefault(_spell(pools[pool]), []).append(f"`{pool}`")
        each = "; ".join(
            f"{', '.join(names)} ({'each ' if len(names) > 1 else ''}{outcomes})" for outcomes, names in alike.items()
        )
        lines.append(f"- Never worse there: {each}.")
    if ours:
        runs = ", ".join(f"{_link(entry.claim.id)} {verdict_badge(entry)}" for entry in ours)
        lines.append(f"- Our own runs of such tables, smaller than the paper's: {runs}.")
    if unbeaten:
        lines += [
            "",
            "In these names `t0` is the temperature to start from, 1 if it is left out, and `train` what to learn of it, "
            "nothing if it is left out ([all choices](use/choosing.md)). One line puts such a pool into a torchvision or "
            "timm model ([how](use/index.md)):",
            "",
        ]
        lines += ["```python", "from lae_core import swap_global_pool", ""]
        lines += [f'swap_global_pool(model, "{unbeaten[-1]}")', "```"]
    sentences = {advice: says(advice, found[advice.claim]) for advice in ADVICE if advice.claim in found}
    rows = {advice: sentence for advice, sentence in sentences.items() if sentence}
    if rows:
        lines += [
            "",
            "{numref}`tab-advice` answers what else you may ask. Beside each verdict stands what it rests on: *printed "
            "numbers* are the paper's own tables, *cpu* are our runs, smaller than the paper's.",
        ]
        lines += ["", "```{list-table} How to use it, as far as the verdicts go", ":name: tab-advice"]
        lines += [":class: lae-advice", ":header-rows: 1", ":widths: 28 44 28", ""]
        lines += ["* - you ask", "  - the evidence says", "  - which rests on"]
        for advice, sentence in rows.items():
            lines += [f"* - {advice.question}", f"  - {sentence}"]
            lines += [f"  - {_link(advice.claim)} {verdict_badge(found[advice.claim])}"]
        lines += ["```"]
    if waiting := [f"*{advice.question}* {_link(advice.claim)}" for advice, said in sentences.items() if not said]:
        lines += ["", f"Not decided yet; the paper's word is all there is: {', '.join(waiting)}."]
    return "\n".join(lines) + "\n"


def says(advice: Advice, entry: Entry) -> str | None:
    """The sentence that a verdict allows, if any. At `smoke` a run only shows that the notebook works."""
    state = entry.state if entry.verdict and entry.verdict.scale != "smoke" else "open"
    match state:
        case "proved" | "reproduced":
            text = advice.holds
        case "partly":
            text = f"borne out in part: {advice.holds}"
        case "contradicted":
            text = advice.fails
        case _:
            return None
    return text[0].upper() + text[1:]


def _headline(number: dict[str, int], unbeaten: list[str], ours: list[Entry]) -> str:
    against = [entry for entry in ours if entry.verdict and entry.verdict.scale != "smoke"]
    against = [entry for entry in against if entry.state == "contradicted"]
    if unbeaten and not against:
        which = f"`{unbeaten[0]}` is" if len(unbeaten) == 1 else f"{len(unbeaten)} settings of it are"
        return (
            f"Try it, and measure: in the paper's tables {which} nowhere significantly worse than average pooling, "
            "and sometimes better."
        )
    if against and number["better"] > number["worse"]:
        names = " and ".join(entry.claim.id for entry in against)
        return f"Perhaps: the paper's tables speak for it, our runs of {names} against it. Measure it on your task."
    if number["better"] > number["worse"]:
        return (
            "Perhaps: it wins more often than it loses, but no setting of it is free of risk. Measure it on your task."
        )
    return "Not on this evidence: it loses at least as often as it wins."


def _link(claim: str) -> str:
    # MyST finds no ids of single words on other pages, so this is a plain link.
    return f'<a href="claims.html#claim-{claim.lower()}">{claim}</a>'


def _outcomes(numbers: dict) -> dict[str, dict[str, int]]:
    pools: dict[str, dict[str, int]] = {}
    for key, value in numbers.items():
        if ": " in key:
            pool, outcome = key.split(": ")
            pools.setdefault(pool, {})[outcome] = int(value)
    return pools


def _spell(outcomes: dict[str, int]) -> str:
    better, level, worse = (outcomes[outcome] for outcome in ("better", "level", "worse"))
    return f"better in {better} of {sum(outcomes.values())} comparisons, level in {level}, worse in {worse}"
