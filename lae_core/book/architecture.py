"""The architecture as the source has it: which subpackage imports from which, drawn.

`write` is one of the build's generators. It makes `book/_generated/architecture.md` (the figure and a table of the
subpackages) and the drawing beside it. Their order is that of the contract in `pyproject.toml`, which `lint-imports`
checks; the imports are those that it sees.
"""

from __future__ import annotations

import ast
import html
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import grimp

from lae_core.book.stage import Stage

Pairs = Mapping[tuple[str, str], int]


def layers(root: Path) -> tuple[str, ...]:
    """The subpackages and the command, in the order in which data passes through them."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    (order,) = (c["layers"] for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return tuple(reversed(order))


def imports_between(package: str = "lae_core") -> Counter[tuple[str, str]]:
    """For each pair (subpackage that imports, subpackage imported from), how many imports from module to module."""
    graph = grimp.build_graph(package, cache_dir=None)
    pairs = (
        (_subpackage(importer), _subpackage(target))
        for importer in graph.modules
        for target in graph.find_modules_directly_imported_by(importer)
    )
    return Counter(pair for pair in pairs if pair[0] != pair[1])


def _subpackage(module: str) -> str:
    """The package's own `__init__` gives what pooling has."""
    return module.split(".")[1] if "." in module else "pooling"


def write(stage: Stage) -> None:
    """Write the figure and the table into the staged tree."""
    generated = stage.source / "book" / "_generated"
    generated.mkdir(parents=True, exist_ok=True)
    names, pairs = layers(stage.root), imports_between()
    (generated / "architecture.svg").write_text(drawing(names, pairs), encoding="utf-8")
    (generated / "architecture.md").write_text(page(names, pairs, stage.root / "lae_core"), encoding="utf-8")


def page(names: Sequence[str], pairs: Pairs, package: Path) -> str:
    """The figure with its alt text, and what each subpackage holds."""
    lines = ["```{figure} _generated/architecture.svg", ":name: fig-architecture", f":alt: {spoken(names, pairs)}", ""]
    lines += [
        "The subpackages of `lae_core`. Each imports only from those above it: along its line to a dot, then up to"
    ]
    lines += [
        "the arrow. The number in a dot counts imports, from one module to another. Drawn from the source.",
        "```",
        "",
    ]
    lines += ["```{list-table} The subpackages", ":name: tab-subpackages", ":header-rows: 1", ":widths: 20 62 18", ""]
    lines += ["* - subpackage", "  - holds", "  - modules"]
    for name in names:
        # a subpackage's `__init__` sorts before its other modules
        files = sorted((package / name).rglob("*.py")) or [package / f"{name}.py"]
        said = (ast.get_docstring(ast.parse(files[0].read_text(encoding="utf-8"))) or "").splitlines()
        lines += [f"* - `{name}`", f"  - {said[0] if said else ''}", f"  - {len(files)}"]
    return "\n".join([*lines, "```", ""])


def spoken(names: Sequence[str], pairs: Pairs) -> str:
    """The figure in words."""
    uses = {name: [target for target in names if pairs.get((name, target))] for name in names}
    parts = [f"{name} imports from {', '.join(targets)}" for name, targets in uses.items() if targets]
    free = [name for name, targets in uses.items() if not targets]
    return f"{len(names)} boxes, one below the other. " + "; ".join([f"{', '.join(free)} imports from none", *parts])


# The drawing, in units that are pixels on a phone.
_ROW, _BOX, _HIGH, _LANE, _EDGE = 46, 96, 30, 34, 6


def drawing(names: Sequence[str], pairs: Pairs) -> str:
    """Boxes from top to bottom; each one that is imported from has a lane, which its importers' lines meet in dots."""
    lanes = [name for name in names if any(target == name for _, target in pairs)]
    # The last lane is the nearest: no arrow has to cross a box or a longer lane's turn.
    x = {name: _EDGE + _BOX + 22 + _LANE * index for index, name in enumerate(reversed(lanes))}
    middle = {name: _EDGE + _HIGH / 2 + _ROW * index for index, name in enumerate(names)}
    wide, high = max(x.values()) + 20, _EDGE * 2 + _ROW * (len(names) - 1) + _HIGH
    right = _EDGE + _BOX
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high:g}" width="{wide}" height="{high:g}" '
        f'font-family="system-ui, sans-serif" role="img"><title>{html.escape(spoken(names, pairs))}</title>',
        f'<rect width="{wide}" height="{high:g}" fill="#ffffff"/>',
    ]
    for name in names:
        reach = [x[target] for importer, target in pairs if importer == name]
        if reach:
            y = middle[name] + 7
            parts.append(f'<path d="M{right} {y:g}H{max(reach)}" stroke="#8a8f98" fill="none"/>')
    for target in lanes:
        end = max(middle[importer] for importer, imported in pairs if imported == target) + 7
        y = middle[target] - 7
        parts.append(
            f'<path d="M{x[target]} {end:g}V{y:g}H{right + 7}" stroke="#0b5a92" stroke-width="2" fill="none"/>'
        )
        parts.append(f'<path d="M{right + 1} {y:g}l8 -4.5v9z" fill="#0b5a92"/>')
    for (importer, target), number in sorted(pairs.items()):
        spot = f'cx="{x[target]}" cy="{middle[importer] + 7:g}"'
        parts.append(f'<circle {spot} r="8.5" fill="#0b5a92"/>')
        parts.append(
            f'<text x="{x[target]}" y="{middle[importer] + 10.8:g}" text-anchor="middle" font-size="10.5" '
            f'fill="#ffffff">{number}</text>'
        )
    for name in names:
        top = middle[name] - _HIGH / 2
        parts.append(
            f'<rect x="{_EDGE}" y="{top:g}" width="{_BOX}" height="{_HIGH}" rx="5" fill="#eaf2f8" stroke="#0b5a92"/>'
            f'<text x="{_EDGE + _BOX / 2:g}" y="{middle[name] + 5:g}" text-anchor="middle" font-size="14.5" '
            f'font-weight="600" fill="#15202b">{name}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])
