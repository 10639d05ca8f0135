"""What Tab offers, as the shell asks for it: through the environment of the command itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
pytest.importorskip("argcomplete")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("lae pa", {"params"}),
        ("lae run fi", {"five_minutes", "figure_one", "final_temperature"}),
        ("lae run wrn -p seeds 3 --profile ", {"smoke", "cpu", "gpu", "paper"}),
        ("lae data cif", {"cifar10", "cifar100"}),
    ],
)
def test_tab_offers_what_there_is(tmp_path, typed, offered):
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": typed, "COMP_POINT": str(len(typed))}
    said = {"_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "said"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "lae_core.cli"]
    subprocess.run(command, cwd=REPO, env=os.environ | asked | said, check=True)
    assert {word.strip() for word in (tmp_path / "said").read_text().splitlines()} == offered
