"""The benchmark compares like with like, and its parts run. What it measures is reported, never asserted."""

import json
from types import SimpleNamespace

import pytest
import torch

from lae_core.bench import timing, training
from lae_core.bench.textbook import ResNet
from lae_core.cli import main
from lae_core.models import WRN
from lae_core.training.recipes import recipe


def test_the_textbooks_network_computes_the_same_as_ours():
    torch.manual_seed(0)
    ours, theirs = WRN(14, 2).eval(), ResNet(2, 2).eval()
    state, names = ours.state_dict(), list(theirs.state_dict())
    assert len(state) == len(names)
    with torch.no_grad():
        for value in state.values():
            if value.is_floating_point():  # no BN at 0 or 1, so that a part in the wrong place shows
                value.copy_(torch.rand_like(value) * 0.2 + (0.5 if value.ndim == 1 else -0.1))
    theirs.load_state_dict(dict(zip(names, state.values(), strict=True)))
    x = torch.randn(3, 3, 32, 32)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)


def test_bench_runs_and_writes_what_it_found(tmp_path, capsys):
    threads = torch.get_num_threads()
    file = tmp_path / "bench.json"
    words = (
        "bench training --rounds 1 --pictures 128 --accuracy --seeds 2 --epochs 1 --subset 128 --full-epochs 0 --json"
    )
    assert main([*words.split(), str(file)]) == 0
    torch.set_num_threads(threads)
    result = json.loads(file.read_text())
    assert [row["view"] for row in result["augmentation"]] == ["autoaugment", "resize-crop"]
    assert all(row["ratio"] == pytest.approx(row["torchvision"] / row["ours"]) for row in result["augmentation"])
    assert [(of["recipe"], of["augment"]) for of in result["recipes"]] == [
        (name, view) for name in ("minute", "ten", "half-hour") for view in ("flip-crop", "autoaugment")
    ]
    assert set(result["recipes"][1]["ratio"]) == {"plain PyTorch", "timm"}
    assert all(0 < of["share_of_peak"] < 1 for of in result["recipes"])
    several = result["accuracy"]["2 seeds"]
    assert len(several["accuracy"]["ours"]) == 2 and several["standard_error"] >= 0
    assert result["provenance"]["cpu"]
    assert "pictures per CPU-second" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("pictures", "batch", "micro_batch"), [(128, 128, None), (512, 500, None), (1000, 1000, 500), (2600, 1000, 500)]
)
def test_any_number_of_pictures_makes_whole_batches(pictures, batch, micro_batch):
    config = training.in_whole_batches(recipe("ten"), pictures)
    assert (config.batch, config.micro_batch) == (batch, micro_batch)
    assert config.subset % batch == 0 and pictures - batch < config.subset <= pictures


def test_bench_names_the_command_when_data_are_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LAE_DATA", str(tmp_path))
    assert main(["bench", "training", "--data", "cifar10"]) == 1
    assert "lae data cifar10" in capsys.readouterr().err


def test_bench_refuses_more_pictures_than_there_are(capsys):
    assert main(["bench", "training", "--pictures", "5000"]) == 2
    assert "--pictures = 5000 is invalid; expected at most 1438 for digits" in capsys.readouterr().err


def test_best_of_takes_the_best_round_and_leaves_out_the_first(monkeypatch):
    moments = iter([0, 1, 5, 8, 10, 12])  # by this clock the rounds take 1, 3 and 2
    monkeypatch.setattr(timing, "time", SimpleNamespace(process_time=lambda: next(moments)))
    assert timing.best_of({"work": lambda: None}, 2) == {"work": 2}
