"""Which modules of the package a source imports, read from its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def imports(source: str, package: str = "") -> Iterator[str]:
    """Every dotted name under lae_core that an import statement anywhere in `source` brings in.

    Imports inside functions count, and so do those for type checkers alone. `package` is where relative imports start.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "lae_core")
