"""What the front page says of the evidence: the answer to "should I use it, and how?", and the ledger at a glance.

Both are written by the verdicts of executed notebooks. `ADVICE` holds, for each question, what a verdict either way
would mean. A sentence is shown only where runs of networks that work decided its claim, together with the regime of
these runs. What the paper's own tables say is reported as that, and no advice is made of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from lae_core.book.claims_page import css, ledger, verdict_badge
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
        "A small object in clutter?",
        "C26",
        "pool class scores, not features: over scores LAE at t = 1 beats the average.",
        "do not expect LAE over class scores to beat the average.",
    ),
    Advice(
        "A trained network, without more training?",
        "C28",
        "a swap does no harm from t of about four times the features' spread on; far below it does.",
        "a swap changes accuracy even at high t: train again.",
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
        f'<li class="{css(name)}" style="flex-grow: {number}" data-verdict="{name}" data-count="{number}">'
        f'<a href="claims.html?verdict={quote(name)}"><strong>{number}</strong> {name}</a></li>'
        for name, number in counts(entries).items()
        if number
    ]
    training = [entry for entry in entries if entry.claim.needs_training and entry.claim.in_paper]
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
    both = (found["C3"].verdict, found["C3"].beside) if "C3" in found else ()
    printed = next((verdict for verdict in both if verdict and verdict.scale == "printed"), None)
    if printed is None:
        return f"{NO_ADVICE}\n"
    ours = [found[name] for name in COMPARISONS if name in found]
    lines = [f"**{_headline([entry for entry in ours if counts_as_advice(entry)])}**", ""]
    if ours:
        runs = ", ".join(f"{_link(entry.claim.id)} {verdict_badge(entry)}" for entry in ours)
        lines.append(f"- Our own runs of the paper's tables: {runs}.")
    lines += [*_in_print(printed.numbers), ""]
    lines += [
        "To try it and measure, one line puts such a pool into a torchvision or timm model ([how](use/index.md), "
        "[all choices](use/choosing.md)):",
        "",
        *("```python", "from lae_core import swap_global_pool", "", 'swap_global_pool(model, "lae(train=one)")', "```"),
    ]
    sentences = {advice: says(advice, found[advice.claim]) for advice in ADVICE if advice.claim in found}
    rows = {advice: sentence for advice, sentence in sentences.items() if sentence}
    if rows:
        lines += [
            "",
            "{numref}`tab-advice` answers what else you may ask, as far as networks that work have decided it.",
        ]
        lines += ["", "```{list-table} How to use it, as far as our runs go", ":name: tab-advice"]
        lines += [":class: lae-advice", ":header-rows: 1", ":widths: 24 36 40", ""]
        lines += ["* - you ask", "  - the evidence says", "  - which rests on"]
        for advice, sentence in rows.items():
            entry = found[advice.claim]
            regime = "; ".join(entry.verdict.regime) if entry.verdict else ""
            lines += [f"* - {advice.question}", f"  - {sentence}"]
            lines += [f"  - {_link(advice.claim)} {verdict_badge(entry)} {regime}"]
        lines += ["```"]
    if waiting := [f"*{advice.question}* {_link(advice.claim)}" for advice, said in sentences.items() if not said]:
        lines += ["", f"Not decided by runs of ours; the paper's word is all there is: {', '.join(waiting)}."]
    return "\n".join(lines) + "\n"


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


def _headline(ours: list[Entry]) -> str:
    states = [entry.state for entry in ours]
    if not states:
        return "Not known yet here: no run of ours with a network that works has decided it. Measure it on your task."
    names = " and ".join(entry.claim.id for entry in ours)
    if "contradicted" in states:
        return f"Our runs of {names} speak against it, in part at least. Measure it on your task."
    return f"Try it, and measure: our runs of {names} bear out the paper's tables{' in part' if 'partly' in states else ''}."


def _in_print(numbers: dict) -> list[str]:
    """What the paper's own tables say, in two sentences."""
    pools: dict[str, dict[str, int]] = {}
    for key, value in numbers.items():
        if ": " in key:
            pool, outcome = key.split(": ")
            pools.setdefault(pool, {})[outcome] = int(value)
    number = {name: int(numbers[name] or 0) for name in ("comparisons", "higher", "lower", "same", "undecided")}
    strongest = max(pools, key=lambda pool: (pools[pool]["higher"] - pools[pool]["lower"]) / sum(pools[pool].values()))
    best, total = pools[strongest], sum(pools[strongest].values())
    return [
        f"- In the paper's printed tables LAE pools are significantly better than average pooling in {number['higher']} of "
        f"{number['comparisons']} comparisons and worse in {number['lower']}; {number['same']} are the same, and "
        f"{number['undecided']} are undecided ({_link('C3')}).",
        f"- The setting that wins most often there is `{strongest}`: better in {best['higher']} of {total} comparisons, "
        f"worse in {best['lower']}. A difference that was not found is no proof that there is none.",
    ]


def _link(claim: str) -> str:
    # MyST finds no ids of single words on other pages, so this is a plain link.
    return f'<a href="claims.html#claim-{claim.lower()}">{claim}</a>'
