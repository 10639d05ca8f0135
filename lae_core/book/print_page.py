"""The book as one page to print: every chapter in the order of the contents, cut out of the rendered pages.

Numbers of figures, tables and equations are those of the book. Links between chapters become links within the page, and
what only a screen can use (folded code, buttons, links to downloads) is left out. A browser prints it, or saves it as PDF.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from bs4 import BeautifulSoup, Tag

from lae_core.book.build import book_title, toc_parts
from lae_core.book.template import fill
from lae_core.training import provenance

# What draws mathematics and interactive figures; the rest is for readers at a screen.
_SCRIPTS = ("mathjax", "plotly", "explorer")
_LEFT_OUT = (
    "a.headerlink, details.hide, .sd-summary-state-marker, button, .lae-filter, script:not([type='application/json'])"
)


def print_page(root: Path, html: Path) -> Path:
    """Write `print/index.html` beside the folder of rendered pages, with all that it loads; return its path."""
    folder = html.parent / "print"
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("_static", "_images"):
        if (html / part).is_dir():
            shutil.copytree(html / part, folder / part)
    parts = toc_parts(root)
    names = [name for _, names in parts for name in names]
    head: dict[str, None] = {}  # in order, each once
    chapters = {}
    for name in names:
        page = BeautifulSoup((html / f"{name}.html").read_text(encoding="utf-8"), "html.parser")
        article = page.select_one("article")
        assert isinstance(article, Tag), f"{name}.html has no article"
        head |= dict.fromkeys(_needed(page, name))
        _cut_out(article, name, names)
        title = article.find("h1").get_text(" ", strip=True)  # type: ignore[union-attr]
        chapters[name] = {"title": title, "body": article.decode_contents()}
    about = {"title": book_title(root), "commit": provenance.short_commit(root)}
    text = fill("print.html", head=head, parts=parts, chapters=chapters, **about)
    (folder / "index.html").write_text(text, encoding="utf-8")
    return folder / "index.html"


def _needed(page: BeautifulSoup, name: str) -> Iterator[str]:
    """The style sheets of a page, and the scripts that draw, as tags with addresses relative to the printed page."""
    for tag in page.select("link[rel=stylesheet], script"):
        address = "href" if tag.name == "link" else "src"
        if tag.name == "script" and tag.get("type") in ("application/json", "text/x-mathjax-config"):
            continue
        if address in tag.attrs:
            tag[address] = _from_root(name, str(tag[address]))
        draws = any(word in str(tag.get("src", "")) for word in _SCRIPTS) or "window.MathJax" in tag.get_text()
        if tag.name == "link" or draws:
            yield str(tag)


def _from_root(name: str, address: str) -> str:
    """A relative address on the page `name`, as one relative to the root of the pages."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc or not parts.path:
        return address
    return parts._replace(path=os.path.normpath(os.path.join(os.path.dirname(name), parts.path))).geturl()


def _cut_out(article: Tag, name: str, names: list[str]) -> None:
    """Make an article fit to stand among others: places named after its page, links that lead to places on this one page."""
    for tag in article.select(_LEFT_OUT):
        tag.decompose()
    for tag in article.select("details"):
        tag["open"] = ""
    for tag in article.select("[id]"):
        if not tag.find_parent("svg"):
            tag["id"] = f"{name}:{tag['id']}"
    for tag in article.select("img[src]"):
        tag["src"] = _from_root(name, str(tag["src"]))
        tag.attrs.pop("loading", None)  # a picture below the fold is printed too
    for tag in article.select("a[href]"):
        parts = urlsplit(str(tag["href"]))
        if parts.scheme or parts.netloc:
            continue
        target = urlsplit(_from_root(name, parts.path)).path.removesuffix(".html") if parts.path else name
        if target in names:
            tag["href"] = f"#{target}:{parts.fragment}" if parts.fragment else f"#{target}"
        else:
            tag.unwrap()
