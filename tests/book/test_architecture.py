"""Subpackages import one way, no modules import each other in a cycle, and the figure shows what the source has."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import grimp
import pytest

from lae_core.book import architecture

REPO = Path(__file__).resolve().parents[2]
PACKAGE = REPO / "lae_core"
NAMES = architecture.layers(REPO)
PAIRS = architecture.imports_between()


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([program, "--no-cache", "--no-logo"], cwd=root, capture_output=True, text=True)


def test_the_contracts_on_imports_hold():
    done = lint_imports(REPO)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("file", "code", "said"),
    [
        ("pooling/spec.py", "def f():\n    import lae_core.models.wrn", "lae_core.pooling is not allowed to import"),
        ("pooling/temperature.py", "from lae_core.pooling import modules", "No modules import each other in a cycle"),
        ("attic/__init__.py", "", "attic"),
    ],
    ids=["against the order", "cycle", "unknown subpackage"],
)
def test_a_contract_on_imports_can_break(file: str, code: str, said: str, tmp_path: Path):
    shutil.copytree(PACKAGE, tmp_path / "lae_core", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(REPO / "pyproject.toml", tmp_path)
    (tmp_path / "lae_core" / file).parent.mkdir(exist_ok=True)
    with (tmp_path / "lae_core" / file).open("a") as source:
        source.write(f"\n{code}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1 and said in done.stdout, done.stdout + done.stderr


def test_import_lae_core_reaches_pooling_alone():
    graph = grimp.build_graph("lae_core", cache_dir=None)
    reached = graph.find_upstream_modules("lae_core")
    assert {module.split(".")[1] for module in reached} == {"pooling"}


def test_the_figure_shows_each_pair_of_subpackages_once():
    svg = ElementTree.fromstring(architecture.drawing(NAMES, PAIRS))
    name = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in svg.iter(f"{name}text")]
    assert [text for text in texts if not str(text).isdigit()] == list(NAMES)
    assert sorted(int(str(text)) for text in texts if str(text).isdigit()) == sorted(PAIRS.values())
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    assert width <= 440, "wider than a page on a phone"
    for shape in svg.iter(f"{name}circle"):
        assert 0 < float(shape.attrib["cx"]) < width and 0 < float(shape.attrib["cy"]) < height


def test_the_page_says_what_each_subpackage_holds():
    page = architecture.page(NAMES, PAIRS, PACKAGE)
    assert re.findall(r"^\* - `(\w+)`", page, re.M) == list(NAMES)
    assert "  - \n" not in page, "a subpackage whose __init__ has no docstring"
    assert f":alt: {architecture.spoken(NAMES, PAIRS)}" in page


def test_the_page_for_maintainers_names_files_that_there_are():
    text = (PACKAGE.parent / "book" / "maintainers.md").read_text(encoding="utf-8").split("## Moving to")[0]
    named = re.findall(r"[`/ ]((?:[\w.-]+/)*[\w.-]+\.(?:py|md|yml|toml|cff))\b", text)
    assert len(named) >= 8
    for name in named:
        assert (PACKAGE.parent / name).is_file() or name.startswith("_generated/"), name
