"""What rendered pages state of the claims, read back from their HTML and compared with the data."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path

from lae_core.evidence.decision import VERDICTS
from lae_core.evidence.ledger import Entry, counts


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
