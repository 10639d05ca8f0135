"""The run store: one directory per run, named by its config's key, holding its record and what is needed to resume it::

    store/store.json           says that this is a run store
    store/<key>/record.json    the finished run: config, result, provenance, checksum
    store/<key>/lock.<n>       who is running it (see locks.py)
    store/<key>/failure.json   why it last failed
    store/<key>/checkpoint/    what is kept to resume; gone once the record is there

The store uses of a config only `key()`, `to_dict()` and `from_dict()`. A record keeps its config as plain values, so
it can be read when the schema has moved on.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lae_core.runs.files import StoreError, store_error, write_json

FORMAT = 1
KEY = re.compile(r"[0-9a-f]{8,64}")


class Config(Protocol):
    """What the store and the sweep ask of a config."""

    def key(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...
    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config: ...


class StoreWarning(UserWarning):
    """A file in the store is damaged or not ours; it was passed over."""


@dataclass(frozen=True)
class Record:
    """One finished run, as plain values."""

    key: str
    config: dict[str, Any]
    result: dict[str, Any]
    provenance: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        body = {"format": FORMAT, "key": self.key, "config": self.config, "result": self.result}
        body["provenance"] = self.provenance
        return body | {"sha256": _digest(body)}

    @classmethod
    def from_json(cls, value: Any, key: str) -> Record:
        """Checked: a value that was cut short, edited, or belongs elsewhere raises ValueError."""
        if not isinstance(value, dict) or "format" not in value:
            raise ValueError("not a record")
        if value["format"] != FORMAT:
            raise ValueError(f"format = {value['format']!r} is invalid; expected {FORMAT}")
        body = {name: part for name, part in value.items() if name != "sha256"}
        if value.get("sha256") != _digest(body):
            raise ValueError("checksum does not match its content")
        if value.get("key") != key:
            raise ValueError(f"it is the record of {value.get('key')!r}")
        return cls(key, value["config"], value["result"], value["provenance"])

    def checked(self, schema: type[Config]) -> Record:
        """This record; ValueError if its config is invalid, or gives another key."""
        if (key := schema.from_dict(self.config).key()) != self.key:
            raise ValueError(f"key = {self.key!r} is invalid; its config gives {key!r}")
        return self


def _digest(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class RunStore:
    """A directory of records, safe with many writers on many machines that share it.

    `RunStore(path)` opens it, and creates it if there is nothing there; without a path it is `$LAE_RUNS`, else `runs`.
    Damaged and foreign files are named in a `StoreWarning`, once each, and listed in `problems`; a run with a damaged
    record counts as not yet run.
    """

    def __init__(self, root: str | Path | None = None) -> None:
        self.root = Path(root or os.environ.get("LAE_RUNS", "runs")).absolute()
        self.problems: dict[Path, str] = {}
        mark = self.root / "store.json"
        if not mark.exists():
            self._create(mark)
        try:
            version = json.loads(mark.read_text())["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{mark} does not say that this is a run store ({error})") from error
        if version != FORMAT:
            raise StoreError(f"{self.root} is a store of format {version}; this version reads {FORMAT}")

    def _create(self, mark: Path) -> None:
        try:
            if self.root.exists() and any(self.root.iterdir()) and not mark.exists():
                raise StoreError(f"{self.root} is neither empty nor a run store; expected another directory")
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise store_error("create a run store in", self.root, error) from error
        write_json(mark, {"format": FORMAT, "what": "a run store: one directory per run"}, exclusive=True)

    def check_writable(self) -> None:
        """Raise `StoreError` now rather than after the first run."""
        probe = self.root / ".probe"
        write_json(probe, {})
        probe.unlink(missing_ok=True)

    def directory(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise ValueError(f"key = {key!r} is invalid; expected 8 to 64 hexadecimal digits")
        return self.root / key

    def checkpoint_dir(self, key: str) -> Path:
        return self.directory(key) / "checkpoint"

    def progress(self, key: str) -> tuple[tuple[str, int], ...]:
        """What changes whenever a run gets further: the files that it keeps to resume, and when they were written."""
        try:
            # a name with a dot is a file that a killed process began
            files = [path for path in self.checkpoint_dir(key).iterdir() if not path.name.startswith(".")]
            return tuple(sorted((path.name, path.stat().st_mtime_ns) for path in files))
        except FileNotFoundError:
            return ()

    def get(self, run: Config | str) -> Record | None:
        """The record of a config or key, or None if there is none, or a damaged one (which is reported)."""
        key = run if isinstance(run, str) else run.key()
        path = self.directory(key) / "record.json"
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            self._report(path, str(error))
            return None
        try:
            record = Record.from_json(json.loads(text), key)
            return record if isinstance(run, str) else record.checked(type(run))
        except (ValueError, KeyError) as error:
            self._report(path, str(error))
            return None

    def _report(self, path: Path, problem: str) -> None:
        if path not in self.problems:
            self.problems[path] = problem
            warnings.warn(f"passed over {path}: {problem}", StoreWarning, stacklevel=3)

    def __contains__(self, run: Config | str) -> bool:
        return self.get(run) is not None

    def keys(self) -> Iterator[str]:
        """All runs that have a directory here, finished or not."""
        for entry in sorted(self.root.iterdir()):
            if KEY.fullmatch(entry.name) and entry.is_dir():
                yield entry.name
            elif entry.name != "store.json" and not entry.name.startswith("."):
                self._report(entry, "not a run of this store")

    def __iter__(self) -> Iterator[Record]:
        return (record for record in map(self.get, self.keys()) if record is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def select(self, configs: Iterable[Config]) -> list[Record]:
        """The records of these configs, in their order; raises `KeyError` that counts what is missing."""
        wanted = list(configs)
        found = [self.get(config) for config in wanted]
        missing = [config for config, record in zip(wanted, found, strict=True) if record is None]
        if missing:
            raise KeyError(f"{len(missing)} of {len(wanted)} runs are not in {self.root}; the first: {missing[0]}")
        return [record for record in found if record is not None]

    def put(self, config: Config, result: dict[str, Any], provenance: dict[str, Any] | None = None) -> Record:
        """Record a finished run. Writing one again replaces it; a damaged one is kept beside it."""
        return self.put_record(Record(config.key(), config.to_dict(), result, provenance or {}))

    def put_record(self, record: Record) -> Record:
        directory = self.directory(record.key)
        path = directory / "record.json"
        try:
            body = record.to_json()
        except TypeError as error:
            raise TypeError(
                f"result of {record.key}: {error}; expected plain numbers, strings, lists and dicts"
            ) from None
        try:
            directory.mkdir(exist_ok=True)
            if path.exists() and self.get(record.key) is None:
                path.replace(directory / "record.damaged")
        except OSError as error:
            raise store_error("write", path, error) from error
        write_json(path, body)
        self.problems.pop(path, None)
        (directory / "failure.json").unlink(missing_ok=True)
        shutil.rmtree(directory / "checkpoint", ignore_errors=True)
        return record

    def failure(self, key: str) -> dict[str, Any] | None:
        """What `put_failure` kept, if the run's last attempt failed."""
        try:
            return json.loads((self.directory(key) / "failure.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def put_failure(self, config: Config, error: str, traceback: str) -> None:
        """Keep why a run failed; the next sweep tries it again."""
        self.directory(config.key()).mkdir(exist_ok=True)
        body = {"key": config.key(), "config": config.to_dict(), "error": error, "traceback": traceback}
        write_json(self.directory(config.key()) / "failure.json", body)
