"""What our pages need beyond Jupyter Book: interactive figures that work from disk, numbered tables, and the provenance footer."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import plotly
from bs4 import BeautifulSoup
from docutils import nodes
from myst_nb.core.render import MimeData, MimeRenderPlugin
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from lae_core.book.elsewhere import repository_url
from lae_core.book.template import fill
from lae_core.training import provenance

PLOTLY = "application/vnd.plotly.v1+json"


class PlotlyRenderer(MimeRenderPlugin):
    """Draws plotly's own MIME output with the copy of plotly.js that the book ships (entry point of myst_nb)."""

    mime_priority_overrides: ClassVar = [("html", PLOTLY, 1)]

    @staticmethod
    def handle_mime(renderer: Any, data: MimeData, inline: bool) -> list[nodes.Element] | None:
        if inline or data.mime_type != PLOTLY:
            return None
        # `</` inside a script element would end it.
        spec = json.dumps(data.content).replace("</", "<\\/")
        text = f'<div class="lae-plotly"><script type="application/json">{spec}</script></div>'
        return [nodes.raw(text=text, format="html")]


class NumberedTables(SphinxTransform):
    """A cell whose caption (`mystnb: figure:`) has a name that starts with tab- shows a table: MyST-NB numbers all as figures."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for figure in list(self.document.findall(nodes.figure)):
            if not any(name.startswith("tab-") for name in figure["names"]):
                continue
            caption = next(iter(figure.findall(nodes.caption)))
            figure.remove(caption)
            shown = next((raw.astext() for raw in figure.findall(nodes.raw) if "<table" in raw.astext()), None)
            if shown is None:  # a sentence that says why there is no table
                cell = [nodes.raw("", "<tbody><tr><td>", format="html"), *figure.children]
                classes, note, rows = ["lae-table"], "", [*cell, nodes.raw("", "</td></tr></tbody>", format="html")]
            else:
                classes, note, inside = _taken_apart(shown)
                rows = [nodes.raw("", inside, format="html")]
            title = nodes.title("", "", *caption.children, nodes.Text(note))
            table = nodes.table("", title, *rows, classes=classes, ids=figure["ids"], names=figure["names"])
            table.source, table.line = figure.source, figure.line
            self.document.ids |= dict.fromkeys(table["ids"], table)
            figure.replace_self(table)


def _taken_apart(text: str) -> tuple[list[str], str, str]:
    """The classes of an HTML table, the caption that it brought along as plain text, and what remains inside."""
    page = BeautifulSoup(text, "html.parser")
    table = page.table
    assert table is not None and page.find_all(True, recursive=False) == [table], f"not one HTML table: {text[:80]!r}"
    note = f" {table.caption.extract().get_text()}" if table.caption else ""
    return list(table.get_attribute_list("class")) if table.get("class") else [], note, table.decode_contents()


def _scripts(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Load plotly.js only on pages that draw with it."""
    if 'class="lae-plotly"' in context.get("body", ""):
        app.add_js_file("plotly.min.js")
        app.add_js_file("lae-plotly.js")


def _footer(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """What was run to make this page, at its end."""
    if doctree is None:
        return
    source = Path(app.srcdir) / f"{pagename}.ipynb"
    record = json.loads(source.read_text(encoding="utf-8"))["metadata"]["lae"] if source.is_file() else None
    context["body"] += provenance_html(record, app.config.lae_profile, app.config.lae_commit)


def provenance_html(record: dict[str, Any] | None, profile: str, commit: str) -> str:
    """The footer of a page: of an executed notebook from its `record`, of any other page from the build."""
    if record is None:
        versions = {name: metadata.version(name) for name in ("jupyter-book", "sphinx")}
        rows = [("executed", "no notebook of its own"), ("profile", f"{profile} (the book's)"), ("commit", commit)]
        command = f"lae book --profile {profile}"
    else:
        versions = record["versions"]
        when = record["started"].replace("T", " ").replace("+00:00", " UTC")
        rows = [("executed", f"{when}, in {record['seconds']:.1f} s"), ("profile", record["profile"])]
        rows += [("commit", record["commit"]), ("device", record["device"])]
        command = f"lae run {record['notebook']} --profile {record['profile']}"
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in versions.items())))
    return fill("provenance.html", rows=rows, command=command)


def _source_button(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """A link to the page's text in the repository, where the build knows of one and the file is in the checkout."""
    repository, path = app.config.lae_repository, Path(f"{pagename}.md")
    if repository and doctree is not None and (Path(app.config.lae_root) / path).is_file():
        revision = app.config.lae_commit.removesuffix("+")
        url = f"{repository}/blob/{revision}/{path.as_posix()}"
        button = {"type": "link", "url": url, "tooltip": "Source of this page", "icon": "fas fa-code", "text": ""}
        context["header_buttons"].append(button | {"label": "source-file-button"})


def _code_in_docstrings(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Our docstrings mark code as Markdown does, by single backticks and by indenting; Sphinx reads both otherwise."""
    lines[:] = [re.sub(r"(?<![`:\w])`([^`]+)`(?![`_])", r"``\1``", line) for line in lines]
    if what == "module":  # where Napoleon gives no meaning to a line that ends in a colon
        for at, (line, gap, block) in enumerate(zip(lines, lines[1:], lines[2:], strict=False)):
            if re.search(r"[^:]:$", line) and not gap and block.startswith("    "):
                lines[at] += ":"


def _settings(app: Sphinx, config: Any) -> None:
    config.lae_commit = provenance.short_commit(Path(config.lae_root))
    config.lae_repository = repository_url()
    config.html_static_path.append(str(Path(plotly.__file__).parent / "package_data" / "plotly.min.js"))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("lae_profile", "", "html")
    app.add_config_value("lae_root", "", "")
    app.add_config_value("lae_commit", "unknown", "")
    app.add_config_value("lae_repository", "", "")
    app.add_transform(NumberedTables)
    app.connect("config-inited", _settings)
    app.connect("autodoc-process-docstring", _code_in_docstrings)
    app.connect("html-page-context", _scripts)
    app.connect("html-page-context", _footer)
    app.connect("html-page-context", _source_button, priority=900)  # after the theme has made its own buttons
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
