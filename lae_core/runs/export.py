"""Records as data frames, and as one small text file per experiment that can be committed and compared line by line.

The file's first line says what all runs share and holds a checksum of every byte of the file; each further line is one
run: what differs in its config and origin, its result with floats to six digits, and a checksum of its own, which names
the line if one was changed. Lines are sorted by config, so that adding runs adds lines. A record's key is computed anew
from its config when it is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import numbers
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lae_core.runs.files import store_error
from lae_core.runs.records import Config, Record
from lae_core.training.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 2
DIGITS = 6


def to_frame(records: Iterable[Record]) -> pd.DataFrame:
    """One row per record, with columns `key`, `config.lr`, `result.final.valid_error`, `provenance.versions.torch`, …."""
    import pandas as pd

    return pd.json_normalize([vars(record) for record in records], max_level=2)


def export(records: Iterable[Record], path: str | Path, *, experiment: str) -> int:
    """Write the records of an experiment to one file; returns how many. The same records give the same bytes."""
    unique = {record.key: record for record in records}
    ordered = sorted(unique.values(), key=lambda record: (_line(record.config), record.key))
    origins = [rounded(record.provenance) for record in ordered]
    shared = {"config": _shared([record.config for record in ordered]), "provenance": _shared(origins)}
    head = {"experiment": experiment, "format": FORMAT, "runs": len(ordered), "shared": shared}
    lines = []
    for record, origin in zip(ordered, origins, strict=True):
        body = {
            "key": record.key,
            "config": _rest(record.config, shared["config"]),
            "result": rounded(record.result),
            "provenance": _rest(origin, shared["provenance"]),
        }
        lines.append(_line(body | {"check": _check(body)}))
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, _with_head(head, "".join(line + "\n" for line in lines)))
    except OSError as error:
        raise store_error("write", target, error) from error
    return len(ordered)


def read_export(path: str | Path, *, schema: type[Any] | None = None) -> list[Record]:
    """The records of an exported file. Whatever was edited in it, be it one byte, is an error that names the place.

    `schema` is the class of the configs, `RunConfig` by default.
    """
    if schema is None:
        from lae_core.training.config import RunConfig

        schema = RunConfig
    content = Path(path).read_bytes()
    first, _, rest = content.decode("utf-8", errors="replace").partition("\n")
    try:
        head = json.loads(first)
        shared, count, version = head["shared"], head["runs"], head["format"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: the first line is not the head of an exported experiment") from None
    if version != FORMAT:
        raise ValueError(f"{path}: format {version!r} is invalid; expected {FORMAT}")
    head.pop("check", None)
    lines = rest.removesuffix("\n").split("\n") if rest else []
    records = [_record(line, shared, schema, f"{path}, line {k}") for k, line in enumerate(lines, start=2)]
    if len(records) != count:
        raise ValueError(f"{path}: {len(records)} records where the first line says {count}")
    if content != _with_head(head, rest):
        raise ValueError(f"{path}: the checksum in its first line does not match, the file was edited by hand")
    return records


def _record(line: str, shared: dict[str, Any], schema: type[Any], where: str) -> Record:
    try:
        body = json.loads(line)
        check = body.pop("check")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{where}: not a record") from None
    if check != _check(body):
        raise ValueError(f"{where}: checksum does not match, the line was edited by hand")
    try:
        parts = {part: shared[part] | body[part] for part in ("config", "provenance")}
        record = Record(body["key"], result=body["result"], **parts)
        return record.checked(schema)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


def _with_head(head: dict[str, Any], rest: str) -> bytes:
    """The whole file: its head with a checksum over the head and all that follows."""
    digest = hashlib.sha256(f"{_line(head)}\n{rest}".encode()).hexdigest()
    return f"{_line(head | {'check': digest})}\n{rest}".encode()


def recorded(configs: Iterable[Config], path: str | Path, *, sweep: str, partial: bool = False) -> list[Record]:
    """The records of these configs, in their order, from an exported file; nothing is trained.

    What is missing raises `LookupError`, which names `sweep`, the command that would fill it; with `partial` it is
    left out.
    """
    wanted = list(configs)
    kept = read_export(path, schema=type(wanted[0]) if wanted else None) if Path(path).exists() else []
    found = {record.key: record for record in kept}
    missing = [config for config in wanted if config.key() not in found]
    if missing and not partial:
        raise LookupError(
            f"{path}: {len(missing)} of {len(wanted)} runs are not recorded, the first {missing[0].key()}. Run: {sweep}"
        )
    return [found[config.key()] for config in wanted if config.key() in found]


def rounded(value: Any) -> Any:
    """The same value with every float to six significant digits."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    if isinstance(value, numbers.Real) and not isinstance(value, int) and math.isfinite(value):
        return float(f"{float(value):.{DIGITS}g}")
    return value


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _check(body: Any) -> str:
    return hashlib.sha256(_line(body).encode()).hexdigest()[:12]


def _shared(parts: list[dict[str, Any]]) -> dict[str, Any]:
    first = parts[0] if parts else {}
    return {name: value for name, value in first.items() if all(name in p and p[name] == value for p in parts)}


def _rest(part: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in shared}
