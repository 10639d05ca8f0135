"""One run: config in, record out; the same record each time, and a diverging run is a record too."""

import json
import math
import os
import subprocess
import sys

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from lightning_fabric.plugins.environments import LightningEnvironment
from same_record import outcome

from lae_core.training import checkpoint, loop
from lae_core.training.config import RECIPE, RunConfig

SMALL = RunConfig(
    depth=8, width=0.5, pool="lae(t0=4, train=channel)", data="digits", augment="flip-crop", epochs=2, batch=32,
    subset=160, eval_subset=60, lr=0.1,
)  # fmt: skip


@pytest.fixture(scope="module")
def record():
    torch.set_num_threads(1)
    return loop.run(SMALL)


def test_the_record_says_what_happened(record):
    assert record["status"] == "finished" and record["key"] == SMALL.key()
    assert RunConfig.from_dict(record["config"]) == SMALL
    assert [row["epoch"] for row in record["epochs"]] == [1, 2]
    for row in record["epochs"]:
        assert row["train_loss"] > 0 and 0 <= row["train_error"] <= 1 and 0 <= row["valid_error"] <= 1
        assert 0 < row["gradient_norm"] <= row["gradient_norm_max"]
        assert 3 < row["temperatures"]["global_pool"]["mean"] < 5
    assert record["final"]["accuracy"] == 1 - record["epochs"][-1]["valid_error"]
    assert len(record["pools"]["global_pool"]["temperature"]) == 32
    assert len(set(record["pools"]["global_pool"]["temperature"])) > 1  # they were trained
    assert record["network"]["pooled_positions"] == 64 and record["network"]["flops"] > 1e6
    assert len(record["times"]["train"]) == 2 and record["provenance"]["versions"]["torch"] in torch.__version__


def test_the_same_config_gives_the_same_record_bit_for_bit(record):
    torch.manual_seed(12345)  # whatever the caller's random state
    before = torch.get_rng_state()
    again = loop.run(SMALL)
    assert outcome(again) == outcome(record)
    assert torch.equal(torch.get_rng_state(), before)  # which is left as it was


def test_another_seed_gives_another_record(record):
    other = loop.run(SMALL.replace(seed=1))
    assert other["epochs"][0]["train_loss"] != record["epochs"][0]["train_loss"]


def test_a_network_learns():
    """Far above chance (10 %) within seconds: the labels belong to the pictures, the gradient to the loss."""
    config = SMALL.replace(augment="none", pool="lae(t0=1)", epochs=2, subset=None, eval_subset=None, lr=0.4)
    assert loop.run(config)["final"]["accuracy"] > 0.6


def test_a_diverging_run_is_a_record_and_json():
    record = loop.run(SMALL.replace(lr=1e30, schedule="constant", epochs=3))
    assert record["status"] == "diverged" and record["final"] == {}
    assert len(record["epochs"]) < 3 or record["epochs"][-1]["valid_loss"] is None
    json.dumps(record, allow_nan=False)


def test_progress_is_called_after_each_epoch():
    seen = []
    loop.run(
        SMALL.replace(eval_every=2, epochs=3),
        progress=lambda done, of, row: seen.append((done, of, "valid_error" in row)),
    )
    assert seen == [(1, 3, False), (2, 3, True), (3, 3, True)]


def test_accuracy_over_input_sizes():
    record = loop.run(SMALL.replace(input_sizes=[24, 32, 40]))
    table = record["input_sizes"]
    assert list(table) == ["zoom", "crop-zero", "crop-noise"]
    for accuracy in table.values():
        assert list(accuracy) == ["24", "32", "40"]
        assert accuracy["32"] == pytest.approx(record["final"]["accuracy"])  # the training size, untouched
    assert table["crop-zero"]["24"] == table["crop-noise"]["24"]  # nothing to pad


def test_the_temperatures_learning_rate_factor_moves_temperatures_alone_at_first():
    config = SMALL.replace(pool="lae(t0=4, train=one)", epochs=1, temperature_lr=0.0)
    assert loop.run(config)["pools"]["global_pool"]["temperature"] == pytest.approx([4.0], rel=1e-6)
    moved = [
        abs(math.log(loop.run(config.replace(temperature_lr=f))["pools"]["global_pool"]["temperature"][0] / 4))
        for f in (1.0, 10.0)
    ]
    assert moved[1] > 3 * moved[0] > 0


@pytest.mark.parametrize("change", [{"precision": "fp64"}, {"precision": "bf16"}, {"pool": "lae(t0=4, dtype=float16)"}])
def test_precisions(record, change):
    other = loop.run(SMALL.replace(epochs=1, **change))
    assert other["status"] == "finished" and torch.get_default_dtype() == torch.float32
    assert other["epochs"][0]["train_loss"] == pytest.approx(record["epochs"][0]["train_loss"], rel=0.2)


def test_fp16_scales_the_loss_and_resumes_with_its_scale(tmp_path, monkeypatch):
    """On a CPU with a scaler of its own, since Fabric has one for GPUs alone; the scale starts far too high."""

    def fabric(config):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)
        plugins = [MixedPrecision("16-mixed", "cpu", scaler), LightningEnvironment()]
        return Fabric(accelerator="cpu", devices=1, plugins=plugins)

    monkeypatch.setattr(loop, "_fabric", fabric)
    config = SMALL.replace(precision="fp16", subset=96, eval_subset=20)
    whole = loop.run(config)
    assert whole["status"] == "finished" and whole["epochs"][0]["gradient_norm"] is None  # steps were left out

    def stop(done, epochs, row):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        loop.run(config, checkpoint_dir=tmp_path, progress=stop)
    kept = checkpoint.load(tmp_path, config)
    assert kept is not None and kept["precision"]["scale"] < 2.0**30
    assert outcome(loop.run(config, checkpoint_dir=tmp_path)) == outcome(whole)


@pytest.mark.parametrize(
    "change",
    [
        {"network": "pyramidnet", "width": 9, "tail": "bn-pool-bn-relu", "last_activation": "relu", "decay_norm": True},
        {"network": "mxresnet", "depth": 10, "width": 0.125, "stem_stride": 2, "augment": "resize-crop",
         "optimiser": "ranger", "schedule": "flat-cosine", "lr": 0.004, "label_smoothing": 0.1, "valid_crop": 0.8,
         "lookahead_steps": 5, "lookahead_alpha": 0.8, "pool": "mixed(bounds=unit)"},
        {"squeeze": "lae(train=one)", "fold": 1, "schedule": "step", "augment": "autoaugment", "fill": 128,
         "cutout": 16, "decay_slopes": True},
    ],
)  # fmt: skip
def test_the_other_networks_and_recipes_run(change):
    record = loop.run(SMALL.replace(epochs=1, **change))
    assert record["status"] == "finished"
    if "squeeze" in change:
        assert len(record["pools"]) == 4  # three blocks and the global one


RANGER = {"optimiser": "ranger", "lr": 0.004}


@pytest.mark.parametrize(
    ("base", "change"),
    [
        ({"augment": "autoaugment"}, {"fill": 128}),
        ({}, {"cutout": 16}),
        ({"augment": "resize-crop"}, {"valid_crop": 0.5}),
        ({"weight_decay": 0.5}, {"decay_slopes": True}),
        (RANGER, {"lookahead_steps": 2}),
        (RANGER | {"lookahead_steps": 2}, {"lookahead_alpha": 0.1}),
        ({"pool": "mixed"}, {"pool": "mixed(bounds=unit)"}),
    ],
)
def test_every_choice_reaches_the_run(base, change):
    first = SMALL.replace(epochs=1, **base)
    ends = [loop.run(config)["final"] for config in (first, first.replace(**change))]
    assert ends[0]["valid_loss"] != ends[1]["valid_loss"]
    assert (ends[0]["train_loss"] == ends[1]["train_loss"]) == ("valid_crop" in change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"recipe": RECIPE + 1}, "recipe"),
        ({"precision": "fp16", "device": "cpu"}, "precision = 'fp16'"),
        ({"subset": 20}, "batch = 32 is invalid; expected at most the 20"),
    ],
)
def test_what_cannot_run_is_refused_before_it_starts(change, says):
    with pytest.raises(ValueError, match=says):
        loop.run(SMALL.replace(**change))


# Data parallel: two processes against one, on a network without batch statistics, where they must agree to rounding.
PARALLEL = """
import json, sys
from torch import nn
from lae_core.training import loop, network
from lae_core.training.config import RunConfig
from lae_core.pooling import make_pool

class Plain(nn.Module):
    def __init__(self, pool):
        super().__init__()
        first, second = nn.Conv2d(3, 8, 3, 2), nn.Conv2d(8, 16, 3, 2)
        self.body = nn.Sequential(first, nn.GroupNorm(2, 8), nn.ReLU(), second, nn.ReLU())
        self.global_pool = make_pool(pool, 16)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc(self.global_pool(self.body(x)))

if sys.argv[1] == "plain":
    network.build = lambda config: Plain(config.pool)  # also in the spawned processes, which import this file

if __name__ == "__main__":
    config = RunConfig(depth=8, width=0.5, pool="lae(train=one)", data="digits", augment="autoaugment", epochs=2,
                       batch=32, subset=128, eval_subset=61, lr=0.05)
    print(json.dumps([loop.run(config.replace(processes=n), checkpoint_dir=sys.argv[2]) for n in (1, 2)]))
"""


def parallel(tmp_path, kind: str) -> list[dict]:
    script = tmp_path / "parallel.py"
    script.write_text(PARALLEL)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, script, kind, tmp_path / "checkpoints"],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_two_processes_equal_one(tmp_path):
    one, two = parallel(tmp_path, "plain")
    for a, b in zip(one["epochs"], two["epochs"], strict=True):
        for name in ("train_loss", "valid_loss", "train_error", "valid_error", "gradient_norm"):
            assert a[name] == pytest.approx(b[name], rel=2e-4), name
        assert a["temperatures"]["global_pool"]["mean"] == pytest.approx(
            b["temperatures"]["global_pool"]["mean"], rel=1e-4
        )
    assert {path.suffix for path in (tmp_path / "checkpoints").iterdir()} == {".ckpt"}


@pytest.mark.long
def test_two_processes_with_batch_norm_run_but_normalise_apart(tmp_path):
    one, two = parallel(tmp_path, "wrn")
    assert one["status"] == two["status"] == "finished"
    assert one["epochs"][0]["train_loss"] != pytest.approx(two["epochs"][0]["train_loss"], rel=1e-4)


def test_a_checkpoint_holds_no_code_and_foreign_files_are_refused(tmp_path):
    loop.run(SMALL.replace(epochs=1), checkpoint_dir=tmp_path)
    path = checkpoint.path_for(tmp_path, SMALL.replace(epochs=1))
    state = torch.load(path, weights_only=True)  # refuses anything but tensors and plain values
    assert {"config", "model", "optimiser", "rng", "state"} <= set(state)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="is not a checkpoint of this program; move it away"):
        loop.run(SMALL.replace(epochs=1), checkpoint_dir=tmp_path)
    torch.save(state | {"config": SMALL.to_dict()}, path)
    with pytest.raises(ValueError, match="belongs to another run"):
        loop.run(SMALL.replace(epochs=1), checkpoint_dir=tmp_path)


def test_a_very_narrow_network_trains_without_writing_outside_its_memory():
    """With a strided 1×1 convolution of 4 channels, torch 2.15 crashed in this very run."""
    config = RunConfig(
        depth=8, width=0.25, data="digits", subset=256, eval_subset=100, epochs=1, batch=64, augment="none"
    )
    assert loop.run(config)["status"] == "finished"
