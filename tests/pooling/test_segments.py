"""segment_logavgexp: against a loop, mpmath and logsumexp; its edges, errors, derivatives, compiled and exported."""

import functools
import math

import pytest
import torch
from backends import each_backend
from hypothesis import given, settings
from hypothesis import strategies as st

from lae_core import logavgexp, segment_logavgexp
from lae_core.bench.reference import reference

VALUE, WEIGHT, D_LOG_T = 4, 8, 64  # the bounds of logavgexp, in the same units
INF, NAN = math.inf, math.nan
settings.register_profile("lae", deadline=None, max_examples=60)
settings.load_profile("lae")

temperatures = st.floats(-3, 6).map(lambda e: 10.0**e)
sizes = st.lists(st.integers(0, 6), min_size=1, max_size=8)


def randn(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def by_loop(z, index, t, segments):
    return torch.stack([logavgexp(z[index == s], t, dim=0) for s in range(segments)])


@given(sizes, temperatures, st.integers(0, 2**31), st.sampled_from([(), (3,), (2, 2)]))
def test_is_a_loop_over_segments(lengths, t, seed, rest):
    lengths = torch.tensor(lengths)
    z = 3 * randn(int(lengths.sum()), *rest, seed=seed)
    index = torch.arange(len(lengths)).repeat_interleave(lengths)
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
    expected = by_loop(z, index, t, len(lengths))
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    for found in (
        segment_logavgexp(z, index, t, len(lengths)),
        segment_logavgexp(z[order], index[order], t, len(lengths)),
        segment_logavgexp(z[order], index[order].int(), t, len(lengths)),
        segment_logavgexp(z, t=t, ptr=ptr),
        segment_logavgexp(z, t=t, lengths=lengths),
    ):
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    assert (expected[lengths == 0] == -INF).all()


@given(sizes, temperatures, st.integers(0, 2**31))
def test_derivatives_are_those_of_the_loop(lengths, t, seed):
    lengths = torch.tensor([*lengths, 2])
    z = (3 * randn(int(lengths.sum()), 2, seed=seed)).requires_grad_()
    heat = torch.full((len(lengths), 1), t, dtype=torch.float64, requires_grad=True)
    index = torch.arange(len(lengths)).repeat_interleave(lengths)
    there = lengths > 0
    value = segment_logavgexp(z, index, heat, len(lengths))
    grad, grad_t = torch.autograd.grad(value[there].square().sum(), (z, heat))
    loop = torch.stack([logavgexp(z[index == s], heat[s], dim=0) for s in range(len(lengths)) if there[s]])
    expected, expected_t = torch.autograd.grad(loop.square().sum(), (z, heat))
    torch.testing.assert_close(grad, expected, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(grad_t, expected_t, rtol=1e-10, atol=1e-300)
    assert grad.isfinite().all() and not grad_t[~there].any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("t", [1e-3, 0.3, 1.0, 30.0, 3e4, 1e6])
def test_error_against_mpmath(t, dtype):
    eps, tiny = torch.finfo(dtype).eps, torch.finfo(dtype).tiny
    lengths = torch.tensor([1, 2, 16, 64] * 4)
    scale = torch.tensor([1e-2] * 4 + [1.0] * 4 + [1e3] * 4 + [1.0] * 4)
    offset = torch.tensor([0.0] * 12 + [1e3] * 4)
    index = torch.arange(16).repeat_interleave(lengths)
    z = (randn(len(index)) * scale[index] + offset[index]).to(dtype).requires_grad_()
    working = torch.float64 if dtype == torch.float64 else torch.float32
    heat = torch.full((16,), t, dtype=working, requires_grad=True)
    value = segment_logavgexp(z, index, heat)
    grad, grad_t = torch.autograd.grad(value.sum(), (z, heat))
    for s in range(16):
        row = z.detach().double()[index == s]
        exact = reference(row.tolist(), heat[s].item())
        assert abs(float(exact.value - value[s].item())) <= VALUE * eps * float(row.abs().max()), s
        off = max(abs(float(a - b)) for a, b in zip(exact.weights, grad[index == s].tolist(), strict=True))
        assert off <= WEIGHT * eps * float(max(exact.weights)), s
        true = abs(float(exact.d_log_t))
        if true > 1e-40 and true / t > tiny:
            assert abs(float(exact.d_log_t - heat[s].item() * grad_t[s].item())) <= D_LOG_T * eps * true, s


def test_at_one_it_is_the_logsumexp_of_graphs():
    """As PyTorch Geometric defines it, per group exp(z - max), summed, log, plus max; less log n."""
    z, index = randn(40, 3), torch.randint(5, (40,), generator=torch.Generator().manual_seed(0))
    n = torch.bincount(index, minlength=5)
    assert n.min() > 0
    where = index[:, None].expand_as(z)
    top = torch.full((5, 3), -INF, dtype=z.dtype).scatter_reduce(0, where, z, "amax")
    total = torch.zeros(5, 3, dtype=z.dtype).scatter_add(0, where, (z - top[index]).exp())
    torch.testing.assert_close(segment_logavgexp(z, index), top + total.log() - n[:, None].log())


def test_temperatures_per_segment_and_per_channel():
    z, index = randn(20, 3), torch.arange(20) % 4
    per_segment, per_channel = (
        torch.tensor([[0.1], [1.0], [10.0], [1e4]]).double(),
        torch.tensor([0.2, 2.0, 20.0]).double(),
    )
    found = segment_logavgexp(z, index, per_segment * per_channel)
    for s in range(4):
        torch.testing.assert_close(found[s], logavgexp(z[index == s], per_segment[s] * per_channel, dim=0))
    assert segment_logavgexp(z, index, per_segment).shape == segment_logavgexp(z, index, per_channel).shape == (4, 3)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_first_and_second_derivatives(scale):
    index = torch.tensor([0, 2, 2, 0, 3, 3, 3])
    z, t = (scale * randn(7, 2)).requires_grad_(), (0.5 + randn(4, 1).abs()).requires_grad_()

    def operator(z, t):
        return segment_logavgexp(z, index, t, 4)[[0, 2, 3]]

    assert torch.autograd.gradcheck(operator, (z, t), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(operator, (z, t))


def test_transforms():
    index, z = torch.tensor([0, 1, 1, 1, 0]), randn(5)
    operator = functools.partial(segment_logavgexp, index=index, t=0.7)
    torch.testing.assert_close(torch.func.jacfwd(operator)(z), torch.func.jacrev(operator)(z))
    total = lambda z: operator(z).square().sum()  # noqa: E731
    torch.testing.assert_close(torch.func.hessian(total)(z), torch.func.jacrev(torch.func.jacrev(total))(z))
    batch = randn(3, 5)
    torch.testing.assert_close(torch.func.vmap(operator)(batch), torch.stack([operator(row) for row in batch]))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.0, NAN], NAN), ([0.0, INF], INF), ([-INF, -INF], -INF), ([0.0, -INF], -math.log(2)), ([], -INF)],
)
def test_the_edges(values, expected):
    z = torch.tensor([*values, 0.5, 0.5], requires_grad=True)
    index = torch.tensor([0] * len(values) + [1, 1])
    value = segment_logavgexp(z, index)
    torch.testing.assert_close(value[0], torch.tensor(expected), equal_nan=True)
    assert value[1] == 0.5, "a strange segment must not touch its neighbour"
    (grad,) = torch.autograd.grad(value[1], z, retain_graph=True)
    assert grad[-2:].tolist() == [0.5, 0.5]
    if expected == -INF:
        assert not torch.autograd.grad(value[0], z)[0].any()


def test_nothing_at_all():
    assert segment_logavgexp(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)).shape == (0, 3)
    assert (segment_logavgexp(torch.zeros(0, 3), lengths=torch.tensor([0, 0])) == -INF).all()
    assert segment_logavgexp(torch.zeros(0), ptr=torch.tensor([0])).shape == (0,)


@each_backend
@pytest.mark.parametrize("given", ["index", "ptr", "lengths"])
def test_compiles_whole(given, backend):
    torch._dynamo.reset()
    z, t = randn(9, 3, dtype=torch.float32).requires_grad_(), torch.tensor([0.5, 1.0, 64.0], requires_grad=True)
    how = {
        "index": {"index": torch.tensor([0, 3, 3, 1, 0, 0, 3, 1, 3]), "num_segments": 4},
        "ptr": {"ptr": torch.tensor([0, 3, 3, 8, 9])},
        "lengths": {"lengths": torch.tensor([3, 0, 5, 1])},
    }[given]
    compiled = torch.compile(segment_logavgexp, fullgraph=True, backend=backend)
    values = compiled(z, t=t, **how), segment_logavgexp(z, t=t, **how)
    torch.testing.assert_close(*values)
    grads = (torch.autograd.grad(v[v.isfinite()].square().sum(), (z, t)) for v in values)
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_compiled_code_says_what_it_needs():
    torch._dynamo.reset()
    with pytest.raises(Exception, match="num_segments = None is invalid in compiled code"):
        torch.compile(segment_logavgexp, fullgraph=True)(torch.zeros(3), torch.tensor([0, 0, 1]))


def test_exports():
    class Bags(torch.nn.Module):
        def forward(self, z, index):
            return segment_logavgexp(z, index, 4.0, 5)

    entries = torch.export.Dim("entries")
    given = randn(9, 3, dtype=torch.float32), torch.arange(9) % 4
    exported = torch.export.export(Bags(), given, dynamic_shapes=({0: entries}, {0: entries})).module()
    other = randn(30, 3, dtype=torch.float32, seed=3), torch.arange(30) % 5
    torch.testing.assert_close(exported(*other), Bags()(*other))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, ValueError, "none of index, ptr and lengths given; expected one"),
        ({"index": torch.arange(4), "ptr": torch.tensor([0, 4])}, ValueError, "index and ptr of index"),
        ({"index": [0, 1, 2, 3]}, TypeError, "index is list; expected a tensor of int64"),
        ({"index": torch.ones(4)}, TypeError, "index is torch.float32; expected"),
        ({"index": torch.ones(4, dtype=torch.int64, device="meta")}, ValueError, "index is on meta, z on cpu"),
        ({"index": torch.zeros(4, 1, dtype=torch.int64)}, ValueError, r"index has shape \(4, 1\); expected one dim"),
        ({"index": torch.arange(3)}, ValueError, "index has 3 entries, z has 4"),
        ({"index": torch.arange(4), "num_segments": 3}, IndexError, "index holds 0 to 3; expected numbers from 0 to 2"),
        ({"index": torch.arange(4) - 1}, IndexError, "index holds -1 to 2"),
        ({"index": torch.arange(4), "num_segments": 2.5}, ValueError, "num_segments = 2.5 is invalid"),
        ({"ptr": torch.tensor([0, 3])}, ValueError, r"ptr = \[0, 3\] is invalid for 4 entries; expected .* 0 to 4"),
        ({"ptr": torch.tensor([1, 4])}, ValueError, r"ptr = \[1, 4\] is invalid"),
        ({"ptr": torch.tensor([0, 3, 2, 4])}, ValueError, "ptr = .*expected it to rise"),
        ({"lengths": torch.tensor([1, 2])}, ValueError, r"lengths = \[1, 2\] is invalid.*add up to 4"),
        ({"lengths": torch.tensor([5, -1])}, ValueError, "lengths = .*none of them negative"),
        ({"lengths": torch.tensor([4]), "num_segments": 1}, ValueError, "num_segments = 1 is given with lengths"),
        ({"index": torch.arange(4), "t": 0.0}, ValueError, "t is 0.0.*positive"),
        ({"index": torch.arange(4), "t": torch.ones(3)}, ValueError, r"t has shape \(3,\).*\(4,\)"),
        ({"z": torch.tensor(1.0), "index": torch.arange(1)}, ValueError, "z has no dimensions"),
        ({"z": torch.arange(4), "index": torch.arange(4)}, TypeError, "z has dtype torch.int64"),
    ],
)
def test_bad_input_is_refused_with_its_name(arguments, error, words):
    with pytest.raises(error, match=words):
        segment_logavgexp(**{"z": torch.zeros(4), **arguments})
