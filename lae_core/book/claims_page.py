"""The page *Claims*, written from the verdicts of executed notebooks, and the check that pages say what the data gives.

`write` is one of the build's generators. It makes `book/claims.md`. A page that rests advice on a claim includes
`_generated/claim_<ID>.md`, which is made for the ids that pages ask for. Every verdict on these pages and on the front
page stands in an element with the class ``lae-verdict`` or a ``data-verdict``, so that `stated` can read it back from
the rendered page and a test can compare it with the data.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from lae_core.book.notebooks import Notebook
from lae_core.evidence.claims import LedgerError, load_claims
from lae_core.evidence.decision import VERDICTS
from lae_core.evidence.ledger import Entry, counts, hours_by_notebook, join
from lae_core.evidence.text import true_minus
from lae_core.evidence.verdicts import Costs, Verdict, read_costs, read_verdicts

if TYPE_CHECKING:
    from lae_core.book.stage import Stage

RULES = "experiments/rules"  # the notebook with the table of rules

MEANINGS = {
    "proved": "shown by computer algebra, for every size it can be",
    "reproduced": "runs of ours say the same, in networks that work",
    "consistent with print": "the paper's own tables say the same, corrected for many comparisons; nothing was run",
    "implemented": "built as described, not trained at the paper's scale",
    "partly": "the evidence bears out a part of it",
    "contradicted": "the evidence says otherwise",
    "open": "not decided yet; the entry says what is missing",
    "not testable here": "run, but in networks too weak for it to mean anything",
}

_HEAD = """# Claims

What the paper claims, in our words, and what became of each claim here.
Notebooks write the verdicts when they run. This page is made from their files, and nobody edits it.

A verdict rests on one of these: *symbolic* (algebra), *printed* (the paper's own tables, decided again),
*cpu* (our runs, smaller than the paper's), *gpu* (the printed networks, in fewer epochs or runs), *paper* (the printed
protocol in every field, and as many runs). Which of them
is read off the configs of the runs. A verdict on training states its regime: the accuracy of average pooling in these
runs, beside ridge regression on raw pixels. A claim about training stays open at the paper's scale until it has been
run there. The command that would do so stands beside it.

{numref}`tab-verdicts` counts the verdicts, and {numref}`tab-claims` has every claim with the place where the paper makes
it. Text that is *dropped* or *commented* is in the paper's source and not in print. The first letter of an id is the
kind: T theory, N networks and searches, E experiments, C further claims.

"""


def ledger(root: Path, executed: dict[str, Path]) -> list[Entry]:
    """The ledger of a checkout; `executed` gives the directory of verdicts of each executed notebook."""
    verdicts = {name: read_verdicts(directory) for name, directory in executed.items()}
    return join(load_claims(root / "book" / "claims.yml"), verdicts, root / "notebooks")


def write(stage: Stage) -> None:
    """Write the Claims page and the claims that other pages include into the staged tree."""
    entries = ledger(stage.root, {name: done.verdicts for name, done in stage.executed.items()})
    titles = {name: Notebook(stage.root, name).title for name in stage.executed}
    bills = {name: costs for name, done in stage.executed.items() if (costs := read_costs(done.verdicts))}
    book = stage.source / "book"
    (book / "_generated").mkdir(parents=True, exist_ok=True)
    (book / "claims.md").write_text(page(entries, titles, bills), encoding="utf-8")
    found = {entry.claim.id: entry for entry in entries}
    for name, page_that_asks in included(book).items():
        if name not in found:
            raise LedgerError(f"{page_that_asks} includes claim {name!r}, which is not in book/claims.yml")
        (book / "_generated" / f"claim_{name}.md").write_text(note(found[name], titles), encoding="utf-8")


def included(book: Path) -> dict[str, str]:
    """The claims that pages under `book` include, each with a page that does."""
    asks = re.compile(r"^`{3,}\{include\} \S*_generated/claim_(\w+)\.md$", re.MULTILINE)
    pages = sorted(book.rglob("*.md"))
    return {
        name: str(path.relative_to(book.parent))
        for path in pages
        for name in asks.findall(path.read_text(encoding="utf-8"))
    }


def note(entry: Entry, titles: dict[str, str]) -> str:
    """One claim and what became of it, its numbers folded away, as a definition list; links hold on pages of any folder."""
    term = " ".join(f"{{ref}}`{entry.claim.id} <claim-{entry.claim.id.lower()}>` {entry.claim.claim}".split())
    if entry.verdict is None:
        return f"{term}\n: {_badge(entry.state)} {_found(entry, titles)}\n"
    lines = [term, f": {_badge(entry.state)} ({_rests(entry.verdict)}) {_see(entry, entry.verdict, titles)}", ""]
    lines += ["  ```{dropdown} The numbers, the regime and the rule"]
    lines += [f"  {' '.join(true_minus(text).split())}\n" for text in _reasons(entry.verdict)]
    lines += [f"  Rule: {' '.join(true_minus(entry.verdict.rule).split())}\n"] if entry.verdict.rule else []
    lines += ["  ```"]
    return "\n".join(lines) + "\n"


def page(entries: list[Entry], titles: dict[str, str], bills: dict[str, Costs] | None = None) -> str:
    """The Claims page in MyST. `titles` are those of the book's notebooks, `bills` the costs that one of them found."""
    lines, hours = [_HEAD], {}
    if RULES in titles:
        lines.append("{numref}`tab-rules` has the rule of every claim, as it stood before the runs.\n")
    for notebook, costs in (bills or {}).items():
        link = f"[{titles[notebook]}](../notebooks/{notebook}.ipynb)"
        lines.append(f"GPU-hours are estimates for one {costs.card}, computed on {link}.\n")
        hours = hours_by_notebook(entries, costs)
    lines += ["```{table} What a verdict means, and how many claims have it", ":name: tab-verdicts", ""]
    lines += ["| verdict | claims | means |", "|---|---:|---|"]
    lines += [f"| {_badge(name)} | {number} | {MEANINGS[name]} |" for name, number in counts(entries).items()]
    lines += ["```", "", "```{list-table} All claims", ":name: tab-claims", ":class: lae-claims", ":header-rows: 1"]
    lines += [":widths: 8 33 18 41", "", *_row("id", "claim", "verdict", "evidence")]
    for entry in entries:
        lines += _row(_name(entry), _claim(entry), verdict_badge(entry), _evidence(entry, titles, hours))
    script = '<script src="../_static/lae-claims.js" defer></script>'
    return "\n".join([*lines, "```", "", "```{raw} html", script, "```"]) + "\n"


def css(verdict: str) -> str:
    """The class of a verdict's colour."""
    return f"lae-{verdict.replace(' ', '-')}"


def _badge(verdict: str) -> str:
    return f"[{verdict}]{{.lae-verdict .{css(verdict)}}}"


def _rests(verdict: Verdict) -> str:
    return verdict.scale if verdict.n is None else f"{verdict.scale}, n = {verdict.n}"


def _reasons(verdict: Verdict) -> list[str]:
    """Why the word is what it is: what held it down, the evidence, the regime."""
    because = [f"{verdict.because[0].upper()}{verdict.because[1:]}."] if verdict.because else []
    return [*because, verdict.evidence, *(f"Regime: {regime}." for regime in verdict.regime)]


def _name(entry: Entry) -> str:
    return f"[{entry.claim.id}]{{#claim-{entry.claim.id.lower()}}}"


def _claim(entry: Entry) -> str:
    return f"{entry.claim.claim} [{entry.claim.place}]{{.lae-place}}"


def verdict_badge(entry: Entry) -> str:
    """The verdict, the scale on which it rests, and n."""
    scale = f" [{_rests(entry.verdict)}]{{.lae-place}}" if entry.verdict else ""
    return _badge(entry.state) + scale


def _evidence(entry: Entry, titles: dict[str, str], hours: dict[str, float]) -> str:
    parts = [_found(entry, titles)]
    if entry.open_at_paper_scale:
        parts.append(
            f"At the paper's scale: `{entry.claim.command}`{_cost(hours.get(entry.claim.also or entry.claim.notebook))}."
        )
    return " ".join(parts)


def _found(entry: Entry, titles: dict[str, str]) -> str:
    if entry.verdict is None:
        return f"Missing: {entry.missing}."
    return f"{true_minus(' '.join(_reasons(entry.verdict)))}{_beside(entry)} {_see(entry, entry.verdict, titles)}"


def _beside(entry: Entry) -> str:
    """What the other of two notebooks found, in a few words."""
    if entry.beside is None:
        return ""
    where = "From the paper's own tables" if entry.beside.scale == "printed" else "From our runs"
    return f" {where}: {entry.beside.verdict}."


def _see(entry: Entry, verdict: Verdict, titles: dict[str, str]) -> str:
    notebook = entry.source or entry.claim.notebook
    link = f"[{titles[notebook]}](/notebooks/{notebook}.ipynb)"
    figure = f", {{numref}}`{verdict.figure}`" if verdict.figure else ""
    return f"See {link}{figure}."


def _cost(hours: float | None) -> str:
    if hours is None:
        return ""
    return (
        f", about {float(f'{hours:.2g}'):,.0f} GPU-hours" if hours else ", no training beyond that of other experiments"
    )


def _row(*cells: str) -> list[str]:
    first, *rest = (" ".join(cell.split()) for cell in cells)
    return [f"* - {first}", *(f"  - {cell}" for cell in rest)]


def stated(claims_html: str) -> dict[str, str]:
    """The verdicts that a rendered Claims page states, by claim."""
    row = re.compile(r'id="claim-([a-z0-9]+)".*?class="[^"]*lae-verdict[^"]*"[^>]*>([a-z ]+)<', re.DOTALL)
    return {name.upper()[0] + name[1:]: verdict for name, verdict in row.findall(claims_html)}


def stated_counts(front_html: str) -> dict[str, int]:
    """The counts that a rendered front page states, by verdict; a verdict without claims is not shown."""
    shown = dict(re.findall(r'data-verdict="([a-z ]+)" data-count="(\d+)"', html.unescape(front_html)))
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
