"""The page *Claims*, and what the front page says of it: both written from the verdicts of executed notebooks.

`write` is one of the build's generators. It makes `book/claims.md`, and `book/_generated/ledger.md` and `answer.md`,
which the front page includes. Every verdict on them stands in an element with the class ``lae-verdict`` or a
``data-verdict``, so that `stated` can read it back from the rendered page and a test can compare it with the data.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from lae_core.book.notebooks import Notebook
from lae_core.evidence.claims import VERDICTS, Costs, read_costs, read_verdicts
from lae_core.evidence.ledger import Entry, counts, hours_by_notebook, join, load_claims

if TYPE_CHECKING:
    from lae_core.book.build import Stage

MEANINGS = {
    "proved": "shown by computer algebra, for every size it can be",
    "reproduced": "our evidence says the same",
    "partly": "our evidence bears out a part of it",
    "contradicted": "our evidence says otherwise",
    "open": "not decided yet; the entry says what is missing",
}

_HEAD = """# Claims

What the paper claims, in our words, and what became of each claim here.
Notebooks write the verdicts when they run. This page is made from their files, and nobody edits it.

A verdict rests on one of these: *symbolic* (algebra), *printed numbers* (the paper's own tables, decided again),
*smoke* or *cpu* (our runs, smaller than the paper's), *paper* (the printed protocol). A claim about training stays open
at the paper's scale until it has been run there. The command that would do so stands beside it.

"""


def ledger(root: Path, executed: dict[str, Path]) -> list[Entry]:
    """The ledger of a checkout; `executed` gives the directory of verdicts of each executed notebook."""
    verdicts = {name: read_verdicts(directory) for name, directory in executed.items()}
    return join(load_claims(root / "book" / "claims.yml"), verdicts, root / "notebooks")


def write(stage: Stage) -> None:
    """Write the Claims page and the two pieces of the front page into the staged tree."""
    entries = ledger(stage.root, {name: done.verdicts for name, done in stage.executed.items()})
    titles = {name: Notebook(stage.root, name).title for name in stage.executed}
    bills = {name: costs for name, done in stage.executed.items() if (costs := read_costs(done.verdicts))}
    book = stage.source / "book"
    (book / "_generated").mkdir(parents=True, exist_ok=True)
    (book / "claims.md").write_text(page(entries, titles, bills), encoding="utf-8")
    (book / "_generated" / "ledger.md").write_text(glance(entries), encoding="utf-8")
    (book / "_generated" / "answer.md").write_text(answer(entries), encoding="utf-8")


def page(entries: list[Entry], titles: dict[str, str], bills: dict[str, Costs] | None = None) -> str:
    """The Claims page in MyST. `titles` are those of the book's notebooks, `bills` the costs that one of them found."""
    lines, hours = [_HEAD], {}
    for notebook, costs in (bills or {}).items():
        link = f"[{titles[notebook]}](../notebooks/{notebook}.ipynb)"
        lines.append(f"GPU-hours are estimates for one {costs.card}, computed on {link}.\n")
        hours = hours_by_notebook(entries, costs)
    lines += ["| verdict | claims | means |", "|---|---:|---|"]
    lines += [f"| {_badge(name)} | {number} | {MEANINGS[name]} |" for name, number in counts(entries).items()]
    lines += ["", "```{list-table} All claims", ":name: tab-claims", ":class: lae-claims", ":header-rows: 1"]
    lines += [":widths: 8 36 14 42", "", *_row("id", "claim", "verdict", "evidence")]
    for entry in entries:
        lines += _row(_name(entry), _claim(entry), _verdict(entry), _evidence(entry, titles, hours))
    script = '<script src="../_static/lae-claims.js" defer></script>'
    return "\n".join([*lines, "```", "", "```{raw} html", script, "```"]) + "\n"


def _badge(verdict: str) -> str:
    return f"[{verdict}]{{.lae-verdict .lae-{verdict}}}"


def _name(entry: Entry) -> str:
    return f"[{entry.claim.id}]{{#claim-{entry.claim.id.lower()}}}"


def _claim(entry: Entry) -> str:
    return f"{entry.claim.claim} [{entry.claim.place}]{{.lae-place}}"


def _verdict(entry: Entry) -> str:
    scale = f" [{entry.verdict.scale}]{{.lae-place}}" if entry.verdict else ""
    return _badge(entry.state) + scale


def _evidence(entry: Entry, titles: dict[str, str], hours: dict[str, float]) -> str:
    parts = []
    if entry.verdict:
        link = f"[{titles[entry.claim.notebook]}](../notebooks/{entry.claim.notebook}.ipynb)"
        figure = f", {{numref}}`{entry.verdict.figure}`" if entry.verdict.figure else ""
        parts += [entry.verdict.evidence, f"See {link}{figure}."]
    else:
        parts.append(f"Missing: {entry.missing}.")
    if entry.open_at_paper_scale:
        parts.append(f"At the paper's scale: `{entry.claim.command}`{_cost(hours.get(entry.claim.notebook))}.")
    return " ".join(parts)


def _cost(hours: float | None) -> str:
    if hours is None:
        return ""
    return (
        f", about {float(f'{hours:.2g}'):,.0f} GPU-hours" if hours else ", no training beyond that of other experiments"
    )


def _row(*cells: str) -> list[str]:
    first, *rest = (" ".join(cell.split()) for cell in cells)
    return [f"* - {first}", *(f"  - {cell}" for cell in rest)]


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
    return "\n".join(
        [
            "```{raw} html",
            f'<ul class="lae-ledger" aria-label="{len(entries)} claims by verdict">{"".join(parts)}</ul>',
            "```",
            "",
            f"The book follows {len(entries)} [claims](claims.md) of the paper. {len(training)} of them are about "
            f"training; {waiting} of these are still open at the paper's own scale.",
            "",
        ]
    )


def answer(entries: list[Entry]) -> str:
    """The answer to "should I use it?", as far as the verdicts go."""
    found = {entry.claim.id: entry for entry in entries}
    decided = found["C3"].verdict if "C3" in found else None
    if decided is None:
        return "The evidence has not been run for this copy of the book, so it gives no advice.\n"
    pools = _outcomes(decided.numbers)
    number = {name: int(decided.numbers[name] or 0) for name in ("comparisons", "better", "level", "worse")}
    safest = max(pools, key=lambda pool: (-pools[pool]["worse"] / _total(pools[pool]), pools[pool]["better"]))
    strongest = max(pools, key=lambda pool: (pools[pool]["better"] - pools[pool]["worse"]) / _total(pools[pool]))
    safe, strong = pools[safest], pools[strongest]
    if safe["worse"] == 0 and safe["better"] > 0:
        advice = f"Yes, where you can measure it: in the paper's tables `{safest}` is nowhere significantly worse than "
        advice += "average pooling, and sometimes better."
    elif number["better"] > number["worse"]:
        advice = (
            "Perhaps: it wins more often than it loses, but no setting of it is free of risk. Measure it on your task."
        )
    else:
        advice = "Not on this evidence: it loses at least as often as it wins."
    trained = [entry for entry in entries if entry.claim.needs_training]
    settled = [entry for entry in trained if entry.state != "open"]
    lines = [
        f"**{advice}**",
        "",
        f"- In the paper's printed tables LAE pools are significantly better than average pooling in "
        f"{number['better']} of {number['comparisons']} comparisons, level in {number['level']} "
        f"and worse in {number['worse']} (<a href='claims.html#claim-c3'>claim C3</a>).",
        f"- Safest there: `{safest}`, {_spell(safe)}.",
        f"- Strongest there: `{strongest}`, {_spell(strong)}.",
        f"- Our own runs have so far settled {len(settled)} of the {len(trained)} claims about training.",
    ]
    return "\n".join(lines) + "\n"


def _outcomes(numbers: dict) -> dict[str, dict[str, int]]:
    pools: dict[str, dict[str, int]] = {}
    for key, value in numbers.items():
        if ": " in key:
            pool, outcome = key.split(": ")
            pools.setdefault(pool, {})[outcome] = int(value)
    return pools


def _total(outcomes: dict[str, int]) -> int:
    return sum(outcomes.values())


def _spell(outcomes: dict[str, int]) -> str:
    better, level, worse = (outcomes[outcome] for outcome in ("better", "level", "worse"))
    return f"better in {better} of {_total(outcomes)} settings, level in {level}, worse in {worse}"


def stated(claims_html: str) -> dict[str, str]:
    """The verdicts that a rendered Claims page states, by claim."""
    row = re.compile(r'id="claim-([a-z0-9]+)".*?class="[^"]*lae-verdict[^"]*"[^>]*>([a-z]+)<', re.DOTALL)
    return {name.upper()[0] + name[1:]: verdict for name, verdict in row.findall(claims_html)}


def stated_counts(front_html: str) -> dict[str, int]:
    """The counts that a rendered front page states, by verdict; a verdict without claims is not shown."""
    shown = dict(re.findall(r'data-verdict="([a-z]+)" data-count="(\d+)"', html.unescape(front_html)))
    return {verdict: int(shown.get(verdict, 0)) for verdict in VERDICTS}


def disagreements(entries: Iterable[Entry], html_root: Path) -> list[str]:
    """Where the rendered pages state something that the data does not give: one line each, none if all is well."""
    entries = list(entries)
    book = html_root / "book"
    said = stated((book / "claims.html").read_text(encoding="utf-8"))
    now = {entry.claim.id: entry.state for entry in entries}
    wrong = [
        f"claims.html: {name} is {said.get(name, 'missing')}, the data gives {state}"
        for name, state in now.items()
        if said.get(name) != state
    ]
    wrong += [f"claims.html: {name} is no claim" for name in said if name not in now]
    shown, due = stated_counts((book / "intro.html").read_text(encoding="utf-8")), counts(entries)
    wrong += [
        f"intro.html: {shown[name]} {name}, the data gives {due[name]}" for name in VERDICTS if shown[name] != due[name]
    ]
    return wrong
