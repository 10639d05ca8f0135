"""The notebooks of the book, their parameters, and the values that a profile gives them.

A notebook is a MyST text file `notebooks/<part>/<name>.md`. Exactly one of its code cells is tagged `parameters`; each
line of that cell reads `name: type = value  # help [rule]`. The rule, where there is one, says which values are accepted
(see `ranges.py`). A profile is a directory `ci/profiles/<profile>/` of flat YAML
files, one per notebook, that override some of these values. Everything is checked here, before a kernel starts, because
papermill only warns about a parameter that does not exist.
"""

from __future__ import annotations

import ast
import contextlib
import io
import math
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lae_core.book.ranges import Rule, read_rule, split_list
from lae_core.runs.files import UsageError
from lae_core.training.words import did_you_mean

if TYPE_CHECKING:  # `lae doctor` finds the checkout with this module where torch alone is installed
    from nbformat import NotebookNode

PROFILES = ("smoke", "cpu", "gpu", "paper")
TYPES = ("int", "float", "str", "bool", "list[int]", "list[float]", "list[str]")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class BookError(Exception):
    """Execution or build failed. The command shows the message, without a traceback."""


class NotebookError(UsageError):
    """A notebook, profile, parameter or value is invalid; the message says what is accepted."""


def project_root() -> Path:
    """The checkout to work in: the one around the current directory, else the one that this package came from."""
    here = Path.cwd().resolve()
    for candidate in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (candidate / "_toc.yml").is_file() and (candidate / "notebooks").is_dir():
            return candidate
    raise NotebookError(
        f"no notebooks found: {here} is not inside a checkout of lae (a directory with _toc.yml and notebooks/)"
    )


@dataclass(frozen=True)
class Parameter:
    """One line of the parameters cell."""

    name: str
    type: str
    default: Any
    help: str

    @cached_property
    def rule(self) -> Rule | None:
        """Which values of the type are accepted; None: all."""
        try:
            return read_rule(self.name, self.help)
        except ValueError as error:
            raise NotebookError(f"parameter {self.name!r}: {error}") from None

    def from_text(self, text: str) -> Any:
        """The value that `-p NAME TEXT` means, read by this parameter's declared type."""
        if self.type == "str":
            return self.check(text, "-p")
        try:
            if self.type.startswith("list["):
                item = Parameter("", self.type[5:-1], None, "")
                value: Any = [item.from_text(part) for part in split_list(text)]
            elif self.type == "bool":
                value = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}[text.strip().lower()]
            else:
                value = int(text) if self.type == "int" else float(text)
        except (KeyError, ValueError):
            raise self._refuse(text, "-p") from None
        return self.check(value, "-p")

    def check(self, value: Any, source: str, slow: bool = True) -> Any:
        """`value` as this parameter's type (an int counts as a float), or an error that names `source`.

        Without `slow`, rules that need torch are not applied.
        """
        if self.type.startswith("list["):
            item = Parameter(self.name, self.type[5:-1], value if value == self.default else None, self.help)
            if isinstance(value, list):
                return [item.check(element, source, slow) for element in value]
        elif self.type == "float" and isinstance(value, int | float) and not isinstance(value, bool):
            if math.isfinite(value):
                return self._within(float(value), source, slow)
        elif type(value).__name__ == self.type:
            return self._within(value, source, slow)
        raise self._refuse(value, source)

    def _within(self, value: Any, source: str, slow: bool) -> Any:
        own = value == self.default or (isinstance(self.default, list) and value in self.default)
        skipped = self.rule is None or (self.rule.slow and (own or not slow))
        if self.rule is not None and not skipped and not self.rule.accepts(value):
            raise NotebookError(f"{source}: {self.name} = {value!r} is invalid; expected {self.rule.text}")
        return value

    def _refuse(self, value: Any, source: str) -> NotebookError:
        hints = {
            "float": "a number such as 0.5 (in YAML write 1.0e-3: it reads 1e-3 as text)",
            "int": "a whole number such as 3",
            "bool": "true or false",
            "str": "text",
        }
        hint = hints.get(self.type, f"a list such as {'a,b' if self.type == 'list[str]' else '1,2'}")
        return NotebookError(f"{source}: {self.name} = {value!r} is invalid; it is {self.type}: expected {hint}")

    def line(self, value: Any) -> str:
        """The line of a parameters cell that sets this parameter to `value`."""
        return f"{self.name}: {self.type} = {value!r}" + (f"  # {self.help}" if self.help else "")


@dataclass(frozen=True)
class Notebook:
    """A text notebook of the checkout at `root`; `name` is its path under `notebooks/` without the suffix."""

    root: Path
    name: str

    @property
    def path(self) -> Path:
        return self.root / "notebooks" / f"{self.name}.md"

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def read(self) -> NotebookNode:
        import jupytext

        return jupytext.reads(self.text, fmt="md:myst")

    @cached_property
    def title(self) -> str:
        headings = (line for line in self.text.splitlines() if line.startswith("# "))
        return next(headings, self.name).removeprefix("# ").strip()

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        source = _parameters_cell(self.text) or self._read_parameters_cell()
        return {parameter.name: parameter for parameter in _parse_parameters(source, self._shown)}

    def _read_parameters_cell(self) -> str:
        cells = [cell for cell in self.read().cells if "parameters" in cell.metadata.get("tags", [])]
        if len(cells) != 1 or cells[0].cell_type != "code":
            raise NotebookError(
                f"{self._shown} has {len(cells)} cells tagged `parameters`; it needs exactly one, a code cell"
            )
        return cells[0].source

    @property
    def _shown(self) -> str:
        return self.path.relative_to(self.root).as_posix()

    def profile_values(self, profile: str, slow: bool = True) -> dict[str, Any]:
        """What `profile` overrides in this notebook, checked (see `Parameter.check`); nothing if it has no file there."""
        check_profile(profile, self.root)
        file = self.root / "ci" / "profiles" / profile / f"{self.name}.yml"
        if not file.is_file():
            return {}
        from lae_core.runs.yaml_text import read_yaml

        shown = file.relative_to(self.root).as_posix()
        try:
            values = read_yaml(file.read_text(encoding="utf-8"), shown) or {}
        except ValueError as error:
            raise NotebookError(str(error)) from None
        if not isinstance(values, dict):
            raise NotebookError(f"{shown} must be a flat list of `name: value` lines")
        return {name: self._known(name, shown).check(value, shown, slow) for name, value in values.items()}

    def values(self, profile: str, overrides: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Every parameter's effective value: the default, then the profile's, then the `-p` texts."""
        values = {name: parameter.default for name, parameter in self.parameters.items()}
        values |= self.profile_values(profile)
        return values | {name: self._known(name, "-p").from_text(text) for name, text in (overrides or {}).items()}

    def _known(self, name: str, source: str) -> Parameter:
        if name not in self.parameters:
            accepted = ", ".join(self.parameters) or "none at all"
            hint = did_you_mean(name, self.parameters)
            raise NotebookError(f"{source}: {self._shown} has no parameter {name!r}; it takes {accepted}{hint}")
        return self.parameters[name]


def _parameters_cell(text: str) -> str:
    """The cell that is written as all our notebooks write it; "" for any other form, which jupytext has to read.

    Loading jupytext takes longer than all else that `lae params` does.
    """
    tagged = [line for line in text.splitlines() if re.search(r"\btags\b.*\bparameters\b", line)]
    found = re.findall(r"^```\{code-cell\} ipython3\n:tags: \[parameters\]\n\n(.*?)\n```$", text, re.M | re.S)
    return found[0] if len(tagged) == len(found) == 1 else ""


def _parse_parameters(source: str, shown: str) -> list[Parameter]:
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise NotebookError(f"{shown}, parameters cell, line {error.lineno}: {error.msg}") from None
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    parameters: list[Parameter] = []
    for statement in statements:
        problem = f"{shown}, parameters cell, line {statement.lineno}: write `name: type = value  # help` on one line"
        one_line = statement.lineno == statement.end_lineno
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and one_line):
            raise NotebookError(problem)
        kind = ast.unparse(statement.annotation)
        if kind not in TYPES or statement.value is None:
            raise NotebookError(f"{problem}; the type is one of {', '.join(TYPES)}")
        try:
            default = ast.literal_eval(statement.value)
        except ValueError:
            raise NotebookError(f"{problem}; the value is a literal, anything derived goes in the next cell") from None
        parameter = Parameter(statement.target.id, kind, default, comments.get(statement.lineno, ""))
        parameter.check(default, f"{shown}, default")
        if parameter.name in (earlier.name for earlier in parameters):
            raise NotebookError(f"{shown}, parameters cell: {parameter.name!r} is given twice")
        parameters.append(parameter)
    return parameters


def profiles(root: Path) -> list[str]:
    """The standing profiles and any further directory in `ci/profiles/`."""
    directory = root / "ci" / "profiles"
    extra = sorted(entry.name for entry in directory.iterdir() if entry.is_dir()) if directory.is_dir() else []
    return [*PROFILES, *(name for name in extra if name not in PROFILES)]


def check_profile(profile: str, root: Path) -> None:
    if profile not in profiles(root):
        raise NotebookError(f"profile = {profile!r} is invalid; expected one of {', '.join(profiles(root))}")


def all_notebooks(root: Path) -> list[Notebook]:
    base = root / "notebooks"
    paths = (path.relative_to(base).with_suffix("") for path in base.rglob("*.md"))
    return [Notebook(root, path.as_posix()) for path in sorted(paths) if ".ipynb_checkpoints" not in path.parts]


def find_notebook(text: str, root: Path) -> Notebook:
    """The notebook that `text` names: a path from here or from the checkout, `part/name`, or a unique `name`."""
    notebooks = all_notebooks(root)
    with contextlib.suppress(ValueError, OSError):  # no name at all, or one that no file could have
        for candidate in (Path(text), root / text, root / "notebooks" / text):
            for notebook in notebooks:
                if candidate.with_suffix(".md").resolve() == notebook.path.resolve():
                    return notebook
    stem = text.removesuffix(".md")
    matches = [notebook for notebook in notebooks if notebook.name.split("/")[-1] == stem]
    if len(matches) == 1:
        return matches[0]
    known = "\n  ".join(notebook.name for notebook in (matches or notebooks))
    hint = did_you_mean(stem, [name for nb in notebooks for name in (nb.name, nb.name.split("/")[-1])])
    if hint and not matches:
        raise NotebookError(f"unknown notebook {text!r}{hint}")
    raise NotebookError(f"{'ambiguous' if matches else 'unknown'} notebook {text!r}; there are:\n  {known}")
