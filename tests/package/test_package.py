"""What a stranger installs: requirements that are true, a wheel that works with torch alone, files that say who and what."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from environments import canonical, closure, environment_with_torch, modules, run

import lae_core

REPO = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
BIN = Path(sys.executable).parent
OWNERS = metadata.packages_distributions()
# The extra that brings what a subpackage imports. `bench` may also use the peers.
SUBPACKAGES = {
    "pooling": [],
    "models": ["models"],
    "training": ["models"],
    "runs": ["scale", "slurm"],
    "paper": ["book"],
}
SUBPACKAGES |= {"evidence": ["book"], "figures": ["book"], "bench": ["book"], "book": ["book"]}
# Imported where the user asked for it, behind a message that names the extra.
ON_REQUEST = {"models": ["pretrained"], "training": ["pretrained"], "bench": ["peers"]}


def declared(extras: list[str]) -> set[str]:
    """The distributions that `pip install logavgexp[extras]` names, through the extras of our own that they include."""
    found: set[str] = set()
    for line in [*PROJECT["dependencies"], *(r for extra in extras for r in PROJECT["optional-dependencies"][extra])]:
        name, ours = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", line).groups()  # type: ignore[union-attr]
        found |= declared(ours.split(",")) if name == PROJECT["name"] else {canonical(name)}
    return found


def imported(node: ast.AST) -> Iterator[str]:
    """Top-level names of the modules that code imports when it runs."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name.split(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
            yield child.module.split(".")[0]
        yield from imported(child)


@pytest.mark.parametrize("subpackage", SUBPACKAGES)
def test_every_import_of_a_subpackage_is_declared_by_its_extra(subpackage):
    may = declared(SUBPACKAGES[subpackage] + ON_REQUEST.get(subpackage, []))
    # Parts of a declared package that come under a name of their own.
    may |= {"matplotlib-inline"} if "ipython" in may else set()
    may |= {"cycler"} if "matplotlib" in may else set()
    may |= {"triton"} if "torch" in may else set()  # imported only where there is a GPU: torch's CUDA build brings it
    for file in (REPO / "lae_core" / subpackage).rglob("*.py"):
        for module in set(imported(ast.parse(file.read_text()))) - sys.stdlib_module_names - {"lae_core"}:
            assert {canonical(name) for name in OWNERS[module]} & may, (
                f"{file}: {module} is in no extra of {subpackage}"
            )


def test_subpackages_are_all_there():
    assert set(SUBPACKAGES) == {path.parent.name for path in (REPO / "lae_core").glob("*/__init__.py")}


def test_the_operator_imports_torch_and_the_standard_library_alone():
    """In a process of its own, with torch in memory: what else appears when the package and its pools are imported?"""
    code = """
import sys, torch
before = set(sys.modules)
import lae_core, lae_core.pooling.swap, lae_core.pooling.locate
lae_core.make_pool("lae(t0=4, train=channel)", channels=3)(torch.randn(2, 3, 4, 4)).sum().backward()
print(*{name.split(".")[0] for name in set(sys.modules) - before})
"""
    done = run(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    # What torch itself loads late is torch's: its requirements, and NumPy, which it uses where it finds it.
    torchs_own = {module for name in ("torch", "numpy", *closure("torch")) for module in modules(name)}
    assert set(done.stdout.split()) - set(sys.stdlib_module_names) - torchs_own == {"lae_core"}


def test_requirements_are_torch_alone():
    assert declared([]) == {"torch"}


def test_the_distribution_has_its_own_name():
    """`lae` on the package index is a stranger's package: no text, message or requirement may send anyone there."""
    assert PROJECT["name"] == "logavgexp"
    assert {"lae"} == set(PROJECT["scripts"]), "the command keeps its name"
    extras = "|".join(PROJECT["optional-dependencies"])
    wrong = re.compile(rf"""pip install [^\n]*?(?<![\w./\[-])lae(?![\w-])|(?<![\w.])lae\[(?:{extras}|\{{)""")
    assert wrong.search("pip install 'lae[models]'") and wrong.search("pip install lae") and wrong.search('"lae[book]"')
    files = run("git", "ls-files", cwd=REPO).stdout.split()
    texts = [
        REPO / name for name in files if name.endswith((".md", ".py", ".toml", ".yml", ".txt", ".cff", "file", ".sh"))
    ]
    assert len(texts) > 100
    here = Path(__file__).resolve()
    assert [str(file) for file in texts if file != here and wrong.search(file.read_text(encoding="utf-8"))] == []


def test_version_has_one_place_and_an_entry_in_the_changelog():
    done = run(sys.executable, "setup.py", "--version", cwd=REPO)
    assert done.stdout.split()[-1] == lae_core.__version__, done.stderr
    for file in ("pyproject.toml", "setup.py", "CITATION.cff"):
        assert lae_core.__version__ not in (REPO / file).read_text(), file
    latest = re.search(r"^## (\S+)", (REPO / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert latest is not None and latest.group(1) == lae_core.__version__


def test_citation_file_is_valid_and_names_the_paper(tmp_path):
    check = [BIN / "check-jsonschema", "--builtin-schema", "vendor.citation-file-format"]
    done = run(*check, REPO / "CITATION.cff")
    assert done.returncode == 0, done.stdout
    citation = yaml.safe_load((REPO / "CITATION.cff").read_text())
    paper = citation["preferred-citation"]
    (tmp_path / "wrong.cff").write_text(yaml.safe_dump(citation | {"preferred-citation": paper | {"authors": []}}))
    assert run(*check, tmp_path / "wrong.cff").returncode != 0
    entry = (REPO / "book" / "references.bib").read_text().split("@misc{lowe2021logavgexp,")[1].split("\n}")[0]
    assert paper["title"] in entry.replace("{", "").replace("}", "")
    assert f"eprint = {{{paper['url'].rsplit('/', 1)[1]}}}" in entry
    authors = " and ".join(f"{who['family-names']}, {who['given-names']}" for who in paper["authors"])
    assert f"author = {{{authors}}}" in entry


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_pages_beside_the_code_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)", (REPO / page).read_text())
    here = [target for target in targets if "://" not in target]
    assert [target for target in here if not (REPO / target).exists()] == []


def test_style():
    for command in (["check", "."], ["format", "--check", "."]):
        done = run(BIN / "ruff", *command, cwd=REPO)
        assert done.returncode == 0, f"ruff {' '.join(command)}\n{done.stdout}"


def test_hooks_before_a_commit_are_valid():
    done = run(BIN / "pre-commit", "validate-config", REPO / ".pre-commit-config.yaml")
    assert done.returncode == 0, done.stdout
    for hook in yaml.safe_load((REPO / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]:
        assert (BIN / hook["entry"].split()[0].rpartition("/")[2]).is_file(), hook["entry"]


@pytest.mark.long
def test_types():
    done = run(BIN / "mypy", "lae_core", cwd=REPO)
    assert done.returncode == 0, done.stdout


# ------------------------------------------------------------------- wheel, sdist, clean installation


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the sdist, and the wheel made from it (not from the checkout, whose other files would help it)."""
    folder = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--outdir", folder, REPO)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def clean(built: Path, tmp_path_factory) -> Path:
    """The bin folder of a new environment with the wheel in it, and torch with its own requirements and nothing else."""
    programs = environment_with_torch(tmp_path_factory.mktemp("clean"))
    # Without an index, whatever pip is told elsewhere: a requirement beyond torch would stop it here.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    alone["PIP_CONFIG_FILE"] = os.devnull
    done = run(programs / "pip", "install", "--no-index", next(built.glob("*.whl")), env=alone)
    assert done.returncode == 0, done.stdout + done.stderr
    return programs


@pytest.mark.long
def test_wheel_and_sdist_hold_what_they_should(built: Path):
    assert all(file.name.startswith("logavgexp-") for file in built.iterdir())
    names = set(zipfile.ZipFile(next(built.glob("*.whl"))).namelist())
    ours = {path.relative_to(REPO).as_posix() for path in (REPO / "lae_core").rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    assert {name for name in names if ".dist-info/" not in name} == ours  # py.typed, csv and yml among them
    assert "lae_core/py.typed" in ours and any(name.endswith("licenses/LICENSE") for name in names)
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    compiled = {name for name in ours if name.endswith((".so", ".dll"))}
    assert (ours - compiled) | {"pyproject.toml", "README.md", "LICENSE"} <= inside


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize(("settings", "tag"), [({"CC": "false"}, "any"), ({"LAE_KERNEL": "off"}, "any"), ({}, "linux")])
def test_a_wheel_without_the_kernel_is_a_pure_one(settings: dict[str, str], tag: str, tmp_path):
    for name in subprocess.run(["git", "ls-files"], cwd=REPO, capture_output=True, text=True).stdout.splitlines():
        if name.startswith("lae_core/") or name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPO / name, tmp_path / name)
    plain = {name: value for name, value in os.environ.items() if name not in ("CC", "LAE_KERNEL")}
    command = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path / "dist", tmp_path)
    done = run(*command, env=plain | settings)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert f"-py3-none-{tag}" in wheel.name
    assert any(name.endswith("_kernel.so") for name in names) == (tag != "any")


USE = """
import importlib.util, torch
absent = [name for name in ("numpy", "pandas", "torchvision", "yaml") if importlib.util.find_spec(name)]
assert not absent, absent
from lae_core import logavgexp, make_pool, swap_global_pool
z = torch.randn(2, 3, 4, 4)
torch.testing.assert_close(logavgexp(z, 1e6, dim=(-2, -1)), z.mean((-2, -1)), atol=1e-4, rtol=0)
pool = make_pool("lae(t0=4, train=channel)", channels=3)
pool(z).sum().backward()
assert all(p.grad is not None for p in pool.parameters())
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Conv2d(3, 8, 3)
        self.avgpool = torch.nn.AdaptiveAvgPool2d(1)
        self.fc = torch.nn.Linear(8, 2)
    def forward(self, z):
        return self.fc(self.avgpool(self.features(z)).flatten(1))
net = swap_global_pool(Net(), "lae(t0=4, train=one)")
assert net(z).shape == (2, 2) and "LAE" in repr(net) or "lae" in repr(net), net
from lae_core.models import WRN
assert WRN(classes=10, depth=8, width=1)(torch.randn(2, 3, 32, 32)).shape == (2, 10)
"""


@pytest.mark.long
def test_the_operator_works_with_torch_alone(clean: Path, tmp_path):
    done = run(clean / "python", "-c", USE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run(clean / "lae", "--help", cwd=tmp_path)
    assert done.returncode == 0 and "sweep" in done.stdout, done.stderr
    done = run(clean / "pip", "check", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("book", "book"),
        ("params five_minutes", "book"),
        ("run five_minutes", "book"),
        ("sweep plan.yml", "scale"),
        ("data", "models"),
        ("bench operator --quick", "peers"),
        ("bench training", "models,peers"),
        ("bench sweep", "scale"),
    ],
)
def test_a_command_that_needs_an_extra_names_it(clean: Path, command, extra):
    done = run(clean / "lae", *command.split(), cwd=REPO)
    assert done.returncode != 0
    assert f"pip install 'logavgexp[{extra}]'" in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.long
def test_doctor_reports_what_is_missing(clean: Path, tmp_path):
    done = run(clean / "lae", "doctor", cwd=tmp_path)
    assert "Traceback" not in done.stderr, done.stderr
    for extra in ("models", "scale", "book"):
        assert f"pip install 'logavgexp[{extra}]'" in done.stdout
