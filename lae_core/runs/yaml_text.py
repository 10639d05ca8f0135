"""YAML that says one thing: a key given twice is an error, where PyYAML keeps the last one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key, line = key_node.value, key_node.start_mark.line + 1
            if isinstance(key, str):
                if key in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key!r} is given twice, in lines {seen[key]} and {line}")
                seen[key] = line
        return super().construct_mapping(node, deep)


def read_yaml(text: str, source: str) -> Any:
    """The value that `text` holds; a ValueError in one line, which names `source`, if it is not YAML."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2026-99-99
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        what = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise ValueError(f"{source}{where}: not valid YAML: {what}") from None
