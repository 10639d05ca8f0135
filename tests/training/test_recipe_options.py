"""The options of the short recipes: whitening, padding, mirroring, picture sizes, partial batches, checkpoints."""

import pytest
import torch
from same_record import outcome
from torch import nn
from torch.nn import functional as F

from lae_core.models.whiten import whiten_first_convolution
from lae_core.pooling import make_pool
from lae_core.training import augment, loop, network
from lae_core.training.config import RunConfig

SPEED = RunConfig(
    network="speed", depth=8, width=0.125, data="digits", subset=128, eval_subset=60, epochs=2, batch=32,
    augment="flip-crop", pad=2, pad_mode="reflect", flip="alternate", whiten=True, optimiser="muon", lr=0.2,
    momentum=0.85, nesterov=True, loss="sum", vector_lr=0.22, head_lr=2.8, pool="lae(train=one)",
    temperature_lr=0.02, schedule="ramp", ramp_up=0.0, label_smoothing=0.2,
)  # fmt: skip


class Plain(nn.Module):
    """Without batch statistics: a batch in parts is the same as in one."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2))
        self.global_pool = make_pool(config.pool, 16)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc(self.global_pool(self.body(x)))


@pytest.mark.parametrize("kernel", [(2, 1, 0, 24), (4, 2, 1, 32), (3, 1, 1, 16)])
def test_a_whitened_convolution_gives_uncorrelated_channels_of_variance_one(kernel):
    size, stride, pad, filters = kernel
    torch.manual_seed(0)
    mixed = torch.randn(300, 3, 20, 20)
    pictures = F.avg_pool2d(mixed + 0.7 * mixed[:, [1, 2, 0]], 3, 1)  # neighbours and colours hang together
    conv = nn.Conv2d(3, filters, size, stride, pad)
    model = nn.Sequential(conv, nn.ReLU())
    whiten_first_convolution(model, pictures)
    pairs = min(3 * size * size, filters // 2)
    patches = F.unfold(pictures, size, stride=size).transpose(1, 2).flatten(0, 1)
    seen = patches @ conv.weight[:pairs].flatten(1).T
    covariance = torch.cov(seen.T)
    # exactly var / (var + FLOOR) on the diagonal, which is below 1 where a component hardly occurs
    assert (covariance - torch.diag(covariance.diagonal())).abs().max() < 1e-3
    assert 0.9 < covariance.diagonal()[0] < 1.001 and covariance.diagonal().max() < 1.001
    torch.testing.assert_close(conv.weight[pairs : 2 * pairs], -conv.weight[:pairs])
    assert not conv.weight.requires_grad


def test_whitened_filters_are_not_trained():
    session = loop.Session(SPEED)
    before = session.network.stem[0].weight.clone()
    session.epoch(0)
    assert torch.equal(session.network.stem[0].weight, before)


@pytest.mark.parametrize(("mode", "torch_mode"), [("zero", "constant"), ("reflect", "reflect")])
def test_padding_is_torchs(mode, torch_mode):
    images = torch.randint(0, 256, (50, 3, 12, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    uniforms = torch.rand(50, 3, generator=torch.Generator().manual_seed(1)).double()
    pad = 3
    ours = augment.crop_flip(images, uniforms, pad, mode)
    padded = F.pad(images.float(), (pad,) * 4, torch_mode).to(torch.uint8)
    for i in range(50):
        top, left = (int(uniforms[i, k] * (2 * pad + 1)) for k in (0, 1))
        cut = padded[i, :, top : top + 12, left : left + 16]
        assert torch.equal(ours[i], cut.flip(2) if uniforms[i, 2] < 0.5 else cut)


def test_alternating_flips_show_each_picture_both_ways_in_two_epochs():
    session = loop.Session(SPEED.replace(pad=0, pad_mode="zero", pool="avg", temperature_lr=1.0))
    seen: list[dict[int, torch.Tensor]] = []
    view = session.view

    def watch(rows, uniforms):
        pictures = view(rows, uniforms)
        seen[-1] |= {int(row): picture for row, picture in zip(rows, pictures, strict=True)}
        return pictures

    session.view = watch
    for number in range(3):
        seen.append({})
        session.epoch(number)
    for row, picture in seen[0].items():
        assert torch.equal(seen[1][row], picture.flip(2)) and torch.equal(seen[2][row], picture)
    assert 0.3 < torch.stack([session.mirrored_first[row].float() for row in seen[0]]).mean() < 0.7


@pytest.mark.parametrize("changes", [{}, {"augment": "resize-crop", "pad": 4, "pad_mode": "zero"}])
def test_early_pictures_are_small_and_late_ones_are_not(changes):
    session = loop.Session(SPEED.replace(early_size=24, early_share=0.75, **changes))
    sizes: list[int] = []
    session.network.register_forward_pre_hook(lambda module, inputs: sizes.append(inputs[0].shape[-1]))
    for number in range(2):
        session.epoch(number)
    assert sizes == [24] * 6 + [32] * 2


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr(network, "build", Plain)
    return RunConfig(depth=8, width=1, data="digits", subset=128, eval_subset=60, epochs=1, batch=64,
                     precision="fp64", augment="flip-crop", schedule="constant", lr=0.1)  # fmt: skip


def test_a_batch_in_parts_is_the_batch(plain):
    whole, parts = (loop.run(plain.replace(micro_batch=micro)) for micro in (None, 16))
    for name in ("train_loss", "train_error", "gradient_norm", "valid_loss"):
        assert parts["epochs"][0][name] == pytest.approx(whole["epochs"][0][name], rel=1e-6), name


def test_a_summed_loss_is_the_mean_with_the_rate_times_the_batch(plain):
    options = {"weight_decay": 0.0}
    mean = loop.run(plain.replace(**options))
    summed = loop.run(plain.replace(loss="sum", lr=0.1 / 64, **options))
    assert summed["epochs"][0]["train_loss"] == pytest.approx(mean["epochs"][0]["train_loss"], rel=1e-6)
    assert summed["epochs"][0]["gradient_norm"] == pytest.approx(64 * mean["epochs"][0]["gradient_norm"], rel=1e-6)
    assert summed["epochs"][0]["valid_loss"] == pytest.approx(mean["epochs"][0]["valid_loss"], rel=1e-6)


def test_nesterov_looks_ahead(plain):
    ahead = loop.run(plain.replace(nesterov=True))["epochs"][0]["valid_loss"]
    assert ahead != loop.run(plain)["epochs"][0]["valid_loss"]


@pytest.mark.parametrize("at", [1, 3, 6])
def test_a_run_stopped_within_an_epoch_ends_in_the_same_record(tmp_path, monkeypatch, at):
    """A checkpoint after every step; the run is stopped before its step number `at`, then started again."""
    undisturbed = loop.run(SPEED)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    steps = 0
    whole = loop.Session._accumulate

    def stop(self, *rest):
        nonlocal steps
        if steps == at:
            steps += 1
            raise KeyboardInterrupt
        steps += 1
        return whole(self, *rest)

    monkeypatch.setattr(loop.Session, "_accumulate", stop)
    with pytest.raises(KeyboardInterrupt):
        loop.run(SPEED, checkpoint_dir=tmp_path)
    resumed = loop.run(SPEED, checkpoint_dir=tmp_path)
    assert steps == 1 + 2 * (128 // 32)  # no step was made twice
    assert outcome(resumed) == outcome(undisturbed)


def test_a_run_stopped_after_the_last_step_of_an_epoch_ends_in_the_same_record(tmp_path, monkeypatch):
    undisturbed = loop.run(SPEED)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)

    def stop(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop.Session, "validate", stop)
        with pytest.raises(KeyboardInterrupt):
            loop.run(SPEED, checkpoint_dir=tmp_path)
    assert outcome(loop.run(SPEED, checkpoint_dir=tmp_path)) == outcome(undisturbed)


def test_the_spread_that_the_pool_sees_is_recorded():
    for row in loop.run(SPEED)["epochs"]:
        assert 0 < row["spread"] < 100


def test_squeeze_and_excitation_in_the_speed_network():
    record = loop.run(SPEED.replace(squeeze="lae(train=one)", epochs=1))
    assert record["status"] == "finished" and len(record["pools"]) == 4


@pytest.mark.parametrize(("strides", "positions"), [((), 9), ((2, 2, 1), 49)])
def test_positions_of_the_speed_network(strides, positions):
    facts = network.measure(network.build(SPEED.replace(strides=strides)), 32)
    assert facts["pooled_positions"] == positions


def test_a_patch_stem_and_strides_of_wrn():
    config = RunConfig(depth=8, width=2, stem="patch", strides=(1, 2, 1), zero_init=False)
    model = network.build(config)
    assert network.measure(model, 32)["pooled_positions"] == 64
    assert all(float(m.weight.detach().min()) == 1 for m in model.modules() if isinstance(m, nn.BatchNorm2d))
