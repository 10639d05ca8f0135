"""Every snippet on the pages of *Use it* is executed, and so are those of `book/training.md`; README has tests of its own.

A page's ```python blocks run in order in one namespace, in an empty working directory. An expression that ends in a comment
`# → value` must give that value: the shape of a tensor, else what `str` makes of it. A block that cannot run here would
carry one of the marks in `NOT_RUN` on the line above it, for every reader of the source to see.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from pathlib import Path

import pytest
import torch

from lae_core.cli import parser

REPO = Path(__file__).resolve().parents[2]
USE = sorted((REPO / "book" / "use").glob("*.md"))
PAGES = [*USE, REPO / "book" / "training.md"]
# Languages of blocks that the tests know what to do with, beside MyST's own directives.
LANGUAGES = {"python", "sh"}
# A mark such as `% not run: needs a GPU`, and why it is allowed. There is none: all blocks run on any machine.
NOT_RUN: dict[str, str] = {}

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>\S*)[^\n]*\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The line on which each block of that language starts, and its text."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        line = text[: match.start()].count("\n") + 1
        above = text.splitlines()[line - 2] if line > 1 else ""
        if match["language"] == language and above not in NOT_RUN:
            found.append((line + 1, match["text"]))
    return found


def run(code: str, file: Path, line: int, names: dict) -> None:
    """Execute a block, statement by statement, and hold its `# →` comments against what the expressions give."""
    code = "\n" * (line - 1) + code  # so that a traceback shows the page's own line
    promised = {
        token.start[0]: token.string.removeprefix("# →").strip()
        for token in tokenize.generate_tokens(io.StringIO(code).readline)
        if token.type == tokenize.COMMENT and token.string.startswith("# →")
    }
    for statement in ast.parse(code).body:
        expected = promised.pop(statement.end_lineno, None)
        if expected is None:
            exec(compile(ast.Module([statement], []), str(file), "exec"), names)
            continue
        assert isinstance(statement, ast.Expr), f"{file.name}:{statement.lineno}: only an expression gives a value"
        value = eval(compile(ast.Expression(statement.value), str(file), "eval"), names)
        shown = str(tuple(value.shape)) if isinstance(value, torch.Tensor) and value.dim() else str(value)
        assert shown == expected, f"{file.name}:{statement.lineno} gives {shown}, the page says {expected}"
    assert not promised, f"{file.name}: comments with → that follow no expression: {promised}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_run_and_give_what_they_say(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAE_DATA", raising=False)
    torch.manual_seed(0)
    names: dict = {"__name__": page.stem}
    for line, code in blocks(page, "python"):
        run(code, page, line, names)


def test_a_wrong_promise_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx = 1\nx + 1  # → 3\n```\n")
    ((line, code),) = blocks(page, "python")
    with pytest.raises(AssertionError, match=r"page.md:5 gives 2, the page says 3"):
        run(code, page, line, {})
    with pytest.raises(AssertionError, match="only an expression"):
        run("x = 1  # → 1\n", page, 1, {})


def test_no_block_goes_unnoticed():
    """Every fenced block is Python that runs, shell that is checked below, or a directive of MyST's."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fences = re.findall(r"^\s*(?:`{3,}|~{3,})(\S*)", text, re.MULTILINE)
        unknown = {name for name in fences if name and name not in LANGUAGES and not name.startswith("{")}
        assert not unknown, f"{page.name}: blocks in {unknown}; known are {LANGUAGES}"
        assert len(fences) == 2 * len(list(FENCE.finditer(text))), (
            f"{page.name}: a block that is indented or not closed"
        )


def test_blocks_fit_the_page():
    """A column of the book holds 80 characters of code; what is longer is cut off until it is scrolled."""
    for page in USE:
        for language in sorted(LANGUAGES):
            for line, block in blocks(page, language):
                for number, text in enumerate(block.splitlines(), start=line):
                    assert len(text) <= 80, f"{page.name}:{number}: {len(text)} characters"


def test_shell_blocks_name_commands_and_extras_that_exist():
    extras = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    seen = 0
    for page in PAGES:
        for line, block in blocks(page, "sh"):
            for command in block.splitlines():
                words = re.sub(r"\s#.*", "", command).replace("'", "").split()
                where = f"{page.name}:{line}: {command}"
                if words[:2] == ["pip", "install"]:
                    (target,) = words[2:]
                    named = re.fullmatch(r"\.(?:\[(.*)\])?", target)
                    assert named, where
                    assert set(filter(None, (named[1] or "").split(","))) <= set(extras), where
                else:
                    assert words[0] == "lae", f"{where}: neither pip nor lae"
                    parser().parse_args(words[1:])
                seen += 1
    assert seen >= 5


def test_commands_in_the_text_exist():
    """`lae …` in running text names a subcommand that exists."""
    commands = set(parser()._subparsers._group_actions[0].choices)  # type: ignore[union-attr]
    for page in PAGES:
        for command in re.findall(r"`lae ([a-z]+)", page.read_text(encoding="utf-8")):
            assert command in commands, f"{page.name}: there is no `lae {command}`"


@pytest.mark.filterwarnings("ignore")  # torch's own, about the ways that it has given up
def test_what_the_pages_say_does_not_work_does_not(tmp_path):
    """If one of these works, take it off book/use/export.md."""
    from lae_core import make_pool

    pool = make_pool("lae(t0=4)", channels=2).eval()
    with pytest.raises((RuntimeError, ValueError)):
        torch.jit.script(pool)
    with pytest.raises((IndexError, RuntimeError, torch.onnx.errors.OnnxExporterError)):
        torch.onnx.export(pool, (torch.randn(1, 2, 9),), tmp_path / "old.onnx", dynamo=False)
