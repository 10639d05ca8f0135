"""Worker processes import the toy runs by name, so their directory is on the path that they inherit."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))


@pytest.fixture
def store(tmp_path):
    from lae_core.runs.records import RunStore

    return RunStore(tmp_path / "store")
