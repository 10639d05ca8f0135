"""From text to `_build/html`: execute what is stale, stage the pages, let Jupyter Book 1 render them.

With `sphinx_ext.py` this is all that knows which program renders the book. The steps:

1. read `_toc.yml`; each `notebooks/...` entry is a notebook to execute, each other entry a prose page;
2. execute the notebooks that the cache does not hold (CPU ones side by side, GPU ones one after another);
3. stage a source tree: the executed notebooks, `book/` beside them, the pages that `GENERATORS` write;
4. run Sphinx on it with every warning fatal, unless the same tree was rendered before.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import yaml
from filelock import FileLock

from lae_core.book import architecture, claims_page, elsewhere, front_page, rerun_pages, use_pages
from lae_core.book.batch import execute_all
from lae_core.book.execute import Executed
from lae_core.book.notebooks import BookError, Notebook, NotebookError
from lae_core.book.outputs import STAMP, check_book_directory
from lae_core.book.stage import Stage
from lae_core.training import provenance


class BuildError(BookError):
    """The book could not be built; the message says which step failed and why."""


# Pages made from executed results. Each function writes what it likes under `stage.source`.
GENERATORS: list[Callable[[Stage], None]] = [
    claims_page.write,
    front_page.write,
    use_pages.write,
    rerun_pages.write,
    architecture.write,
]


def toc_files(root: Path) -> list[str]:
    """Every page of `_toc.yml`, in order, without suffix."""
    return [name for _, names in toc_parts(root) for name in names]


def toc_parts(root: Path) -> list[tuple[str, list[str]]]:
    """The parts of `_toc.yml`, each with its caption and its pages; the first holds the front page and has no caption."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))

    def without_suffix(file: str) -> str:
        return re.sub(r"\.(md|ipynb)$", "", file)

    def pages(part: dict[str, Any]) -> Iterator[str]:
        for entry in part.get("chapters", part.get("sections", [])):
            if "file" in entry:
                yield without_suffix(entry["file"])
            yield from pages(entry)

    parts = [(part.get("caption", ""), list(pages(part))) for part in toc.get("parts", [toc])]
    return [("", [without_suffix(toc["root"])]), *parts]


def book_title(root: Path) -> str:
    return str(yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["title"])


def book_notebooks(root: Path) -> list[Notebook]:
    """The notebooks of the book, in its order; a missing one is an error here, not later in Sphinx."""
    names = [file.removeprefix("notebooks/") for file in toc_files(root) if file.startswith("notebooks/")]
    notebooks = [Notebook(root, name) for name in names]
    missing = [notebook.name for notebook in notebooks if not notebook.path.is_file()]
    if missing:
        raise NotebookError(f"_toc.yml lists notebooks that do not exist: {', '.join(missing)}")
    return notebooks


def stage_pages(root: Path, source: Path, profile: str, executed: dict[str, Executed]) -> None:
    """Lay out the tree that Sphinx reads, afresh."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(root / "book", source / "book", ignore=shutil.ignore_patterns("results", "*.yml"))
    stage = Stage(root, source, profile, executed)
    for generate in GENERATORS:
        generate(stage)
    notebooks = {source / "notebooks" / f"{name}.ipynb": done for name, done in executed.items()}

    def link_to_executed(text: str, folder: Path) -> str:
        """Links name the text file, as in the repository; what is staged of a notebook is its execution."""

        def suffix(match: re.Match[str]) -> str:
            target = Path(os.path.normpath(folder / f"{match['path']}.ipynb"))
            return f"]({match['path']}{'.ipynb' if target in notebooks else '.md'}"

        return re.sub(r"\]\((?P<path>[^)\s#:]+)\.md(?=[)#])", suffix, text)

    for path in source.rglob("*.md"):
        path.write_text(link_to_executed(path.read_text(encoding="utf-8"), path.parent), encoding="utf-8")
    for path, done in notebooks.items():
        page = nbformat.read(done.notebook, as_version=4)
        page.metadata["lae"]["profile"] = profile
        for cell in page.cells:
            if cell.cell_type == "markdown":
                cell.source = link_to_executed(cell.source, path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(page, path)


def render(root: Path, source: Path, html: Path, profile: str) -> None:
    """Jupyter Book 1: `_config.yml` and `_toc.yml` become Sphinx settings; warnings are fatal."""
    from jupyter_book.config import get_final_config
    from jupyter_book.sphinx import REDIRECT_TEXT, build_sphinx

    config, _ = get_final_config(
        user_yaml=root / "_config.yml", sourcedir=source, cli_config={"latex_individualpages": False}
    )
    overrides = {
        "latex_individualpages": False,
        # thebe wants a server, and its script is written twice into each page, which is an error there.
        "extensions": [name for name in config["extensions"] if name != "sphinx_thebe"],
        "external_toc_path": str(root / "_toc.yml"),
        "nitpicky": True,
        "lae_profile": profile,
        "lae_root": str(root),
        "html_theme_options": config["html_theme_options"] | elsewhere.launch_options(elsewhere.repository_url()),
    }
    with warnings.catch_warnings():
        # sphinx_external_toc walks over every object in memory, which wakes deprecated names inside torch.
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # an extension of Jupyter Book's, at docutils
        result = build_sphinx(
            str(source),
            str(html),
            path_config=str(root / "_config.yml"),
            confoverrides=overrides,
            noconfig=True,
            doctreedir=str(source.parent / ".doctrees"),
            force_all=True,
            freshenv=True,
            quiet=True,
            warningiserror=True,
            keep_going=True,
        )
    if result:
        raise BuildError(f"Sphinx reported problems (above); the pages under {html} are not to be trusted")
    first = toc_files(root)[0]
    (html / "index.html").write_text(REDIRECT_TEXT.format(first_page=f"{first}.html"), encoding="utf-8")


def build(root: Path, output: Path, profile: str, force: bool = False) -> Path:
    """Execute, stage and render; returns the path of `index.html`. A second build into the same directory waits."""
    output = check_book_directory(output, root)
    executed = execute_all(root, book_notebooks(root), profile, force)
    output.mkdir(parents=True, exist_ok=True)
    (output / STAMP).write_text("`lae book` built here; it may remove src and html\n", encoding="utf-8")
    with FileLock(output / ".build.lock"):
        source, html, stamp = output / "src", output / "html", output / "rendered.json"
        stage_pages(root, source, profile, executed)
        wanted = _fingerprint(root, source)
        if not force and _is_current(stamp, html, wanted):
            print("nothing changed: the pages stand as they are")
            return html / "index.html"
        stamp.unlink(missing_ok=True)
        shutil.rmtree(html, ignore_errors=True)
        print("rendering the pages ...", flush=True)
        render(root, source, html, profile)
        pages = sorted(path.relative_to(html).as_posix() for path in html.rglob("*.html"))
        stamp.write_text(json.dumps({"from": wanted, "pages": pages}, indent=1), encoding="utf-8")
    return html / "index.html"


def _is_current(stamp: Path, html: Path, wanted: dict[str, str]) -> bool:
    """Whether the pages were rendered from just this, and are all there."""
    try:
        made = json.loads(stamp.read_text(encoding="utf-8"))
        return made["from"] == wanted and all((html / page).is_file() for page in made["pages"])
    except (OSError, ValueError, KeyError):  # no stamp, or not one that this version wrote
        return False


def _fingerprint(root: Path, source: Path) -> dict[str, str]:
    """All that rendering depends on: staged pages, settings, and the package (its docstrings and templates show)."""
    files = [path for path in source.rglob("*") if path.is_file()]
    files += [path for path in provenance.PACKAGE.rglob("*") if path.suffix in (".py", ".jinja")]
    files += [path for path in (root / "_config.yml", root / "_toc.yml", root / "constraints.txt") if path.is_file()]
    digests = {
        os.path.relpath(path, root): hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in sorted(files)
    }
    return digests | {"commit": provenance.short_commit(root), "repository": elsewhere.repository_url()}
