"""The networks have the paper's sizes, and each of their unusual parts does what it is described to do."""

import itertools
import math

import pytest
import torch
from torch import nn

from lae_core.models import WRN, MXResNet, PyramidNet, ShakeDrop, SqueezeExcite
from lae_core.models.mxresnet import SelfAttention
from lae_core.models.prelu import PReLU
from lae_core.models.wrn import Block

POOLS = [
    "avg",
    "max",
    "lse",
    "lae(t0=4)",
    "lae(train=one)",
    "lae(train=channel)",
    "lae(train=context)",
    "gated",
    "mixed",
]


def count(make) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in make().parameters())


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (lambda: WRN(18, 6, last_activation="relu"), 6_173_466),
        (lambda: WRN(18, 6), 6_173_466 + 6),  # one slope a block
        (lambda: PyramidNet(110, 200), 16_676_730),
        (lambda: PyramidNet(110, 270), 28_485_493),
        (lambda: MXResNet(50), 23_641_003),
        (lambda: MXResNet(18), 11_232_683),
    ],
)
def test_parameter_counts_are_the_papers(make, parameters):
    assert count(make) == parameters


def test_a_pool_of_one_temperature_a_channel_adds_that_many_parameters():
    assert count(lambda: WRN(pool="lae(train=channel)")) == count(WRN) + 384
    assert count(lambda: WRN(pool="lae(t0=4)")) == count(WRN)


def pooled_positions(model: nn.Module, size: int) -> int:
    seen = []
    model.global_pool.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape[2:].numel()))
    model.eval()(torch.zeros(1, 3, size, size))
    return seen[0]


def test_every_size_pools_over_sixteen_or_sixty_four_positions():
    assert pooled_positions(WRN(8, 1), 32) == 64
    assert pooled_positions(PyramidNet(8, 8), 32) == 64
    assert pooled_positions(MXResNet(10, 0.125), 128) == 16
    assert pooled_positions(MXResNet(10, 0.125), 256) == 64
    assert pooled_positions(MXResNet(10, 0.125, stem_stride=2), 64) == 16


NETWORKS = {
    "wrn": lambda pool: WRN(8, 0.5, 7, pool),
    "wrn-se": lambda pool: WRN(8, 0.5, 7, pool, squeeze=pool, squeeze_ratio=4),
    "wrn-se-shortcut": lambda pool: WRN(8, 0.5, 7, pool, squeeze=pool, squeeze_place="shortcut"),
    "pyramidnet": lambda pool: PyramidNet(8, 9, 7, pool),
    "pyramidnet-late": lambda pool: PyramidNet(8, 9, 7, pool, tail="bn-pool-bn-relu", last_activation="prelu"),
    "mxresnet": lambda pool: MXResNet(10, 0.125, 7, pool, stem_stride=2),
    "mxresnet-50": lambda pool: MXResNet(50, 0.0625, 7, pool),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("pool", POOLS)
def test_every_network_trains_with_every_pool(name, pool):
    torch.manual_seed(0)
    model = NETWORKS[name](pool)
    logits = model(torch.randn(4, 3, 32, 40))
    assert logits.shape == (4, 7)
    logits.square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name


def test_wrn_has_the_papers_widths_and_two_blocks_a_stage():
    with torch.device("meta"):
        blocks = WRN(18, 6).stages
    assert [b.residual[0].out_channels for b in blocks] == [96, 96, 192, 192, 384, 384]
    assert [b.residual[0].stride[0] for b in blocks] == [1, 1, 2, 1, 2, 1]


def test_a_fresh_wrn_block_passes_its_shortcut():
    block = Block(8, 8, 1, "prelu", None, 16, "residual", zero_init=True)
    x = torch.randn(3, 8, 5, 5)
    torch.testing.assert_close(block(x), torch.nn.functional.prelu(x, torch.tensor([0.25])))


def test_prelu_equals_torchs():
    ours, theirs = PReLU().double(), nn.PReLU().double()
    x = torch.randn(6, 4, 3, 3, dtype=torch.float64)
    x[0, 0, 0, 0] = 0.0
    grad = torch.randn_like(x)
    found = []
    for module in (ours, theirs):
        here = x.clone().requires_grad_()
        y = module(here)
        y.backward(grad)
        found.append((y.detach(), here.grad, module.weight.grad))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-14, atol=1e-14)
    ours.load_state_dict(theirs.state_dict())


def test_squeeze_excite_is_its_formula():
    torch.manual_seed(0)
    block = SqueezeExcite(32, "avg", 4)
    x = torch.randn(2, 32, 5, 5)
    w1, b1, w2, b2 = block.gate.parameters()
    hidden = (x.mean((2, 3)) @ w1.T + b1).relu()
    assert hidden.shape == (2, 8)
    expected = x * torch.sigmoid(hidden @ w2.T + b2)[:, :, None, None]
    torch.testing.assert_close(block(x), expected)


def test_squeeze_pool_is_the_one_asked_for():
    x = torch.randn(2, 16, 5, 5)
    torch.manual_seed(0)
    average = SqueezeExcite(16, "avg")
    torch.manual_seed(0)
    maximum = SqueezeExcite(16, "max")
    assert not torch.allclose(average(x), maximum(x))
    flat = x[:, :, :1, :1].expand(-1, -1, 5, 5)  # a constant picture pools to the same by both
    torch.testing.assert_close(average(flat), maximum(flat))


def test_shakedrop_scales_each_sample_forward_and_backward():
    torch.manual_seed(0)
    drop = ShakeDrop(0.0)  # never kept whole
    x = torch.randn(64, 3, 4, 4).requires_grad_()
    y = drop(x)
    y.backward(torch.ones_like(y))
    alpha, beta = (y / x).flatten(1), x.grad.flatten(1)
    for factor, low in ((alpha, -1), (beta, 0)):
        torch.testing.assert_close(factor, factor[:, :1].expand_as(factor))  # one number a sample
        assert (factor >= low).all() and (factor <= 1).all()
        assert factor[:, 0].std() > 0.1  # another for each sample
    assert (alpha[:, 0] < 0).any()
    assert not torch.allclose(alpha[:, 0], beta[:, 0])


def test_shakedrop_keeps_whole_batches_with_its_probability_and_evaluates_to_the_mean():
    torch.manual_seed(0)
    drop, x = ShakeDrop(0.7), torch.ones(8, 1, 1, 1)
    outputs = torch.stack([drop(x) for _ in range(3000)]).flatten(1)
    whole = (outputs == 1).all(1)
    assert torch.equal(whole, (outputs == 1).any(1))  # all of a batch or none
    assert abs(whole.double().mean() - 0.7) < 4 * math.sqrt(0.21 / 3000)
    assert abs(outputs.mean() - 0.7) < 0.05
    torch.testing.assert_close(drop.eval()(x), torch.full_like(x, 0.7))


def test_pyramidnet_widens_evenly_and_drops_linearly():
    with torch.device("meta"):
        model = PyramidNet(110, 200)
    assert len(model.blocks) == 54
    widths = [b.branch[1].out_channels for b in model.blocks]
    assert widths[:3] == [20, 24, 28] and widths[-1] == 216  # 16 + ceil(200 i / 54)
    survivals = [b.branch[-1].survival for b in model.blocks]
    assert survivals[0] == pytest.approx(1 - 0.5 / 54) and survivals[-1] == pytest.approx(0.5)
    steps = [a - b for a, b in itertools.pairwise(survivals)]
    assert steps == pytest.approx([0.5 / 54] * 53)


def test_pyramidnet_tails_put_the_activation_before_or_after_the_pool():
    torch.manual_seed(0)
    early = PyramidNet(8, 9, pool="avg").eval()
    late = PyramidNet(8, 9, pool="avg", tail="bn-pool-bn-relu").eval()
    x = torch.randn(2, 3, 32, 32)
    pooled = []
    for model in (early, late):
        model.global_pool.register_forward_hook(lambda module, inputs, output: pooled.append((inputs[0], output)))
        model(x)
    assert (pooled[0][0] >= 0).all()
    assert (pooled[1][0] < 0).any()
    assert [type(m) for m in late.after] == [nn.BatchNorm1d, nn.ReLU]


def test_pyramidnet_shortcut_pads_with_zero_channels():
    block = PyramidNet(14, 30).blocks[0].eval()
    nn.init.zeros_(block.branch[-2].weight)  # the last BN: silence the branch
    x = torch.randn(2, 16, 4, 4)
    y = block(x)
    torch.testing.assert_close(y[:, :16], x)
    assert y.shape[1] == 21 and (y[:, 16:] == 0).all()


def test_self_attention_is_its_formula_and_starts_silent():
    torch.manual_seed(0)
    layer = SelfAttention(6).eval()
    x = torch.randn(2, 6, 3, 5)
    torch.testing.assert_close(layer(x), x)
    nn.init.constant_(layer.gamma, 0.3)
    weight = layer.conv.weight.squeeze(-1)
    expected = x.clone()
    for b in range(2):
        z = x[b].reshape(6, 15)
        expected[b] += 0.3 * ((z @ z.T) @ (weight @ z)).reshape(6, 3, 5)
    torch.testing.assert_close(layer(x), expected)


def test_self_attention_weight_has_spectral_norm_one():
    torch.manual_seed(0)
    layer = SelfAttention(16)
    for _ in range(200):  # the power iteration goes on with each training pass
        layer(torch.randn(1, 16, 2, 2))
    assert torch.linalg.matrix_norm(layer.eval().conv.weight.squeeze(-1), 2).item() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("depth", "last"), [(18, 1), (50, 2)])
def test_mxresnet_attends_once_in_the_last_block_of_the_first_group(depth, last):
    with torch.device("meta"):
        model = MXResNet(depth)
        without = MXResNet(depth, attention=False)
    places = [i for i, block in enumerate(model.groups) if any(isinstance(m, SelfAttention) for m in block.modules())]
    assert places == [last]
    assert isinstance(model.groups[last].residual[-1], SelfAttention)
    assert not any(isinstance(m, SelfAttention) for m in without.modules())


def test_mxresnet_pools_its_shortcut_and_uses_mish():
    model = MXResNet(18, 0.25)
    halving = [b for b in model.groups if b.residual[0][0].stride == (2, 2)]
    assert len(halving) == 3 and all(isinstance(b.shortcut[0], nn.AvgPool2d) for b in halving)
    assert not any(isinstance(m, nn.ReLU) for m in model.modules())
    assert all((b.residual[1][1].weight == 0).all() for b in model.groups)
