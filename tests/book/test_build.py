"""`lae book` on a small project: what is built, when it is built again, and what stops it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from lae_core.book import build
from lae_core.book.batch import execute_all
from lae_core.book.build import BuildError, book_notebooks, toc_files
from lae_core.book.elsewhere import BRANCH, repository_url
from lae_core.book.execute import uses_gpu
from lae_core.book.notebooks import NotebookError
from lae_core.book.sphinx_ext import provenance_html
from lae_core.runs.files import UsageError

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture
def small_book(project, monkeypatch):
    """One executed chapter and one page, with the book's own settings; pages generated from claims are left out."""
    shutil.copy(REPO / "_config.yml", project.root / "_config.yml")
    shutil.copytree(REPO / "book" / "_static", project.root / "book" / "_static")
    project.write("book/references.bib", "")
    project.write("book/intro.md", "# A small book\n\nIt has [one chapter](../notebooks/part/one.md).\n")
    project.notebook("part/one", "depth: int = 3  # blocks", "print(f'depth is {depth}')")
    monkeypatch.setattr(build, "GENERATORS", [])
    return project


def test_book_is_built_once_and_again_only_when_something_changed(small_book, capsys):
    root = small_book.root
    small_book.write("ci/profiles/smoke/part/one.yml", "depth: 5\n")

    output = root / "elsewhere"
    small_book.write("elsewhere/notes.txt", "mine")  # builds go beside it, and leave it there

    def built(force: bool = False) -> str:
        index = build.build(root, output, "smoke", force)
        assert index == output / "html" / "index.html"
        return capsys.readouterr().out

    said = built()
    assert "0 up to date, 1 to execute" in said and "rendering" in said
    page = (output / "html" / "notebooks" / "part" / "one.html").read_text()
    assert "depth is 5" in page and "<dt>profile</dt><dd>smoke</dd>" in page
    assert "lae run notebooks/part/one.md --profile smoke" in page
    assert (
        '<a class="reference internal" href="../notebooks/part/one.html">'
        in (output / "html" / "book" / "intro.html").read_text()
    )
    assert "book/intro.html" in (output / "html" / "index.html").read_text()
    download = output / "html" / "_sources" / "notebooks" / "part" / "one.ipynb"
    assert "../../_sources/notebooks/part/one.ipynb" in page
    assert "depth: int = 5  # blocks" in nbformat.read(download, as_version=4).cells[1].source

    said = built()
    assert "1 up to date, 0 to execute" in said and "nothing changed" in said

    (output / "html" / "book" / "intro.html").unlink()
    assert "rendering" in built()

    said = built(force=True)
    assert "part/one: forced" in said and "rendering" in said

    small_book.write("book/intro.md", "# A small book\n\nIt still has one chapter.\n")
    said = built()
    assert "1 up to date, 0 to execute" in said and "rendering" in said
    assert "It still has" in (output / "html" / "book" / "intro.html").read_text()

    # A warning is fatal, and stays so when the build is tried again.
    small_book.write("book/intro.md", "# A small book\n\nSee {numref}`fig-nowhere`.\n")
    for _ in range(2):
        with pytest.raises(BuildError, match="Sphinx reported problems"):
            built()
    assert (output / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("make", "output", "said"),
    [
        ("mine/src/thesis.tex", "mine", "--output = 'mine' is invalid (it holds src, which no build of ours made)"),
        ("mine/html/index.html", "mine", "it holds html"),
        ("mine/rendered.json", "mine", "it holds rendered.json"),
        ("mine", "mine", "--output = 'mine' is invalid (it is a file); expected a directory"),
        ("other", "book", "it lies in the book's sources, book/"),
        ("other", "notebooks/out", "it lies in the book's sources, notebooks/"),
        ("other", "/proc/out", "--output = '/proc/out' is invalid"),
    ],
)
def test_book_is_not_built_over_what_is_not_ours(small_book, monkeypatch, make, output, said):
    file = small_book.write(make, "mine")
    monkeypatch.chdir(small_book.root)
    monkeypatch.setattr(build, "execute_all", lambda *_: pytest.fail("executed before it was refused"))
    with pytest.raises(UsageError, match=re.escape(said)):
        build.build(small_book.root, Path(output), "smoke")
    assert file.read_text() == "mine"


def test_tables_are_numbered_apart_from_figures(small_book):
    def cell(name: str, shown: str) -> str:
        head = f"---\nmystnb:\n  figure:\n    caption: What {name} is.\n    name: {name}\n---\n"
        return f"{head}from IPython.display import HTML, Markdown\n{shown}"

    table = '<table class="results"><caption>Mean &amp; deviation.</caption><tbody><tr><td>7</td></tr></tbody></table>'
    small_book.notebook(
        "part/one",
        "depth: int = 3  # blocks",
        cell("tab-one", f"HTML({table!r})"),
        cell("fig-one", 'HTML("<b>a drawing</b>")'),
        cell("tab-two", 'Markdown("Not run.")'),
    )
    small_book.write(
        "book/intro.md", "# A small book\n\n{numref}`tab-two` comes after {numref}`tab-one`, {numref}`fig-one`.\n"
    )
    html = build.build(small_book.root, small_book.root / "_build", "smoke", False).parent
    referred = re.sub(r"<[^>]+>", "", (html / "book" / "intro.html").read_text())
    assert "Table 2 comes after Table 1, Fig. 1." in referred
    page = (html / "notebooks" / "part" / "one.html").read_text()
    first = re.search(r'<table class="[^"]*results[^"]*" id="tab-one">.*?</table>', page, flags=re.DOTALL)
    assert first and first.group().count("<caption") == 1 and "<td>7</td>" in first.group()
    assert "What tab-one is. Mean &amp; deviation." in re.sub(r"</?span[^>]*>", "", first.group())
    assert re.search(r'id="tab-two">.*?Not run\..*?</table>', page, flags=re.DOTALL)


def test_failing_notebook_stops_the_book_and_the_others_still_run(small_book):
    small_book.write(
        "_toc.yml", "root: book/intro\nchapters:\n- file: notebooks/part/one\n- file: notebooks/part/two\n"
    )
    small_book.notebook("part/two", "x: int = 1", "assert x == 2, 'x must be two'")
    done = small_book.lae("book")
    assert done.returncode == 1
    assert "assert x == 2" in done.stderr and "x must be two" in done.stderr
    assert "executed part/one" in done.stdout
    assert not (small_book.root / "_build" / "html").exists()
    assert len(list((small_book.root / "_build" / "executed").rglob("entry.json"))) == 1


def test_interrupt_stops_all_kernels_at_once_and_keeps_what_was_finished(project):
    names = ("one", "two", "three", "four")
    chapters = "".join(f"- file: notebooks/part/{name}\n" for name in names)
    project.write("_toc.yml", f"root: book/intro\nchapters:\n{chapters}")
    project.notebook("part/one", "x: int = 1", "print(x)")
    body = "import os, pathlib, time\npathlib.Path(f'{name}.pid').write_text(str(os.getpid()))\ntime.sleep(100)"
    for name in names[1:]:
        project.notebook(f"part/{name}", f"name: str = '{name}'", body)
    process = project.start("book")
    kept = project.root / "_build" / "executed" / "part" / "one"
    deadline = time.monotonic() + 100
    while not list(project.root.glob("*.pid")) or not list(kept.glob("*/entry.json")):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.1)
    kernels = [psutil.Process(int(path.read_text())) for path in project.root.glob("*.pid") if path.read_text()]
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err.strip() == "lae book: interrupted; what had finished is kept"
    gone, alive = psutil.wait_procs(kernels, timeout=30)
    assert gone and not alive
    assert len(list(kept.glob("*/entry.json"))) == 1


def test_toc_is_read_in_order_and_a_missing_notebook_is_named(project):
    text = (
        "root: book/intro\nparts:\n- chapters:\n  - file: notebooks/part/one.md\n    sections:\n    - file: book/more\n"
    )
    project.write("_toc.yml", text)
    assert toc_files(project.root) == ["book/intro", "notebooks/part/one", "book/more"]
    with pytest.raises(NotebookError, match="do not exist: part/one"):
        book_notebooks(project.root)


def test_gpu_notebooks_are_those_whose_device_says_so(monkeypatch):
    assert not uses_gpu({"depth": 3})
    assert not uses_gpu({"device": "cpu"})
    assert uses_gpu({"device": "cuda:0"})
    for present in (True, False):
        monkeypatch.setattr("torch.cuda.is_available", lambda present=present: present)
        assert uses_gpu({"device": "auto"}) is present


def test_gpu_notebooks_run_one_after_another(project, monkeypatch):
    """Each notebook writes down when it ran; on a machine without a GPU the name of one is made up."""
    body = """
        import json, pathlib, time
        start = time.time(); time.sleep(1.5)
        pathlib.Path(f"{name}.json").write_text(json.dumps([start, time.time()]))
    """
    for name in ("a", "b"):
        project.notebook(f"part/{name}", f"name: str = '{name}'\ndevice: str = 'cuda'", body)
    monkeypatch.setattr("lae_core.book.batch._execute_one", _without_a_gpu)
    notebooks = [build.Notebook(project.root, f"part/{name}") for name in ("a", "b")]
    execute_all(project.root, notebooks, "cpu")
    spans = sorted(json.loads((project.root / f"{name}.json").read_text()) for name in ("a", "b"))
    assert spans[0][1] <= spans[1][0]


def _without_a_gpu(root, name, values, force):
    from lae_core.training import provenance

    provenance.device_name = lambda gpu: "made-up GPU"
    from lae_core.book.cache import Cache
    from lae_core.book.progress import Progress

    return Cache(root).run(build.Notebook(root, name), values, Progress("test"), force), 0.0


def test_footer_of_a_page_escapes_what_it_shows():
    record = {
        "notebook": "notebooks/a.md",
        "profile": "cpu",
        "commit": "abc+",
        "started": "2026-01-02T03:04:05+00:00",
        "seconds": 1.25,
        "device": "CPU <fast>",
        "versions": {"torch": "2"},
    }
    shown = provenance_html(record, "cpu", "abc")
    assert "CPU &lt;fast&gt;" in shown and "2026-01-02 03:04:05 UTC, in 1.2 s" in shown
    assert "lae book --profile cpu" in provenance_html(None, "cpu", "abc")


def test_links_to_sources_only_where_a_repository_is_known(monkeypatch):
    for name in ("LAE_REPOSITORY", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    assert repository_url() == ""
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://code.example")
    monkeypatch.setenv("GITHUB_REPOSITORY", "someone/lae")
    assert repository_url() == "https://code.example/someone/lae"
    monkeypatch.setenv("LAE_REPOSITORY", "https://mirror.example/lae/")
    assert repository_url() == "https://mirror.example/lae"


def test_notebook_pages_open_on_colab_and_binder_once_there_is_an_address(small_book, monkeypatch):
    for name in ("LAE_REPOSITORY", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)

    def links() -> dict[str, list[str]]:
        html = build.build(small_book.root, small_book.root / "_build", "smoke").parent
        pages = {"notebook": html / "notebooks" / "part" / "one.html", "prose": html / "book" / "intro.html"}
        wanted = re.compile(r'href="(https://(?:colab|mybinder)[^"]*)"')
        return {kind: wanted.findall(page.read_text()) for kind, page in pages.items()}

    assert links() == {"notebook": [], "prose": []}
    monkeypatch.setenv("LAE_REPOSITORY", "https://github.com/someone/pooling/")
    there = "someone/pooling", BRANCH, "notebooks/part/one.ipynb"
    assert links() == {
        "notebook": [
            "https://mybinder.org/v2/gh/{}/{}?urlpath=lab/tree/{}".format(*there),
            "https://colab.research.google.com/github/{}/blob/{}/{}".format(*there),
        ],
        "prose": [],
    }
