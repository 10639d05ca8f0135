"""The benchmark of very many runs, in small: that it measures and kills, not what it finds on a busy machine."""

from __future__ import annotations

import json

import pytest

from lae_core.cli import main


@pytest.mark.long
def test_a_sweep_that_is_killed_ends_complete_and_equal(tmp_path):
    sizes = ["--runs", "60", "--killed-runs", "40", "--kills", "2"]
    assert main(["bench", "load", *sizes, "--json", str(tmp_path / "load.json")]) == 0
    found = json.loads((tmp_path / "load.json").read_text())
    assert found["overhead_seconds_per_run"] > 0 and found["resume_seconds"] > 0
    assert found["driver_megabytes_at_most"] >= found["driver_megabytes_at_first"] > 50
    killed = found["killed"]
    assert len(killed["recorded_at_each_kill"]) == 2 and killed["recorded_at_each_kill"][0] >= 1
    assert killed["recorded_at_the_end"] == 40 and killed["equal"] and killed["claims_left"] == 0
