"""What our pages need beyond Jupyter Book: interactive figures that work from disk, and the provenance footer."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import plotly
from docutils import nodes
from myst_nb.core.render import MimeData, MimeRenderPlugin
from sphinx.application import Sphinx

from lae_core.book import provenance

PLOTLY = "application/vnd.plotly.v1+json"


class PlotlyRenderer(MimeRenderPlugin):
    """Draws plotly's own MIME output with the copy of plotly.js that the book ships (entry point of myst_nb)."""

    mime_priority_overrides = [("html", PLOTLY, 1)]

    @staticmethod
    def handle_mime(renderer: Any, data: MimeData, inline: bool) -> None | list[nodes.Element]:
        if inline or data.mime_type != PLOTLY:
            return None
        # `</` inside a script element would end it.
        spec = json.dumps(data.content).replace("</", "<\\/")
        text = f'<div class="lae-plotly"><script type="application/json">{spec}</script></div>'
        return [nodes.raw(text=text, format="html")]


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
    """The footer of a page: of an executed notebook from its `record`, of a prose page from the build."""
    if record is None:
        rows = [("page", "text, nothing executed"), ("book", f"profile {profile}, commit {commit}")]
    else:
        versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
        rows = [
            ("profile", record["profile"]),
            ("commit", record["commit"]),
            ("executed", f"{record['started'].replace('T', ' ')}, {record['seconds']:.1f} s"),
            ("device", record["device"]),
            ("versions", versions),
            ("rerun", f"lae run {record['notebook']} --profile {record['profile']}"),
        ]
    cells = "".join(
        f"<dt>{name}</dt><dd>{f'<code>{html.escape(text)}</code>' if name == 'rerun' else html.escape(text)}</dd>"
        for name, text in rows
    )
    return f'<aside class="lae-provenance" aria-label="How this page was made"><dl>{cells}</dl></aside>'


def _commit(app: Sphinx, config: Any) -> None:
    config.lae_commit = provenance.commit(Path(config.lae_root))
    config.html_static_path.append(str(Path(plotly.__file__).parent / "package_data" / "plotly.min.js"))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("lae_profile", "", "html")
    app.add_config_value("lae_root", "", "")
    app.add_config_value("lae_commit", "unknown", "")
    app.connect("config-inited", _commit)
    app.connect("html-page-context", _scripts)
    app.connect("html-page-context", _footer)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
