"""What must hold for any input: bounds, monotonicity, equivariance, agreement with the definition, masks."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lae_core import logavgexp

settings.register_profile("lae", deadline=None, max_examples=60)
settings.load_profile("lae")

floats = st.floats(-100, 100, allow_nan=False, width=64)
rows = st.lists(floats, min_size=1, max_size=40).map(lambda v: torch.tensor(v, dtype=torch.float64))
temperatures = st.floats(-3, 6).map(lambda e: 10.0**e)


def slack(z: torch.Tensor) -> float:
    return 8 * torch.finfo(z.dtype).eps * (float(z.abs().max()) + 1e-300)


@given(rows, temperatures)
def test_between_mean_and_max(z, t):
    value = float(logavgexp(z, t))
    assert float(z.mean()) - slack(z) <= value <= float(z.max()) + slack(z)


@given(rows, temperatures, st.floats(1.01, 100))
def test_falls_as_t_rises(z, t, factor):
    assert float(logavgexp(z, t * factor)) <= float(logavgexp(z, t)) + slack(z)


@given(rows, temperatures, floats)
def test_shift(z, t, c):
    shifted = logavgexp(z + c, t)
    assert abs(float(shifted - logavgexp(z, t)) - c) <= slack(z) + slack(z + c) + 8 * 2.3e-16 * abs(c)


@given(rows, temperatures, st.floats(-3, 3))
def test_scale(z, t, exponent):
    c = 10.0**exponent
    torch.testing.assert_close(logavgexp(c * z, c * t), c * logavgexp(z, t), rtol=0, atol=c * slack(z))


@given(rows, temperatures, st.randoms(use_true_random=False))
def test_order_does_not_matter(z, t, random):
    order = list(range(len(z)))
    random.shuffle(order)
    torch.testing.assert_close(logavgexp(z[order], t), logavgexp(z, t), rtol=0, atol=slack(z))


@given(rows)
def test_is_logsumexp_less_log_n(z):
    expected = torch.logsumexp(z, 0) - math.log(len(z))
    torch.testing.assert_close(logavgexp(z), expected, rtol=0, atol=slack(z) + 1e-14)


@given(st.integers(1, 6), st.integers(1, 20), temperatures, st.integers(0, 2**31), st.booleans())
def test_masking_is_slicing(batch, n, t, seed, trained):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(batch, n, generator=generator, dtype=torch.float64)
    mask = torch.rand(batch, n, generator=generator) < 0.7
    dirty = z.masked_fill(~mask, math.nan).requires_grad_()
    heat = torch.tensor(t, dtype=torch.float64, requires_grad=True) if trained else t
    value = logavgexp(dirty, heat, mask=mask)
    value[mask.any(1)].sum().backward()
    for i in range(batch):
        if not mask[i].any():
            assert value[i] == -math.inf and not dirty.grad[i].any()
            continue
        kept = z[i][mask[i]].requires_grad_()
        alone = logavgexp(kept, t)
        torch.testing.assert_close(value[i], alone, rtol=0, atol=slack(z))
        alone.backward()
        torch.testing.assert_close(dirty.grad[i][mask[i]], kept.grad, rtol=1e-12, atol=1e-14)
        assert not dirty.grad[i][~mask[i]].any()


@given(rows, temperatures)
def test_weights_are_a_distribution_that_favours_the_large(z, t):
    assume(len(z) > 1)
    z = z.requires_grad_()
    logavgexp(z, t).backward()
    assert float(z.grad.sum()) == pytest.approx(1, abs=1e-12)
    order = z.detach().argsort()
    assert (z.grad[order].diff() >= -1e-15).all()


def fit(target: str, pool) -> tuple[float, float]:
    """Train log t so that pool(z, t) fits the mean or the maximum: the loss as a share of its start, and the temperature."""
    z = torch.randn(256, 4, 16, generator=torch.Generator().manual_seed(0))
    goal = z.mean(2) if target == "mean" else z.amax(2)
    log_t = torch.zeros((), requires_grad=True)
    optimiser = torch.optim.Adam([log_t], lr=0.05)
    losses = []
    for _ in range(300):
        loss = (pool(z, log_t.exp()) - goal).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses[-1] / losses[0], log_t.exp().item()


@pytest.mark.parametrize(("target", "rises"), [("mean", True), ("max", False)])
def test_a_trained_temperature_finds_mean_and_max(target, rises):
    share, t = fit(target, logavgexp)
    assert share < 0.01 and (t > 10 if rises else t < 0.1)


def test_log_n_subtracted_twice_fails_that_test():
    """What logavgexp-pytorch once did, and why its temperature stuck: the mean is then out of reach at every t."""
    share, t = fit("mean", lambda z, t: logavgexp(z, t) - t * math.log(z.shape[2]))
    assert share > 0.01 and t < 10


@pytest.mark.parametrize(("t", "printed"), [(0.5, 1.18), (1.0, 0.95), (2.0, 0.76)])
def test_the_values_of_figure_1(t, printed):
    z = torch.tensor([[-1.0, 0.0], [1.4, 1.6]], dtype=torch.float64)
    for matrix in (z, z.flip(0)):
        assert round(float(logavgexp(matrix, t, dim=(0, 1))), 2) == printed
