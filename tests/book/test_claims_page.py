"""The Claims page and the front page's ledger, built from verdict files and used in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from browser import VIEWS, browser_page, check_book
from stated import disagreements, stated

from lae_core.book import build, claims_page, front_page
from lae_core.book.execute import Executed
from lae_core.evidence.claims import Claim, LedgerError
from lae_core.evidence.ledger import Entry
from lae_core.evidence.verdicts import Verdict

REPO = Path(__file__).resolve().parents[2]
CLAIMS = """\
- {id: T1, claim: One and one are two., place: §2, notebook: part/one}
- {id: E1, claim: Curves., place: figure 2, notebook: experiments/late}
- {id: C1, claim: It learns faster., place: §4, notebook: experiments/late}
- {id: C3, claim: It wins., place: §6, notebook: part/one}
"""
RECORDS = """
    from lae_core.evidence.verdicts import record_costs, record_verdict
    record_costs({"E1, E2": 1234.5, "E9": 1.0}, card="card of ours")
    record_verdict("T1", "proved", evidence="Algebra says so.", scale="symbolic")
    numbers = {"comparisons": 2, "higher": 1, "same": 0, "lower": 0, "undecided": 1}
    numbers |= {"lae: higher": 1, "lae: same": 0, "lae: lower": 0, "lae: undecided": 1}
    record_verdict("C3", verdict, evidence="Counted.", scale="printed", numbers=numbers);
"""


@pytest.fixture
def book(project, monkeypatch):
    shutil.copy(REPO / "_config.yml", project.root / "_config.yml")
    shutil.copytree(REPO / "book" / "_static", project.root / "book" / "_static")
    project.write("book/references.bib", "")
    project.write("book/claims.yml", CLAIMS)
    shutil.copy(REPO / "book" / "advice.yml", project.root / "book")
    project.write(
        "_toc.yml",
        "format: jb-book\nroot: book/intro\nchapters:\n- file: notebooks/part/one\n- file: book/claims\n"
        "- file: book/use/index\n- file: book/use/choosing\n",
    )
    for page in ("index", "choosing"):  # the answer on the front page leads to them
        project.write(f"book/use/{page}.md", f"# {page}\n")
    pieces = "\n\n".join(f"```{{include}} _generated/{name}.md\n```" for name in ("answer", "ledger", "claim_C3"))
    project.write("book/intro.md", f"# A small book\n\n{pieces}\n")
    project.notebook("part/one", "verdict: str = 'partly'  # on C3", RECORDS)
    monkeypatch.setattr(build, "GENERATORS", [claims_page.write, front_page.write])
    return project


def now(root: Path) -> list[Entry]:
    done = build.execute_all(root, build.book_notebooks(root), "smoke")
    return build.Stage(root, root / "_build" / "src", "smoke", done).ledger


def test_pages_state_what_the_data_gives_and_follow_it(book):
    root, html = book.root, book.root / "_build" / "html"
    build.build(root, root / "_build", "smoke")
    page, front = (html / "book" / f"{name}.html" for name in ("claims", "intro"))
    assert stated(page.read_text()) == {"T1": "proved", "E1": "open", "C1": "open", "C3": "partly"}
    assert disagreements(now(root), html) == []
    staged = (root / "_build" / "src" / "book" / "claims.md").read_text()
    assert "`lae run late --profile paper`, about 1,200 GPU-hours." in staged
    assert "estimates for one card of ours, computed on [One](../notebooks/part/one.ipynb)" in staged
    assert "better in 1 of 2 comparisons" in front.read_text()
    assert re.search(r'href="claims.html#claim-c3">.*C3.*</dt>\s*<dd>.*lae-partly', front.read_text(), re.DOTALL)

    # The data changes, the pages do not: they are found out. A build puts them right.
    book.write("ci/profiles/smoke/part/one.yml", "verdict: contradicted\n")
    assert disagreements(now(root), html) == [
        "claims.html: C3 is partly, the data gives contradicted",
        "intro.html: 1 partly, the data gives 0",
        "intro.html: 0 contradicted, the data gives 1",
    ]
    build.build(root, root / "_build", "smoke")
    assert disagreements(now(root), html) == []

    assert check_book(html, VIEWS[1], VIEWS[0]) == []
    _use_the_filter(page)


def _use_the_filter(page: Path) -> None:
    errors: list[str] = []
    with browser_page(VIEWS[0], [], errors) as tab:

        def shown() -> list[str]:
            rows = tab.locator("table.lae-claims tbody tr")
            return [row.locator("td").first.inner_text() for row in rows.all() if row.is_visible()]

        tab.goto(f"{page.as_uri()}?verdict=open")
        assert shown() == ["E1", "C1"] and tab.locator(".lae-filter output").inner_text() == "2 of 4 claims"
        tab.goto(page.as_uri())
        assert shown() == ["T1", "E1", "C1", "C3"]
        # By keyboard alone: the first button, then on to the second.
        tab.locator(".lae-filter button").first.focus()
        tab.keyboard.press("Enter")
        assert shown() == ["T1"]
        tab.keyboard.press("Tab")
        tab.keyboard.press("Space")
        assert shown() == ["T1", "C3"]
        tab.get_by_label("Kind of claim").select_option("C")
        assert shown() == ["C3"]
        tab.get_by_label("Search the claims").fill("algebra")
        assert shown() == []
    assert errors == []


def text_of(verdict: Verdict) -> str:
    return json.dumps(asdict(verdict))


def test_a_verdict_without_a_claim_stops_the_book(book):
    verdicts = book.root / "verdicts"
    book.write("verdicts/C4.json", text_of(Verdict("C4", "partly", "Counted.", "printed")))
    done = Executed(book.root / "one.ipynb", verdicts, ())
    with pytest.raises(LedgerError, match=r"'C4', which is not in book/claims.yml"):
        claims_page.write(build.Stage(book.root, book.root / "src", "smoke", {"part/one": done}))


def entry(name: str, verdict: str = "partly", scale: str = "printed", **numbers: int) -> Entry:
    return Entry(
        Claim(name, "It wins.", "§6", "evidence/x"), Verdict(name, verdict, "Counted.", scale, numbers=numbers)
    )


def test_pages_get_the_claims_that_they_include(book):
    generated = book.root / "src" / "book" / "_generated"
    asks = "".join(f"```{{include}} ../_generated/claim_{name}.md\n```\n" for name in ("T1", "C1"))
    book.write("src/book/use/page.md", asks)
    book.write("verdicts/T1.json", text_of(Verdict("T1", "proved", "Algebra says so.", "symbolic", figure="fig-one")))
    numbers = {"comparisons": 1, "higher": 1, "same": 0, "lower": 0, "undecided": 0}
    numbers |= {"lae: higher": 1, "lae: same": 0, "lae: lower": 0, "lae: undecided": 0}
    book.write("verdicts/C3.json", text_of(entry("C3", **numbers).verdict))
    done = Executed(book.root / "one.ipynb", book.root / "verdicts", ())
    stage = build.Stage(book.root, book.root / "src", "smoke", {"part/one": done})
    claims_page.write(stage)
    assert sorted(path.name for path in generated.glob("claim_*")) == ["claim_C1.md", "claim_T1.md"]
    assert (generated / "claim_T1.md").read_text() == (
        "{ref}`T1 <claim-t1>` One and one are two.\n"
        ": [proved]{.lae-verdict .lae-proved} (symbolic) See [One](/notebooks/part/one.ipynb), {numref}`fig-one`.\n\n"
        "  ```{dropdown} Numbers, networks and rule\n  Algebra says so.\n\n  ```\n"
    )
    missing = (generated / "claim_C1.md").read_text()
    assert missing.startswith("{ref}`C1 <claim-c1>` It learns faster.\n: [open]")
    assert "Missing: the notebook that decides it is not written yet" in missing

    book.write("src/book/use/page.md", asks.replace("C1", "C9"))
    with pytest.raises(LedgerError, match=r"book/use/page.md includes claim 'C9', which is not in book/claims.yml"):
        claims_page.write(stage)
