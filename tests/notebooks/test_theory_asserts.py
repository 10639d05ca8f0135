"""The theory chapters check the operator: with a broken formula their code stops, with the right one it does not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Runs the code cells of one chapter after the other, as a kernel would, with one operator put in the place of another.
# Prints, for each chapter, the kind of the first exception, or null.
DRIVER = """
import json, math, sys
import jupytext, matplotlib, torch
matplotlib.use("Agg")
import lae_core, lae_core.pooling, lae_core.pooling.functional as functional, lae_core.pooling.modules as modules

right = functional.logavgexp
def without_n(z, t=1.0, dim=-1):      # forgets to divide by n
    return right(z, t, dim) + t * math.log(z.shape[-1])
def slightly_hot(z, t=1.0, dim=-1):   # a temperature that is off by one in a million
    return right(z, t * (1 + 1e-6), dim)
chosen = {"right": right, "without_n": without_n, "slightly_hot": slightly_hot}[sys.argv[1]]
for place in (lae_core, lae_core.pooling, functional, modules):
    place.logavgexp = chosen

smaller = {"numerics": {"rows": 2, "coldest": 0, "hottest": 12}, "temperature": {"rows": 64}}
found = {}
for chapter in sys.argv[2:]:
    names = {}
    try:
        for cell in jupytext.read(f"notebooks/theory/{chapter}.md").cells:
            if cell.cell_type == "code":
                exec(cell.source, names)
                if "parameters" in cell.metadata.get("tags", []):
                    names.update(smaller.get(chapter, {}))
        found[chapter] = None
    except Exception as error:
        found[chapter] = type(error).__name__
print("\\n" + json.dumps(found))
"""


def run(operator: str, *chapters: str, verdicts: Path) -> dict[str, str | None]:
    environment = os.environ | {"LAE_VERDICTS": str(verdicts), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, operator, *chapters], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_driver_lets_the_right_operator_pass(tmp_path):
    chapters = ("an_or_for_logits", "figure_one", "temperature", "numerics", "explorer")
    assert run("right", *chapters, verdicts=tmp_path) == dict.fromkeys(chapters)
    assert {path.stem for path in tmp_path.glob("*.json")} == {"T1", "T2", "T3", "T9"}


@pytest.mark.parametrize("operator", ["without_n", "slightly_hot"])
def test_a_broken_operator_stops_every_chapter(operator, tmp_path):
    # `between_max_and_mean` and `derivatives` prove for seconds before they meet the operator: once is enough for them.
    chapters = ["an_or_for_logits", "figure_one", "temperature", "numerics"]
    chapters += ["between_max_and_mean", "derivatives"] if operator == "slightly_hot" else ["explorer"]
    found = run(operator, *chapters, verdicts=tmp_path)
    assert found == dict.fromkeys(chapters, "AssertionError")
    assert not list(tmp_path.glob("*.json"))  # and no verdict is left behind
