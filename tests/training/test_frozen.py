"""Canvases, cached feature maps and frozen heads: reproducible, resumable, and alike where theory says so."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lae_core.training import features, frozen
from lae_core.training.canvases import Canvases, Portion, WholePictures
from lae_core.training.features import PART, feature_maps
from lae_core.training.frozen import FrozenConfig, Head

TINY = FrozenConfig(
    data="digits", distractors="digits", image_size=64, side=32, subset=64, parts=2, eval_subset=20, draws=2, epochs=1
)


class Counting(nn.Module):
    """A trunk of one convolution that counts the pictures it sees, and can stop after some."""

    def __init__(self, stop: int | None = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 32, 32)
        nn.init.constant_(self.conv.bias, 0.1)
        with torch.no_grad():
            self.conv.weight.copy_(torch.linspace(-0.02, 0.03, self.conv.weight.numel()).view_as(self.conv.weight))
        self.seen, self.stop = 0, stop

    def forward(self, x):
        self.seen += len(x)
        if self.stop is not None and self.seen > self.stop:
            raise KeyboardInterrupt
        return self.conv(x)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(features, "_trunk", lambda network, precision: Counting())
    forget()
    yield tmp_path / "cache"
    forget()


def forget():
    frozen._maps.cache_clear()
    frozen._pooled_once.cache_clear()


# ------------------------------------------------------------------------------------------- pictures


def test_parts_do_not_overlap_and_the_last_counts_from_the_end():
    parts = [Portion("digits", "train", k, 200).index for k in range(7)]
    assert len(torch.cat(parts).unique()) == 1400
    assert Portion("digits", "train", -1, 200).index.equal(parts[6])
    with pytest.raises(ValueError, match="part 7 of 200 pictures is invalid; expected one of the 7 parts"):
        _ = Portion("digits", "train", 7, 200).index


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 30), st.integers(1, 9), st.sampled_from([0.0, 0.5, 2.5]), st.integers(0, 3))
def test_a_canvas_does_not_depend_on_what_was_asked_before(start, count, clutter, seed):
    canvases = Canvases(Portion("digits", "train", 0, 20), 80, "digits", 32, clutter, 2, seed)
    assert len(canvases) == len(canvases.labels) == 40
    alone = canvases.batch(start, start + count)
    assert alone.equal(canvases.batch(0, 40)[start : start + count])
    assert alone.shape == (count, 3, 80, 80) and alone.dtype == torch.uint8


def test_without_clutter_the_object_lies_on_grey():
    canvases = Canvases(Portion("digits", "train", 0, 3), 64, "digits", 32, clutter=0.0)
    assert canvases.number == 0
    for i, (canvas, index) in enumerate(zip(canvases.batch(0, 3), canvases.portion.index, strict=True)):
        own = canvases.portion.pictures.one(int(index))
        places = canvas.unfold(1, 32, 1).unfold(2, 32, 1)
        found = (places == own[:, None, None]).all(-1).all(-1).all(0)
        assert found.sum() == 1 and found[canvases.corner(i)]
        assert (canvas == 127).sum() >= 3 * (64**2 - 32**2)


def test_clutter_counts_areas_and_seeds_differ():
    portion = Portion("digits", "train", 0, 4)
    assert [Canvases(portion, size).number for size in (96, 160)] == [6, 16]
    one, other = (Canvases(portion, 64, "digits", 32, seed=seed).batch(0, 4) for seed in (0, 1))
    assert not one.equal(other)
    with pytest.raises(ValueError, match="side = 70 is invalid"):
        Canvases(portion, 64, side=70)


# ---------------------------------------------------------------------------------------------- cache


def test_an_extraction_that_was_stopped_goes_on(cache, monkeypatch):
    def maps_by(trunk):
        monkeypatch.setattr(features, "_trunk", lambda *_: trunk)
        return feature_maps(pictures)

    pictures = WholePictures(Portion("digits", "train"), 32)
    stopped, again, third = Counting(stop=PART + 10), Counting(), Counting()
    with pytest.raises(KeyboardInterrupt):
        maps_by(stopped)
    maps = maps_by(again)
    assert again.seen == len(pictures) - PART and maps.shape == (len(pictures), 6, 1, 1)
    assert maps_by(third).equal(maps) and third.seen == 0
    (folder,) = cache.iterdir()
    (folder / f"{PART:06}.safetensors").write_bytes(b"damaged")
    assert maps_by(third).equal(maps) and third.seen == PART


def test_what_decides_the_maps_names_them(cache, monkeypatch):
    monkeypatch.setattr(features, "_trunk", lambda _, kind: Counting().to(features.PRECISIONS[kind][0]))
    portion = Portion("digits", "test", 0, 10)
    for pictures in (WholePictures(portion, 32), WholePictures(portion, 64), Canvases(portion, 64, "digits", 32)):
        for precision in features.PRECISIONS:
            feature_maps(pictures, precision=precision)
    assert len(list(cache.iterdir())) == 9
    with pytest.raises(ValueError, match="precision = 'fp8' is invalid; expected one of fp32, bf16, bf16-folded"):
        feature_maps(WholePictures(portion, 32), precision="fp8")


def test_a_missing_data_set_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("LAE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="run `lae data cifar10`"):
        frozen.run(FrozenConfig())


# ---------------------------------------------------------------------------------------------- heads


def head(pool: str, place: str, seed: int, channels: int = 5) -> Head:
    made = Head(pool, channels, 3, place)
    torch.manual_seed(seed)
    nn.init.normal_(made.linear.weight)
    nn.init.normal_(made.linear.bias)
    return made.double()


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**16), st.integers(1, 30))
def test_the_mean_of_scores_is_the_score_of_the_mean(seed, positions):
    """A linear head commutes with the mean: the average has no place."""
    maps = 3 * torch.randn(4, positions, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    torch.testing.assert_close(head("avg", "scores", seed)(maps), head("avg", "features", seed)(maps))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**16), st.integers(1, 30))
def test_lse_over_scores_gives_the_probabilities_of_lae(seed, positions):
    """T3: log n is added to each class alike."""
    maps = 3 * torch.randn(4, positions, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    lse, lae = (head(pool, "scores", seed)(maps).softmax(1) for pool in ("lse", "lae"))
    torch.testing.assert_close(lse, lae)


@pytest.mark.parametrize("place", ["features", "scores"])
@pytest.mark.parametrize("pool", ["avg", "max", "lae(train=one)"])
def test_the_same_config_gives_the_same_result(place, pool):
    config = TINY.replace(place=place, pool=pool, other_sizes=(96,))
    first = frozen.run(config)
    forget()
    assert frozen.run(config) == first
    assert first["status"] == "done" and 0 <= first["final"]["accuracy"] <= 1 and list(first["sizes"]) == ["96"]
    assert (first["temperature"] is None) == (not pool.startswith("lae"))
    assert frozen.run(config.replace(seed=1)) != first


def test_what_is_pooled_once_is_pooled_as_in_every_step(monkeypatch):
    """Kept vectors change nothing, whatever ran before: another place of the activation, another pool."""
    configs = [TINY.replace(activation=where, pool=pool) for where in ("after", "before") for pool in ("lae", "max")]
    kept = [frozen.run(config) for config in configs]
    assert len({result["final"]["loss"] for result in kept}) == 4
    monkeypatch.setattr(Head, "pools_once", False)
    for config, result in zip(configs, kept, strict=True):
        assert frozen.run(config)["final"] == pytest.approx(result["final"], rel=1e-5)


def test_training_learns(monkeypatch):
    """Digits on random features: far better than guessing, by either place."""
    torch.manual_seed(0)
    trunk = nn.Conv2d(3, 48, 16, 16).requires_grad_(False)
    nn.init.normal_(trunk.weight, std=0.1)
    monkeypatch.setattr(features, "_trunk", lambda network, precision: trunk)
    config = TINY.replace(side=None, image_size=32, subset=700, parts=1, eval_subset=300, epochs=10, lr=0.03)
    for place in ("features", "scores"):
        assert frozen.run(config.replace(place=place, pool="lae"))["final"]["accuracy"] > 0.5


def test_folds_never_see_test_pictures():
    config = TINY.replace(fold=1)
    parts = [part.portion for part in config.train_pictures()]
    assert [(p.split, p.number) for p in parts] == [("train", 1), ("train", 2)]
    held_out = config.test_pictures().portion
    assert held_out.split == "train" and not set(held_out.index.tolist()) & set(
        torch.cat([part.index for part in parts]).tolist()
    )
    with pytest.raises(ValueError, match="seed = 43 is invalid; expected no more than the 43 parts of 32 pictures"):
        TINY.replace(seed=43).train_pictures()


def test_parts_are_drawn_by_the_seed():
    drawn = {seed: [p.portion.number for p in TINY.replace(among=6, seed=seed).train_pictures()] for seed in range(20)}
    assert all(len(set(numbers)) == 2 and max(numbers) < 6 for numbers in drawn.values())
    assert len({tuple(sorted(numbers)) for numbers in drawn.values()}) > 8


def test_configs_survive_the_round_trip_and_name_themselves():
    assert FrozenConfig.from_dict(TINY.to_dict()) == TINY
    keys = {TINY.key(), TINY.replace(seed=1).key(), TINY.replace(pool="lae").key(), FrozenConfig().key()}
    assert len(keys) == 4 and TINY.replace(pool="lae(t0=1)").key() == TINY.replace(pool="lae").key()
    with pytest.raises(ValueError, match="no field 'depth'"):
        FrozenConfig.from_dict({"depth": 3})


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("place", "logits", "one of features, scores"),
        ("data", "mnist", "one of digits"),
        ("epochs", 0, "at least 1: the network's own head knows Imagenette's classes alone"),
        ("parts", 3, "a divisor of subset = 64"),
        ("among", 1, "at least parts, or None"),
        ("lr", 0.0, "a finite number above 0"),
        ("in_spreads", True, "False but for LAE at a fixed temperature"),
        ("side", 65, "at most image_size, or None"),
    ],
)
def test_bad_fields_say_what_is_expected(field, value, expected):
    with pytest.raises(ValueError, match=f"FrozenConfig: {field} = .* is invalid; expected {expected}"):
        TINY.replace(**{field: value})
