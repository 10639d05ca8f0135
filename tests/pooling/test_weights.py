"""Weights: against mpmath at every temperature, against masks and repetition, their gradients, compiled and exported."""

import itertools
import math

import numpy as np
import pytest
import torch
from backends import each_backend
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from lae_core import logavgexp

VALUE, WEIGHT, D_LOG_T = 4, 8, 64  # in eps·max|z|, eps·(largest derivative), eps·|true value|, as without weights
INF, NAN = math.inf, math.nan
settings.register_profile("lae", deadline=None, max_examples=60)
settings.load_profile("lae")

entries = st.tuples(st.floats(-100, 100, width=32), st.sampled_from([0.0, 1e-6, 0.1, 1.0, 3.0, 1e4]))
rows = st.lists(entries, min_size=1, max_size=30)
temperatures = st.floats(-3, 6).map(lambda e: 10.0**e)


def randn(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def reference(z: torch.Tensor, w: torch.Tensor, t: float) -> tuple[mpf, list[mpf], mpf, list[mpf]]:
    """The value, its derivatives by z and by log t, and t times those by w, at 60 digits."""
    with mp.workdps(60):
        z, w, t = [mpf(x) for x in z.tolist()], [mpf(x) for x in w.tolist()], mpf(t)
        top = max(x for x, weight in zip(z, w, strict=True) if weight)
        terms = [weight * mp.exp((x - top) / t) for x, weight in zip(z, w, strict=True)]
        log_mean = mp.log(mp.fsum(terms) / mp.fsum(w))
        shares = [term / mp.fsum(terms) for term in terms]
        d_log_t = t * log_mean - mp.fsum(share * (x - top) for share, x in zip(shares, z, strict=True))
        by_weight = [t * mp.expm1((x - top) / t - log_mean) / mp.fsum(w) for x in z]
        return top + t * log_mean, shares, d_log_t, by_weight


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("t", [1e-3, 0.3, 1.0, 30.0, 3e4, 1e6])
def test_error_against_mpmath(t, dtype):
    eps, tiny = torch.finfo(dtype).eps, torch.finfo(dtype).tiny
    working = torch.float64 if dtype == torch.float64 else torch.float32
    for n, scale, offset, spread in itertools.product((1, 2, 16, 64), (1e-2, 1.0, 1e3), (0.0, -1e3), (0.1, 5.0)):
        z = (scale * randn(n) + offset).to(dtype).requires_grad_()
        w = (spread * randn(n, seed=1)).exp().to(working).requires_grad_()
        heat = torch.tensor(t, dtype=working, requires_grad=True)
        value = logavgexp(z, heat, weights=w)
        by_z, by_t, by_w = torch.autograd.grad(value, (z, heat, w))
        exact, shares, d_log_t, by_weight = reference(z.detach().double(), w.detach().double(), heat.item())
        case = (n, scale, offset, spread)
        largest = float(z.detach().double().abs().max())
        assert abs(float(exact - value.item())) <= VALUE * eps * largest, case
        off = max(abs(float(a - b)) for a, b in zip(shares, by_z.tolist(), strict=True))
        assert off <= WEIGHT * eps * float(max(shares)), case
        if n > 1 and abs(d_log_t) > 1e-40 and abs(d_log_t) / t > tiny:
            assert abs(float(d_log_t - t * by_t.item())) <= D_LOG_T * eps * abs(float(d_log_t)), case
        off = max(abs(float(a - b)) for a, b in zip(by_weight, by_w.tolist(), strict=True))
        # a difference to the pooled value: exact as far as that is
        total = float(w.detach().sum())
        bound = (VALUE * largest + WEIGHT * float(max(map(abs, by_weight))) * total) * torch.finfo(working).eps / total
        assert off <= bound, case


@given(rows, temperatures)
def test_weights_of_zero_and_one_are_a_mask(row, t):
    z = torch.tensor([x for x, _ in row], dtype=torch.float32)
    mask = torch.tensor([w >= 0.1 for _, w in row])
    dirty = z.masked_fill(~mask, NAN).requires_grad_()
    for weights in (mask.float(), mask, mask.long(), 0.25 * mask):
        value = logavgexp(dirty, t, weights=weights)
        torch.testing.assert_close(value, logavgexp(dirty, t, mask=mask), rtol=1e-6, atol=0)
        (grad,) = torch.autograd.grad(value, dirty)
        (expected,) = torch.autograd.grad(logavgexp(dirty, t, mask=mask), dirty)
        torch.testing.assert_close(grad, expected, rtol=1e-5, atol=1e-30)


@given(rows, temperatures)
def test_masked_weights_do_not_count(row, t):
    z, w = (torch.tensor(x, dtype=torch.float64) for x in zip(*row, strict=True))
    mask = torch.arange(len(z)) % 3 > 0
    found = logavgexp(z.masked_fill(~mask, NAN), t, mask=mask, weights=w.masked_fill(~mask, NAN))
    torch.testing.assert_close(found, logavgexp(z[mask], t, weights=w[mask]), rtol=1e-12, atol=1e-13)


@given(st.lists(st.tuples(st.floats(-50, 50), st.integers(0, 5)), min_size=1, max_size=12), temperatures)
def test_whole_weights_are_repetition(row, t):
    z, counts = torch.tensor([x for x, _ in row], dtype=torch.float64), torch.tensor([n for _, n in row])
    expected = logavgexp(z.repeat_interleave(counts), t)
    torch.testing.assert_close(logavgexp(z, t, weights=counts), expected, rtol=1e-13, atol=1e-14)


@given(rows, temperatures, st.floats(-30, 30))
def test_a_common_factor_changes_nothing(row, t, exponent):
    z, w = (torch.tensor(x, dtype=torch.float64) for x in zip(*row, strict=True))
    found = logavgexp(z, t, weights=10.0**exponent * w)
    torch.testing.assert_close(found, logavgexp(z, t, weights=w), rtol=1e-12, atol=1e-13)


@given(rows, temperatures)
def test_between_the_weighted_mean_and_the_maximum(row, t):
    z, w = (torch.tensor(x, dtype=torch.float64) for x in zip(*row, strict=True))
    value = float(logavgexp(z, t, weights=w))
    if not w.any():
        assert value == -INF
        return
    slack = 8 * 2.3e-16 * float(z.abs().max() + 1e-300)
    assert float((w * z).sum() / w.sum()) - slack <= value <= float(z[w > 0].max()) + slack


def test_a_high_temperature_gives_the_weighted_mean():
    z, w = randn(100, 49, dtype=torch.float32), randn(100, 49, dtype=torch.float32, seed=1).exp()
    mean = (w.double() * z).sum(1) / w.double().sum(1)
    torch.testing.assert_close(logavgexp(z, 1e9, weights=w).double(), mean, rtol=0, atol=1e-6)


def test_a_constant_row_gives_the_constant():
    z = randn(1000, 1, dtype=torch.float32).expand(1000, 37)
    w = randn(1000, 37, dtype=torch.float32, seed=1).exp()
    for t in (1e-3, 0.7, 16.0, 1e6):
        assert torch.equal(logavgexp(z, t, weights=w), z[:, 0])


def test_agrees_with_scipy_where_that_is_exact():
    from scipy.special import logsumexp

    z, w = randn(5, 9), randn(5, 9, seed=1).exp()
    expected = logsumexp(z.numpy(), axis=1, b=(w / w.sum(1, keepdim=True)).numpy())
    np.testing.assert_allclose(logavgexp(z, weights=w).numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_first_and_second_derivatives(scale):
    z, w = (scale * randn(3, 4, 5)).requires_grad_(), randn(3, 1, 5, seed=1).exp().requires_grad_()
    t = (0.5 + randn(3, 1).abs()).requires_grad_()
    mask = randn(3, 4, 5, seed=2) > -1

    def operator(z, t, w):
        return logavgexp(z, t.expand(3, 4), dim=2, mask=mask, weights=w)

    assert torch.autograd.gradcheck(operator, (z, t, w), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(operator, (z, t, w))


def test_forward_mode_and_hessians():
    z, w = randn(6), randn(6, seed=1).exp()
    for argument in (0, 1):
        forward = torch.func.jacfwd(lambda z, w: logavgexp(z, 0.7, weights=w), argument)(z, w)
        torch.testing.assert_close(forward, torch.func.grad(lambda z, w: logavgexp(z, 0.7, weights=w), argument)(z, w))
        function = lambda x, a=argument: logavgexp(x if a == 0 else z, 0.7, weights=x if a else w)  # noqa: E731
        x = (z, w)[argument]
        torch.testing.assert_close(torch.func.hessian(function)(x), torch.func.jacrev(torch.func.jacrev(function))(x))
    share = torch.softmax(z / 0.7 + w.log(), 0)
    hessian = torch.func.hessian(lambda z: logavgexp(z, 0.7, weights=w))(z)
    torch.testing.assert_close(hessian, (torch.diag(share) - share.outer(share)) / 0.7)


def test_vmap():
    z, w = randn(4, 3, 7), randn(4, 7, seed=1).exp()
    found = torch.func.vmap(lambda z, w: logavgexp(z, 0.5, weights=w))(z, w)
    torch.testing.assert_close(found, logavgexp(z, 0.5, weights=w[:, None]))


@each_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_compiles_whole(dtype, backend):
    torch._dynamo.reset()
    z = randn(2, 3, 4, 4, dtype=dtype).requires_grad_()
    w = randn(2, 1, 4, 4, dtype=torch.float32, seed=1).exp().requires_grad_()
    t = torch.tensor([0.5, 1.0, 64.0], requires_grad=True)
    found, expected = (
        (value, *torch.autograd.grad(value.float().square().sum(), (z, w, t)))
        for value in (
            operator(z, t, dim=(2, 3), weights=w)
            for operator in (torch.compile(logavgexp, fullgraph=True, backend=backend), logavgexp)
        )
    )
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=8 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps)


def test_exports():
    class Weighted(torch.nn.Module):
        def forward(self, z, weights):
            return logavgexp(z, 4.0, dim=1, weights=weights)

    given = randn(2, 8, dtype=torch.float32), randn(2, 8, dtype=torch.float32, seed=1).exp()
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    exported = torch.export.export(Weighted(), given, dynamic_shapes=(sizes, sizes)).module()
    other = randn(5, 30, dtype=torch.float32, seed=3), randn(5, 30, dtype=torch.float32, seed=4).exp()
    torch.testing.assert_close(exported(*other), Weighted()(*other))


@pytest.mark.parametrize(
    ("row", "weights", "expected"),
    [
        ([0.0, NAN, 1.0], [1.0, 0.0, 0.0], 0.0),
        ([0.0, INF], [1.0, 0.0], 0.0),
        ([0.0, INF], [1.0, 1e-30], INF),
        ([0.0, -INF], [1.0, 3.0], -math.log(4)),
        ([1.0, 2.0], [0.0, 0.0], -INF),
        ([-INF, NAN], [2.0, 0.0], -INF),
        ([1.0, 2.0], [1.0, -1.0], NAN),
        ([1.0, 2.0], [1.0, INF], NAN),
        ([1.0, 2.0], [1.0, NAN], NAN),
        ([1.0, 2.0], [0.0, 1e-40], 2.0),
        ([3.25], [1e-30], 3.25),
    ],
)
def test_the_edges(row, weights, expected):
    z = torch.tensor([row, [0.5] * len(row)], requires_grad=True)
    w = torch.tensor([weights, [2.0] * len(row)], requires_grad=True)
    value = logavgexp(z, 1.0, weights=w)
    torch.testing.assert_close(value[0], torch.tensor(expected), equal_nan=True)
    assert value[1] == 0.5, "a strange row must not touch its neighbour"
    grad, grad_w = torch.autograd.grad(value[0], (z, w))
    assert not grad[1].any() and not grad_w[1].any()
    if not math.isnan(expected):
        assert not grad[0][w[0] == 0].any() and not grad_w[0][w[0] == 0].any(), "what does not count has no gradient"
    if expected == -INF:
        assert not grad.any() and not grad_w.any()


def test_small_weights_in_double_precision_stay():
    """Not 0 in float32: at a low temperature the maximum wins even so."""
    z, w = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 1e-60], dtype=torch.float64)
    assert 0.8 < logavgexp(z, 1e-3, weights=w) < 1


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        ([1.0], TypeError, "weights is list.*tensor of real numbers"),
        (torch.ones(4, dtype=torch.complex64), TypeError, "weights is torch.complex64"),
        (torch.ones(5), ValueError, r"weights has shape \(5,\).*\(2, 3, 4\)"),
        (torch.ones(7, 2, 3, 4), ValueError, r"weights has shape \(7, 2, 3, 4\)"),
    ],
)
def test_bad_weights_are_refused(weights, error, words):
    with pytest.raises(error, match=words):
        logavgexp(torch.zeros(2, 3, 4), weights=weights)


def test_an_empty_row_with_weights():
    assert logavgexp(torch.zeros(2, 0), weights=torch.zeros(2, 0)).tolist() == [-INF, -INF]
