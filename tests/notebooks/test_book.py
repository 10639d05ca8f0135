"""The book at `smoke`, every notebook executed, in a real browser without a network."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
from browser import VIEWS, browser_page, check_book
from bs4 import BeautifulSoup

from lae_core.book.build import book_notebooks, toc_files
from lae_core.book.print_page import print_page


def test_every_page_works_offline(smoke_book: Path):
    desktop, phone = VIEWS
    assert check_book(smoke_book / "html", phone, desktop) == []


def test_every_page_of_the_contents_is_there_and_says_how_it_was_made(smoke_book: Path, repo: Path):
    for name in toc_files(repo):
        page = smoke_book / "html" / f"{name}.html"
        assert '<aside class="lae-provenance"' in page.read_text(encoding="utf-8"), name


def test_pages_show_and_offer_what_ran(smoke_book: Path, repo: Path):
    """The values on the page and in the notebook behind its download button are those of the profile."""
    for notebook in book_notebooks(repo):
        page = (smoke_book / "html" / "notebooks" / f"{notebook.name}.html").read_text(encoding="utf-8")
        download = re.search(r'href="([^"]*_sources/notebooks/[^"]*\.ipynb)"', page)
        assert download, f"{notebook.name} has no download button"
        offered = smoke_book / "html" / "notebooks" / Path(notebook.name).parent / download.group(1)
        executed = nbformat.read(offered, as_version=4)
        nbformat.validate(executed)
        cells = [cell for cell in executed.cells if "parameters" in cell.metadata.get("tags", [])]
        assert len(cells) == 1
        shown: dict = {}
        exec(cells[0].source, shown)  # plain assignments
        values = notebook.values("smoke")
        assert {name: shown[name] for name in values} == values
        assert executed.metadata["lae"]["parameters"] == values
        assert "injected-parameters" not in json.dumps(executed)
        assert f"lae run notebooks/{notebook.name}.md --profile smoke" in page


def test_no_output_holds_an_error_a_warning_or_a_path_of_this_machine(smoke_book: Path, repo: Path):
    for notebook in book_notebooks(repo):
        executed = nbformat.read(smoke_book / "src" / "notebooks" / f"{notebook.name}.ipynb", as_version=4)
        for cell in executed.cells:
            for output in cell.get("outputs", []):
                assert output.output_type != "error", notebook.name
                assert output.get("name") != "stderr", f"{notebook.name}: {output.get('text')}"
                assert str(repo) not in json.dumps(output), notebook.name


def test_no_page_holds_a_path_of_this_machine(smoke_book: Path, repo: Path):
    pages = (smoke_book / "html").rglob("*.html")
    assert [page.name for page in pages if str(repo) in page.read_text(encoding="utf-8")] == []


def test_plotly_is_loaded_only_where_it_draws(smoke_book: Path):
    pages = list((smoke_book / "html").rglob("*.html"))
    loads = {page for page in pages if "plotly.min.js" in page.read_text(encoding="utf-8")}
    draws = {page for page in pages if 'class="lae-plotly"' in page.read_text(encoding="utf-8")}
    assert loads == draws != set()


def test_all_chapters_on_one_page_to_print(smoke_book: Path, repo: Path):
    """Each chapter once and in order; the page is checked as all others are, but for its weight."""
    page = print_page(repo, smoke_book / "html")
    problems = check_book(page.parent, VIEWS[0])
    assert [problem for problem in problems if "MB with its pictures" not in problem] == []
    printed = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    chapters = printed.select("section.lae-chapter")
    assert [chapter["id"] for chapter in chapters] == toc_files(repo)
    assert all(chapter.h1 and chapter.select("aside.lae-provenance") for chapter in chapters)
    names = [tag["id"] for tag in printed.select("[id]")]
    assert len(names) == len(set(names))
    assert not printed.select("details.hide, button, a.headerlink")
    original = BeautifulSoup((smoke_book / "html" / f"{toc_files(repo)[1]}.html").read_text(), "html.parser")
    captions = [caption.get_text(" ", strip=True) for caption in original.select("article .caption-number")]
    numbers = [caption.get_text(" ", strip=True) for caption in chapters[1].select(".caption-number")]
    assert numbers == captions != []


def test_search_figures_and_theme_from_disk(smoke_book: Path):
    """Search finds a page; in the dark a figure is a light card and an interactive figure takes the theme's ink."""
    html = smoke_book / "html"
    requests: list[str] = []
    errors: list[str] = []
    dark = VIEWS[1]
    with browser_page(dark, requests, errors) as page:
        page.goto((html / "search.html").as_uri() + "?q=temperature")
        page.wait_for_selector("#search-results li a[href*='five_minutes.html']", timeout=20_000)  # one after another
        page.goto((html / "notebooks" / "start" / "five_minutes.html").as_uri())
        page.wait_for_selector(".lae-plotly svg.main-svg", timeout=20_000)
        ink = "selector => getComputedStyle(document.querySelector(selector))"
        card = page.evaluate(f"({ink})('.cell_output img').backgroundColor")
        assert card == "rgb(255, 255, 255)"
        label = "document.querySelector('.lae-plotly .xtick text').style.fill"
        dark_ink = page.evaluate(label)
        page.evaluate("document.documentElement.dataset.theme = 'light'")
        page.wait_for_function(f"{label} !== '{dark_ink}'", timeout=10_000)
        red, green, blue = (int(part) for part in re.findall(r"\d+", dark_ink)[:3])
        assert min(red, green, blue) > 150, f"{dark_ink} is not readable on a dark page"
    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
