"""The part *Rerun it*, followed: its blocks are carried out in a copy of the checkout, and what they promise is checked.

A `{code-block} shell` is run. A block whose caption names a file is written there: "a new file", "at the end", or "after
the line that begins with" a text. A block of class `lae-shown` is what the command before it prints, times aside.
Blocks with plain fences are not run, only checked for commands that exist.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest

from lae_core.book.notebooks import find_notebook
from lae_core.book.rerun_pages import differences
from lae_core.cli import parser
from lae_core.runs.where import Where, slurm_arguments

REPO = Path(__file__).resolve().parents[2]
PAGES = REPO / "book" / "rerun"
BLOCK = re.compile(
    r"^(?P<fence>`{3,})\{code-block\} (?P<language>\w+)\n(?P<options>(?::[^\n]*\n)*)\n?(?P<body>.*?)^(?P=fence)$",
    re.M | re.S,
)
CAPTION = re.compile(
    r':caption: "`(?P<file>[^`]+)`, (?P<where>a new file|at the end|after the line that begins with .*)"'
)


@dataclass
class Copy:
    """A checkout of its own, with everything that a recipe may change, and the commands of this environment in it."""

    root: Path
    printed: list[str] = field(default_factory=list)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        tools = Path(sys.executable).parent
        settings = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(self.root)}
        settings |= {"OMP_NUM_THREADS": "1", "LAE_WHERE": "inline", "LAE_DATA": str(self.root / "data")}
        env = {name: value for name, value in os.environ.items() if name != "LAE_RUNS"} | settings
        return subprocess.run(["bash", "-c", command], cwd=self.root, env=env, capture_output=True, text=True)

    def python(self, code: str) -> str:
        done = self.run(f"python - <<'END'\n{code}\nEND")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def follow(self, page: str, heading: str) -> None:
        """Carry out the blocks of one section, in their order."""
        followed = blocks(page, heading)
        assert any(block["language"] == "shell" for block in followed)
        for block in followed:
            caption = CAPTION.search(block["options"].replace('\\"', '"'))
            if caption:
                self.write(caption["file"], caption["where"], block["body"])
            elif "lae-shown" in block["options"]:
                assert timeless(self.printed[-1]) == timeless(block["body"])
            else:
                assert block["language"] == "shell", f"nothing says what to do with {block[0]}"
                for command in commands(block["body"]):
                    done = self.run(command)
                    mistaken = done.returncode == 2 and "no parameter" in done.stderr  # the page shows one
                    assert done.returncode == 0 or mistaken, f"{command}\n{done.stdout}\n{done.stderr}"
                    self.printed.append(done.stdout or done.stderr)

    def write(self, name: str, where: str, body: str) -> None:
        path = self.root / name
        if where == "a new file":
            assert not path.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
        elif where == "at the end":
            path.write_text(f"{path.read_text(encoding='utf-8')}\n\n{body}", encoding="utf-8")
        else:
            begins = where.removeprefix("after the line that begins with ").strip("`")
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            (place,) = [index for index, line in enumerate(lines) if line.strip().startswith(begins)]
            path.write_text("".join([*lines[: place + 1], body, *lines[place + 1 :]]), encoding="utf-8")


def blocks(page: str, heading: str) -> list[re.Match[str]]:
    """The blocks below a heading; a block may hold headings of its own."""
    text = (PAGES / page).read_text(encoding="utf-8")
    found = list(BLOCK.finditer(text))
    heads = [
        head
        for head in re.finditer(r"^## (.*)$", text, re.M)
        if not any(b.start() < head.start() < b.end() for b in found)
    ]
    (begin,) = [head.start() for head in heads if head[1] == heading]
    end = min((head.start() for head in heads if head.start() > begin), default=len(text))
    return [block for block in found if begin < block.start() < end]


def timeless(text: str) -> list[str]:
    """The words, without times, which differ from one run to the next; a page may break long lines."""
    return re.sub(r"[\d.]+ s\b", "… s", text).split()


def commands(block: str) -> list[str]:
    return block.replace("\\\n", " ").strip().splitlines()


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    root = tmp_path / "checkout"
    for name in ("lae_core", "notebooks", "ci"):
        shutil.copytree(REPO / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPO / "_toc.yml", root)
    made = Copy(root)
    found = made.python("from importlib.util import find_spec; print(find_spec('lae_core').origin)")
    assert Path(found).is_relative_to(root)
    return made


def test_one_notebook_with_two_parameters(copy: Copy):
    copy.follow("index.md", "One notebook, two parameters")
    ran = nbformat.read(copy.root / "_build" / "runs" / "start" / "five_minutes.ipynb", as_version=4)
    assert (
        ran.metadata["lae"]["parameters"] | {"temperatures": [0.1, 10.0], "train": "one"}
        == ran.metadata["lae"]["parameters"]
    )
    assert "t = 0.1: " in str(ran) and "t = 10: " in str(ran) and "LAEPool(t=4, r=0.25, trained)" in str(ran)
    stock = nbformat.read(copy.root / "out.ipynb", as_version=4)
    assert "LAEPool(t=4, r=0.25, trained)" in str(stock)


def test_a_plan_run_and_exported(copy: Copy):
    copy.follow("scale.md", "Where records go")
    text = (PAGES / "scale.md").read_text(encoding="utf-8")
    (reading,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    printed = copy.python(reading)
    assert "avg" in printed and "lae(train=one)" in printed
    assert (
        "0 run, 8 already recorded"
        in copy.run("lae sweep ci/plans/digits.yml --store _build/digits --where inline").stdout
    )


def test_a_data_set(copy: Copy):
    copy.follow("recipes.md", "A data set")
    found = copy.python(
        "from lae_core.runs.records import RunStore\n"
        "from lae_core.training.data import load\n"
        "pictures = load('shapes', 'train')\n"
        "(record,) = RunStore('shapes-runs')\n"
        "print(tuple(pictures.uniform.shape), sorted(set(pictures.labels.tolist())), record.result['status'], "
        "record.config['data'])"
    )
    assert found == "(64, 3, 32, 32) [0, 1] finished shapes"
    (copy.root / "data" / "shapes" / "train.safetensors").open("ab").write(b"x")
    refused = copy.run("lae sweep shapes.yml --store again --where inline")
    assert refused.returncode == 1 and "is damaged" in refused.stdout + refused.stderr


def test_a_pool(copy: Copy):
    copy.follow("recipes.md", "A pool")
    assert copy.printed[-1] == "TopPool(share=0.1)\n"
    found = copy.python(
        "import torch\n"
        "from lae_core import PoolSpec, make_pool\n"
        "from lae_core.runs.records import RunStore\n"
        "spec = PoolSpec.parse('top( share = 0.10 )')\n"
        "assert PoolSpec.parse(str(spec)) == spec and str(PoolSpec.parse('top(share=0.25)')) == 'top'\n"
        "z = torch.arange(16.0).reshape(1, 1, 4, 4).requires_grad_()\n"
        "make_pool('top', channels=1)(z).sum().backward()\n"
        "assert z.grad.flatten().tolist() == [0] * 12 + [0.25] * 4\n"
        "(record,) = RunStore('top-runs')\n"
        "print(record.result['status'], record.config['pool'])"
    )
    assert found == "finished top(share=0.1)"


def test_an_experiment(copy: Copy):
    copy.follow("recipes.md", "An experiment")
    ran = nbformat.read(copy.root / "_build" / "runs" / "experiments" / "two_pools.ipynb", as_version=4)
    shown = "".join(output.get("text", "") for cell in ran.cells for output in cell.get("outputs", []))
    assert re.fullmatch(r"avg: [\d.]+ % wrong, n = 2\nmax: [\d.]+ % wrong, n = 2\n", shown)
    listed = copy.python(
        "from pathlib import Path\nfrom lae_core.book.build import book_notebooks\nfrom lae_core.runs.records import RunStore\n"
        "print('experiments/two_pools' in [n.name for n in book_notebooks(Path.cwd())], len(list(RunStore('runs'))))"
    )
    assert listed == "True 4"
    untrained = copy.run("lae run two_pools")
    assert untrained.returncode == 1 and "are not recorded" in untrained.stderr


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_commands_that_are_shown_exist(page: Path):
    """Every `lae` command parses; a notebook of the book takes the parameters that it is given; settings are understood."""
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r"^`{3,}(?:\{code-block\} )?shell\n(.*?)^`{3,}$", text, re.M | re.S)
    ours = [line for block in shown for line in commands(block) if line.startswith("lae ")]
    assert ours
    for command in ours:
        args = parser().parse_args(shlex.split(command)[1:])
        if args.command == "run" and args.notebook != "two_pools" and "-p temperature " not in command:
            find_notebook(args.notebook, REPO).values(args.profile, args.parameter)
    for where in re.findall(r"LAE_WHERE='([^']+)'", text):
        assert slurm_arguments(Where.parse(where))["job_cpu"] == 4
    for path in re.findall(r"`(ci/[\w./]+)", re.sub(r"^:caption:.*$", "", text, flags=re.M)):
        assert (REPO / path).exists(), path


def test_the_list_of_profiles_is_that_of_the_files(tmp_path: Path):
    (tmp_path / "ci" / "profiles" / "smoke" / "part").mkdir(parents=True)
    (tmp_path / "notebooks" / "part").mkdir(parents=True)
    for name in ("one", "two"):
        cell = "```{code-cell} ipython3\n:tags: [parameters]\n\nepochs: int = 5  # of a run\n```\n"
        (tmp_path / "notebooks" / "part" / f"{name}.md").write_text(f"# Part {name}\n\n{cell}")
    (tmp_path / "ci" / "profiles" / "smoke" / "part" / "two.yml").write_text("epochs: 1\n")
    assert differences(tmp_path, ["part/one", "part/two"]) == (
        "[Part two](/notebooks/part/two.ipynb)\n: *smoke*: `epochs = 1`\n"
    )
