"""LogAvgExp over windows: shapes and limits of torch's own pools, exactness, derivatives, compiled and exported."""

import math

import pytest
import torch
from backends import each_backend
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from lae_core import LogAvgExpPool1d, LogAvgExpPool2d, LogAvgExpPool3d, logavgexp, weight_decay_groups
from lae_core.pooling import windows

settings.register_profile("lae", deadline=None, max_examples=60)
settings.load_profile("lae")
OURS = (LogAvgExpPool1d, LogAvgExpPool2d, LogAvgExpPool3d)
AVERAGE = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
MAXIMUM = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)


def randn(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


@st.composite
def arguments(draw):
    count = draw(st.integers(1, 3))
    size = tuple(draw(st.integers(1, 9)) for _ in range(count))
    kernel = tuple(draw(st.integers(1, 4)) for _ in range(count))
    stride = draw(st.one_of(st.none(), st.integers(1, 4), st.tuples(*[st.integers(1, 4)] * count)))
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    assume(all(s + 2 * p >= k for s, k, p in zip(size, kernel, padding, strict=True)))
    leading = draw(st.sampled_from([(3,), (2, 3)]))
    return randn(*leading, *size, seed=draw(st.integers(0, 999))), kernel, stride, padding, draw(st.booleans())


def average_without_padding(z, kernel, stride, padding, ceil_mode):
    if z.dim() == len(kernel) + 1:
        return average_without_padding(z[None], kernel, stride, padding, ceil_mode)[0]
    pool = AVERAGE[len(kernel) - 1](kernel, stride, padding, ceil_mode, count_include_pad=False)
    return pool(z)


@given(arguments())
def test_the_limits_are_the_pools_of_torch(given):
    z, kernel, stride, padding, ceil_mode = given
    # torch's average of three dimensions refuses windows larger than the input
    assume(len(kernel) < 3 or all(s >= k for s, k in zip(z.shape[-3:], kernel, strict=True)))
    ours, maximum = OURS[len(kernel) - 1], MAXIMUM[len(kernel) - 1](kernel, stride, padding, ceil_mode=ceil_mode)
    low, high = (ours(kernel, stride, padding, ceil_mode, t0=t0)(z) for t0 in (1e-9, 1e9))
    assert low.shape == high.shape == maximum(z).shape
    torch.testing.assert_close(low, maximum(z), rtol=0, atol=1e-7)
    torch.testing.assert_close(high, average_without_padding(*given), rtol=0, atol=1e-7)


@given(arguments(), st.floats(-3, 6).map(lambda e: 10.0**e))
def test_each_window_is_pooled_as_it_is_alone(given, t):
    """The windows by another way: padded, with a mask; each value and gradient."""
    z, kernel, stride, padding, ceil_mode = given
    pool = OURS[len(kernel) - 1](kernel, stride, padding, ceil_mode, t0=t).double()
    sizes = list(zip(z.shape[-len(kernel) :], pool.kernel_size, pool.stride, pool.padding, strict=True))
    found = []
    for way in (pool, lambda z: windows._padded(z, pool.temperature, sizes, ceil_mode)):
        leaf = z.clone().requires_grad_()
        value = way(leaf)
        found.append((value, *torch.autograd.grad(value.square().sum(), leaf)))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


def test_a_window_is_the_operator_on_it():
    z, pool = randn(2, 3, 7, 8, dtype=torch.float32), LogAvgExpPool2d(3, 2, 1, t0=1e5, train="channel", channels=3)
    with torch.no_grad():
        pool.log_t.copy_(torch.tensor([-3.0, 1.0, 11.0]))
    value = pool(z)
    for i in range(4):
        for j in range(4):
            rows, columns = (slice(max(2 * k - 1, 0), 2 * k + 2) for k in (i, j))
            alone = logavgexp(z[:, :, rows, columns], pool.temperature, dim=(2, 3))
            torch.testing.assert_close(value[:, :, i, j], alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_constants_come_out_as_they_are(dtype):
    z = torch.full((2, 3, 7, 7), 0.7, dtype=dtype)
    for t0 in (1e-3, 1.0, 1e6):
        value = LogAvgExpPool2d(3, 2, 1, t0=t0)(z)
        assert value.dtype == dtype and (value == z[0, 0, 0, 0]).all()


def test_windows_without_anything_finite():
    z = torch.full((1, 1, 6), -math.inf)
    z[0, 0, 4], z[0, 0, 5] = math.nan, 0.0
    z.requires_grad_()
    value = LogAvgExpPool1d(2)(z)
    assert value.tolist()[0][0][:2] == [-math.inf, -math.inf] and value[0, 0, 2].isnan()
    assert not torch.autograd.grad(value[0, 0, :2].sum(), z)[0][..., :4].any()


@pytest.mark.parametrize("positions", [1, 2, 3])
def test_first_and_second_derivatives(positions):
    pool = OURS[positions - 1](3, 2, 1, train="channel", channels=2).double()
    z = randn(1, 2, *(4,) * positions).requires_grad_()

    def operator(z, log_t):
        return torch.func.functional_call(pool, {"log_t": log_t}, (z,))

    log_t = torch.tensor([-0.5, 1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(operator, (z, log_t))
    if positions < 3:
        assert torch.autograd.gradgradcheck(operator, (z, log_t))
        hessian = torch.func.hessian(lambda z: operator(z, log_t).square().sum())
        assert hessian(z).shape == (*z.shape, *z.shape)


@each_backend
@pytest.mark.parametrize("positions", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_compiles_whole(positions, backend):
    torch._dynamo.reset()
    pool = OURS[positions - 1](3, 2, 1, ceil_mode=True, t0=0.5, train="one")
    z = randn(2, 3, *(8,) * positions, dtype=torch.float32).requires_grad_()
    values = torch.compile(pool, fullgraph=True, backend=backend)(z), pool(z)
    torch.testing.assert_close(*values)
    grads = (torch.autograd.grad(value.square().sum(), (z, pool.log_t)) for value in values)
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", [0, 1])
def test_exports_for_maps_of_any_size(padding):
    pool = LogAvgExpPool2d(3, 2, padding, t0=0.5, train="one")
    sizes = {0: torch.export.Dim("batch"), 2: torch.export.Dim("height", min=6), 3: torch.export.Dim("width", min=6)}
    given = randn(2, 3, 9, 8, dtype=torch.float32)
    exported = torch.export.export(pool, (given,), dynamic_shapes=(sizes,)).module()
    for shape in ((2, 3, 9, 8), (5, 3, 14, 27)):
        other = randn(*shape, dtype=torch.float32, seed=3)
        torch.testing.assert_close(exported(other), pool(other))


def test_in_the_place_of_the_pools_of_a_network():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        LogAvgExpPool2d(2, t0=0.5, train="channel", channels=8),
        nn.Flatten(),
        nn.Linear(128, 4),
    )
    groups = {group["name"]: group for group in weight_decay_groups(network, 0.1)}
    assert [id(p) for p in groups["temperature"]["params"]] == [id(network[1].log_t)]
    images, labels = torch.randn(16, 3, 8, 8), torch.arange(16) % 4
    optimiser = torch.optim.Adam(list(groups.values()), lr=0.03)
    losses = []
    for _ in range(30):
        loss = nn.functional.cross_entropy(network(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0] and network[1].temperature.std() > 0
    again = LogAvgExpPool2d(2, train="channel", channels=8)
    again.load_state_dict(network[1].state_dict())
    assert torch.equal(again.temperature, network[1].temperature)


def test_a_pool_prints_its_arguments():
    shown = repr(LogAvgExpPool2d(3, 2, 1, t0=0.2))
    assert shown == "LogAvgExpPool2d(kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), t=0.2, r=5, fixed)"
    assert "ceil_mode=True" in repr(LogAvgExpPool1d(3, ceil_mode=True))
    assert "(4 channels), trained" in repr(LogAvgExpPool1d(3, train="channel", channels=4))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kernel_size": 0}, "kernel_size = 0 is invalid; expected a whole number of at least 1, or 2 of them"),
        ({"kernel_size": (2, 2, 2)}, r"kernel_size = \(2, 2, 2\) is invalid"),
        ({"kernel_size": 2.5}, "kernel_size = 2.5 is invalid"),
        ({"stride": 0}, "stride = 0 is invalid; expected a whole number of at least 1"),
        ({"padding": -1}, "padding = -1 is invalid; expected a whole number of at least 0"),
        ({"padding": 2}, "padding = 2 is invalid for kernel_size = 3; expected at most half"),
        ({"t0": 0.0}, "t0 = 0.0 is invalid; expected a positive number"),
        ({"t0": "warm"}, "t0 = 'warm' is invalid"),
        ({"train": "all"}, "train = 'all' is invalid; expected one of no, one, channel"),
        ({"train": "channel"}, "channels = None is invalid for train = 'channel'"),
        ({"channels": 0}, "channels = 0 is invalid"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        LogAvgExpPool2d(**{"kernel_size": 3, **arguments})


def test_bad_inputs_are_refused():
    with pytest.raises(
        ValueError, match=r"shape \(5, 5\); expected \(batch, channels, height, width\) or \(channels, "
    ):
        LogAvgExpPool2d(3)(torch.zeros(5, 5))
    with pytest.raises(ValueError, match="size 2 in dimension 3; a window of 3 with padding 0 expects at least 3"):
        LogAvgExpPool2d(3)(torch.zeros(1, 1, 5, 2))
    with pytest.raises(ValueError, match=r"expected .batch, channels, length."):
        LogAvgExpPool1d(3)(torch.zeros(5))
    with pytest.raises(ValueError, match="batch, channels, depth, height, width"):
        LogAvgExpPool3d(3)(torch.zeros(5))
    for pool, shape in ((LogAvgExpPool2d(2), (2, 0, 8, 8)), (LogAvgExpPool2d(2, padding=1), (2, 3, 0, 8))):
        with pytest.raises(ValueError, match="expected at least one channel and one position"):
            pool(torch.zeros(shape))
    for channels in (1, 4):
        with pytest.raises(ValueError, match=f"the input has 3 channels; expected {channels}"):
            LogAvgExpPool2d(2, train="channel", channels=channels)(torch.zeros(2, 3, 8, 8))
