"""The architecture as the source has it: which room imports from which, drawn, and what would break its order.

`write` is one of the build's generators. It makes `book/_generated/architecture.md` (the figure and a table of the
rooms) and the drawing beside it.
"""

from __future__ import annotations

import ast
import html
from collections import Counter
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from lae_core.book.imports import imports
from lae_core.book.stage import Stage

# In the order in which data passes through them: each imports only from itself and from those before it.
ROOMS = ("pooling", "models", "training", "runs", "evidence", "book", "bench", "cli")

Graph = dict[str, set[str]]


def module_graph(package: Path) -> Graph:
    """The modules of the package, by dotted name, and those that each of them names in its imports."""
    files = {_dotted(path, package): path for path in sorted(package.rglob("*.py"))}
    graph: Graph = {}
    for name, path in files.items():
        inside = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found = (_module(target, files) for target in imports(path.read_text(encoding="utf-8"), inside))
        graph[name] = {target for target in found if target != name}
    return graph


def _dotted(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _module(name: str, files: Mapping[str, Path]) -> str:
    """The module that holds `name`: itself, or the nearest above it."""
    while name not in files:
        name = name.rpartition(".")[0]
    return name


def room(module: str) -> str:
    """The room of a module. The package's own `__init__` is the front door of pooling."""
    return module.split(".")[1] if "." in module else "pooling"


def between_rooms(graph: Graph) -> Counter[tuple[str, str]]:
    """For each pair (room that imports, room imported from), how many modules of the one import one of the other."""
    pairs = ((room(importer), room(target)) for importer, targets in graph.items() for target in targets)
    return Counter(pair for pair in pairs if pair[0] != pair[1])


def against_the_order(graph: Graph) -> list[str]:
    """Imports of a room that comes later, or of one that is not in `ROOMS`, in words."""
    wrong = []
    for importer, targets in graph.items():
        for target in sorted(targets):
            known = room(importer) in ROOMS and room(target) in ROOMS
            if not known or ROOMS.index(room(importer)) < ROOMS.index(room(target)):
                wrong.append(f"{importer} imports {target}")
    return wrong


def cycle(graph: Graph) -> list[str]:
    """Modules that import each other in a ring, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def write(stage: Stage) -> None:
    """Write the figure and the table into the staged tree."""
    package = stage.root / "lae_core"
    generated = stage.source / "book" / "_generated"
    generated.mkdir(parents=True, exist_ok=True)
    graph = module_graph(package)
    (generated / "architecture.svg").write_text(drawing(between_rooms(graph)), encoding="utf-8")
    (generated / "architecture.md").write_text(page(graph, package), encoding="utf-8")


def page(graph: Graph, package: Path) -> str:
    """The figure with its alt text, and what each room holds."""
    pairs = between_rooms(graph)
    lines = ["```{figure} _generated/architecture.svg", ":name: fig-architecture", f":alt: {spoken(pairs)}", ""]
    lines += ["The rooms of `lae_core`. Each imports only from rooms above it: along its line to a dot, then up to the"]
    lines += [
        "arrow. The number in a dot counts imports, from one module to another. Drawn from the source.",
        "```",
        "",
    ]
    lines += ["```{list-table} The rooms", ":name: tab-rooms", ":header-rows: 1", ":widths: 20 62 18", ""]
    lines += ["* - room", "  - holds", "  - modules"]
    for name in ROOMS:
        # a room's `__init__` sorts before its other modules
        files = sorted((package / name).rglob("*.py")) or [package / f"{name}.py"]
        said = (ast.get_docstring(ast.parse(files[0].read_text(encoding="utf-8"))) or "").splitlines()
        lines += [f"* - `{name}`", f"  - {said[0] if said else ''}", f"  - {len(files)}"]
    return "\n".join([*lines, "```", ""])


def spoken(pairs: Mapping[tuple[str, str], int]) -> str:
    """The figure in words."""
    uses = {name: [target for target in ROOMS if pairs.get((name, target))] for name in ROOMS}
    parts = [f"{name} imports from {', '.join(targets)}" for name, targets in uses.items() if targets]
    free = [name for name, targets in uses.items() if not targets]
    return f"{len(ROOMS)} boxes, one below the other. " + "; ".join([f"{', '.join(free)} imports from none", *parts])


# The drawing, in units that are pixels on a phone.
_ROW, _BOX, _HIGH, _LANE, _EDGE = 46, 96, 30, 34, 6


def drawing(pairs: Mapping[tuple[str, str], int]) -> str:
    """Boxes from top to bottom; each room that is imported from has a lane, which its importers' lines meet in dots."""
    lanes = [name for name in ROOMS if any(target == name for _, target in pairs)]
    # The last lane is the nearest: no arrow has to cross a box or a longer lane's turn.
    x = {name: _EDGE + _BOX + 22 + _LANE * index for index, name in enumerate(reversed(lanes))}
    middle = {name: _EDGE + _HIGH / 2 + _ROW * index for index, name in enumerate(ROOMS)}
    wide, high = max(x.values()) + 20, _EDGE * 2 + _ROW * (len(ROOMS) - 1) + _HIGH
    right = _EDGE + _BOX
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high:g}" width="{wide}" height="{high:g}" '
        f'font-family="system-ui, sans-serif" role="img"><title>{html.escape(spoken(pairs))}</title>',
        f'<rect width="{wide}" height="{high:g}" fill="#ffffff"/>',
    ]
    for name in ROOMS:
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
    for name in ROOMS:
        top = middle[name] - _HIGH / 2
        parts.append(
            f'<rect x="{_EDGE}" y="{top:g}" width="{_BOX}" height="{_HIGH}" rx="5" fill="#eaf2f8" stroke="#0b5a92"/>'
            f'<text x="{_EDGE + _BOX / 2:g}" y="{middle[name] + 5:g}" text-anchor="middle" font-size="14.5" '
            f'font-weight="600" fill="#15202b">{name}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])
