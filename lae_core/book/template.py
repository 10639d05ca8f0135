"""Text from the templates in `templates/`: they hold the words of generated pages, Python computes the values."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from lae_core.evidence.text import true_minus


def one_line(text: str) -> str:
    """A cell of a `list-table` is one line."""
    return " ".join(text.split())


_TEMPLATES = Environment(
    loader=PackageLoader("lae_core.book"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    # In MyST {#name} is a label; by default it would begin a comment.
    comment_start_string="{##",
    comment_end_string="##}",
    autoescape=lambda name: name is not None and name.endswith((".html.jinja", ".svg.jinja")),
)
_TEMPLATES.filters |= {"one_line": one_line, "true_minus": true_minus}


def fill(name: str, **values: Any) -> str:
    """The template `name`, for example `claims.md`, with these values; one that is missing is an error."""
    return _TEMPLATES.get_template(f"{name}.jinja").render(values)
