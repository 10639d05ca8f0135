"""The rooms import one way, modules do not import each other in a ring, and the figure shows what the source has."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lae_core.book import architecture
from lae_core.book.architecture import ROOMS, against_the_order, between_rooms, cycle, module_graph, room

PACKAGE = Path(__file__).resolve().parents[2] / "lae_core"
GRAPH = module_graph(PACKAGE)


def test_rooms_are_the_packages_that_there_are():
    assert {room(module) for module in GRAPH} == set(ROOMS)


def test_rooms_import_one_way():
    assert against_the_order(GRAPH) == []


def test_no_modules_import_each_other_in_a_ring():
    assert cycle(GRAPH) == []


def test_the_front_door_opens_on_pooling_alone():
    """`from lae_core import …` counts as importing from pooling, so it must lead nowhere else."""
    assert GRAPH["lae_core"] == {"lae_core.pooling"}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A package with a room below another, each with two modules."""
    package = tmp_path / "lae_core"
    for name in ("", "pooling", "models"):
        (package / name).mkdir(parents=True, exist_ok=True)
        (package / name / "__init__.py").touch()
    (package / "pooling" / "a.py").write_text("import torch\n")
    (package / "pooling" / "b.py").write_text("from lae_core.pooling import a\n")
    (package / "models" / "c.py").write_text("from lae_core.pooling.b import name\nfrom . import d\n")
    (package / "models" / "d.py").write_text("import lae_core.pooling.a\n")
    return package


def test_what_is_imported_is_found(small: Path):
    graph = module_graph(small)
    assert graph["lae_core.models.c"] == {"lae_core.pooling.b", "lae_core.models.d"}
    assert between_rooms(graph) == {("models", "pooling"): 2}
    assert against_the_order(graph) == [] and cycle(graph) == []


@pytest.mark.parametrize(
    "code",
    ["from lae_core.models import c", "def f():\n    import lae_core.models.c", "from ..models.c import x"],
    ids=["plain", "in a function", "relative"],
)
def test_an_import_against_the_order_is_found(small: Path, code: str):
    (small / "pooling" / "a.py").write_text(code + "\n")
    graph = module_graph(small)
    assert against_the_order(graph) == ["lae_core.pooling.a imports lae_core.models.c"]
    assert {"lae_core.pooling.a", "lae_core.models.c"} <= set(cycle(graph))


def test_a_room_without_a_place_in_the_order_is_found(small: Path):
    (small / "attic").mkdir()
    (small / "attic" / "old.py").write_text("from lae_core.pooling import a\n")
    assert against_the_order(module_graph(small)) == ["lae_core.attic.old imports lae_core.pooling.a"]


def test_the_figure_shows_each_pair_of_rooms_once():
    pairs = between_rooms(GRAPH)
    svg = ElementTree.fromstring(architecture.drawing(pairs))
    name = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in svg.iter(f"{name}text")]
    assert [text for text in texts if not str(text).isdigit()] == list(ROOMS)
    assert sorted(int(str(text)) for text in texts if str(text).isdigit()) == sorted(pairs.values())
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    assert width <= 360, "wider than a phone"
    for shape in svg.iter(f"{name}circle"):
        assert 0 < float(shape.attrib["cx"]) < width and 0 < float(shape.attrib["cy"]) < height


def test_the_page_tells_of_each_room_what_it_holds():
    page = architecture.page(GRAPH, PACKAGE)
    assert re.findall(r"^\* - `(\w+)`", page, re.M) == list(ROOMS)
    assert "  - \n" not in page, "a room whose __init__ says nothing of it"
    assert f":alt: {architecture.spoken(between_rooms(GRAPH))}" in page


def test_the_page_for_maintainers_names_files_that_there_are():
    text = (PACKAGE.parent / "book" / "maintainers.md").read_text(encoding="utf-8").split("## Moving to")[0]
    named = re.findall(r"[`/ ]((?:[\w.-]+/)*[\w.-]+\.(?:py|md|yml|toml|cff))\b", text)
    assert len(named) >= 8
    for name in named:
        assert (PACKAGE.parent / name).is_file() or name.startswith("_generated/"), name
