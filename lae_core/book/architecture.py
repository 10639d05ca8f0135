"""The architecture as the source has it: which subpackage imports from which, drawn.

`write` is one of the build's generators. It makes `book/_generated/architecture.md` (the figure and a table of the
subpackages) and the drawing beside it. Their order is that of the contract in `pyproject.toml`, which `lint-imports`
checks; the imports are those that it sees.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import grimp

from lae_core.book.stage import Stage
from lae_core.book.template import fill

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
    names, pairs = layers(stage.root), imports_between()
    stage.write("_generated/architecture.svg", drawing(names, pairs))
    stage.write("_generated/architecture.md", page(names, pairs, stage.root / "lae_core"))


def page(names: Sequence[str], pairs: Pairs, package: Path) -> str:
    """The figure with its alt text, and what each subpackage holds."""
    rows = []
    for name in names:
        # a subpackage's `__init__` sorts before its other modules
        files = sorted((package / name).rglob("*.py")) or [package / f"{name}.py"]
        said = (ast.get_docstring(ast.parse(files[0].read_text(encoding="utf-8"))) or "").partition("\n")[0]
        rows.append((name, said, len(files)))
    return fill("architecture.md", alt=spoken(names, pairs), rows=rows)


def spoken(names: Sequence[str], pairs: Pairs) -> str:
    """The figure in words."""
    uses = {name: [target for target in names if pairs.get((name, target))] for name in names}
    parts = [f"{name} imports from {', '.join(targets)}" for name, targets in uses.items() if targets]
    free = [name for name, targets in uses.items() if not targets]
    return f"{len(names)} boxes, one below the other. " + "; ".join([f"{', '.join(free)} imports from none", *parts])


def drawing(names: Sequence[str], pairs: Pairs) -> str:
    """Boxes from top to bottom; each one that is imported from has a lane, which its importers' lines meet in dots.

    The template places them; the numbers are units that are pixels on a phone.
    """
    lanes = [name for name in names if any(target == name for _, target in pairs)]
    # The last lane is the nearest: no arrow has to cross a box or a longer lane's turn.
    x = {name: 124 + 34 * index for index, name in enumerate(reversed(lanes))}
    y = {name: 21 + 46 * index for index, name in enumerate(names)}
    reach = {name: max((x[target] for importer, target in pairs if importer == name), default=0) for name in names}
    end = {name: max(y[importer] for importer, target in pairs if target == name) for name in lanes}
    return fill(
        "architecture.svg", x=x, y=y, reach=reach, end=end, dots=sorted(pairs.items()),
        alt=spoken(names, pairs), width=max(x.values()) + 20, height=max(y.values()) + 21,
    )  # fmt: skip
