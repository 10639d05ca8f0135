"""The operator against mpmath, in units of the dtype's epsilon.

The bounds hold for t from 1e-3 to 1e6 (as far as the dtype holds t), n from 1 to 100,000, values of scale 1e-2 to 1e3 with
offsets up to 1e3, on each way through the code: the fused kernel, the plain form, and compiled code, which calls the kernel.
`test_error_over_the_full_grid` prints the worst errors that it finds.
"""

import functools
import itertools
import math
from dataclasses import dataclass

import pytest
import torch

from lae_core.bench.reference import Reference
from lae_core.bench.reference import reference as mpmath_reference
from lae_core.pooling import functional, logavgexp, plain

VALUE, WEIGHT, D_LOG_T = 4, 8, 64  # in eps·max|z|, eps·(largest weight), eps·|true value|
TEMPERATURES = (1e-3, 0.03, 0.3, 1.0, 4.0, 30.0, 1e3, 3e4, 1e6)
SCALES = (1e-2, 1.0, 1e3)
OFFSETS = (0.0, 1.0, -1e3, 1e3)
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@functools.cache
def reference(row: tuple[float, ...], t: float) -> Reference:
    """Each way through the code is measured on the same rows: compute their reference once."""
    return mpmath_reference(row, t)


@dataclass
class Worst:
    value: float = 0.0
    weight: float = 0.0
    d_log_t: float = 0.0

    def __or__(self, other: "Worst") -> "Worst":
        return Worst(*(max(a, b) for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def draw(n: int, kind: str, seed: int) -> torch.Tensor:
    """A row of unit scale: normal, rectified, one far outlier either way, or nearly constant."""
    generator = torch.Generator().manual_seed(seed)
    row = torch.randn(n, generator=generator, dtype=torch.float64)
    match kind:
        case "normal":
            return row
        case "rectified":
            return row.relu()
        case "outlier above":
            return torch.where(torch.arange(n) == 0, 1.0, 1e-3 * row)
        case "outlier below":
            return torch.where(torch.arange(n) == 0, -1.0, 1e-3 * row)
    raise ValueError(kind)


def measure(rows: torch.Tensor, t: torch.Tensor, operator=logavgexp) -> Worst:
    """The worst errors over rows (k, n) with temperatures (k,), both in the dtype under test, trained and fixed."""
    eps, tiny = torch.finfo(rows.dtype).eps, torch.finfo(rows.dtype).tiny
    rows, t = rows.clone().requires_grad_(), t.clone().requires_grad_()
    value = operator(rows, t)
    grad, grad_t = torch.autograd.grad(value.sum(), (rows, t))
    value_fixed = operator(rows, t.detach()[:1] if bool((t == t[0]).all()) else t.detach())
    (grad_fixed,) = torch.autograd.grad(value_fixed.sum(), rows)
    worst = Worst()
    for i, (row, heat) in enumerate(zip(rows.detach().double(), t.detach().double().tolist(), strict=True)):
        exact = reference(tuple(row.tolist()), heat)
        scale = float(row.abs().max())
        error = max(abs(float(exact.value - x[i].item())) for x in (value, value_fixed))
        assert scale or not error, f"a row of zeros gave {value[i]} and {value_fixed[i]}"
        weights = torch.tensor([float(w) for w in exact.weights], dtype=torch.float64)
        found = Worst(
            error / (eps * scale) if scale else 0.0,
            max(float((x[i].double() - weights).abs().max() / weights.max() / eps) for x in (grad, grad_fixed)),
        )
        true = float(exact.d_log_t) if abs(exact.d_log_t) > 1e-50 else 0.0  # mpmath's own rounding, at 60 digits
        if min(abs(true), abs(true) / heat) > tiny:
            found.d_log_t = abs(float(exact.d_log_t - heat * grad_t[i].item())) / abs(true) / eps
        else:
            assert abs(grad_t[i].item()) <= max(2 * tiny, 2 * abs(true) / heat)
        worst |= found
    return worst


def grid(n: int, dtype: torch.dtype, kinds: tuple[str, ...], seed: int = 0):
    """All rows of one length that the dtype can hold, with a temperature each."""
    rows, temperatures = [], []
    largest = torch.finfo(dtype).max
    for kind, scale, offset, t in itertools.product(kinds, SCALES, OFFSETS, TEMPERATURES):
        row = (scale * draw(n, kind, seed) + offset).to(dtype)
        if t <= largest:
            rows.append(row)
            temperatures.append(t)
    return torch.stack(rows), torch.tensor(temperatures, dtype=dtype)


def check(worst: Worst) -> None:
    assert worst.value <= VALUE and worst.weight <= WEIGHT and worst.d_log_t <= D_LOG_T, worst


def without_kernel(monkeypatch):
    monkeypatch.setattr(functional, "_kernel", lambda z, t: None)


@pytest.fixture(params=["kernel", "plain", pytest.param("compiled", marks=pytest.mark.long)])
def operator(request, monkeypatch):
    if request.param == "plain":
        without_kernel(monkeypatch)
    if request.param == "compiled":
        torch._dynamo.reset()
        return torch.compile(logavgexp, fullgraph=True, dynamic=True)
    return logavgexp


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_error_over_the_whole_range(operator, dtype):
    worst = Worst()
    for n in (1, 2, 16, 64):
        rows, t = grid(n, dtype, ("normal", "rectified", "outlier above", "outlier below"))
        keep = torch.arange(n % 5, len(rows), 5 if n > 2 else 7)  # a fifth of the grid, another fifth for each n
        worst |= measure(rows[keep], t[keep], operator)
    check(worst)


def test_error_when_compiled():
    """As traced, and in short; the long tests send generated code over everything."""
    torch._dynamo.reset()
    compiled = torch.compile(logavgexp, fullgraph=True, backend="aot_eager")
    rows, t = grid(64, torch.float32, ("normal", "outlier above"))
    check(measure(rows[::5], t[::5], compiled))


@pytest.mark.parametrize("t", [0.03, 4.0, 1e6])
def test_error_of_long_rows(operator, t):
    """Against float64 by another formula: mpmath takes seconds for each."""
    rows = draw(100_000, "outlier below" if t == 4.0 else "normal", 0).float().unsqueeze(0)
    check(Worst(*errors(operator, rows, t, trained=True, each=True)))


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_error_over_the_full_grid(operator, dtype, capsys):
    worst = Worst()
    for seed, n in itertools.product(range(5), (1, 2, 3, 16, 64, 1000)):
        if n < 1000 or seed == 0:
            worst |= measure(*grid(n, dtype, ("normal", "rectified", "outlier above", "outlier below"), seed), operator)
    with capsys.disabled():
        print(f"\n{dtype}: {worst}")
    check(worst)


def test_the_textbook_form_would_not_pass():
    """The bounds can fail: the printed form breaks them by orders of magnitude at high temperatures."""

    def textbook(z, t):
        return t * (torch.logsumexp(z / t.unsqueeze(1), 1) - math.log(z.shape[1]))

    worst = measure(draw(64, "normal", 0).float().unsqueeze(0), torch.tensor([1024.0]), textbook)
    assert worst.value > 25 * VALUE and worst.d_log_t > 25 * D_LOG_T


ALIKE = ("one above", "one below", "two values", "few values", "mostly one value", "rectified")


def alike(kind: str, rows: int, n: int) -> torch.Tensor:
    """Rows between 0 and 1 whose values are nearly all the same: so are their rounding errors, and add up."""
    x = torch.rand(rows, n, dtype=torch.float64)
    there = torch.arange(n) == torch.randint(n, (rows, 1))
    match kind:
        case "one above":
            return 1.0 * there
        case "one below":
            return 1.0 * ~there
        case "two values":
            return 1.0 * (x < torch.rand(rows, 1))
        case "few values":
            return (8 * x).floor() / 8
        case "mostly one value":
            return torch.where(torch.rand(rows, n) < 0.05, x, torch.rand(rows, 1, dtype=torch.float64))
        case "rectified":
            return torch.randn(rows, n, dtype=torch.float64).relu() / 5
    raise ValueError(kind)


def spread(x: torch.Tensor, least: float = 1e-3, most: float = 30.0) -> torch.Tensor:
    """Those rows at scales from the least to the most, from -1/2, 0 or -1 of that upwards."""
    scale = least * (most / least) ** torch.rand(len(x), 1, dtype=torch.float64)
    start = torch.tensor([-0.5, 0.0, -1.0], dtype=torch.float64)[torch.randint(3, (len(x), 1))]
    return scale * (x + start)


def errors(operator, z: torch.Tensor, t: float, trained: bool, each: bool) -> tuple[float, float, float]:
    """The worst in the units of the bounds; z of shape (rows, n), with a temperature for each row or one for all."""
    eps, n = torch.finfo(z.dtype).eps, z.shape[1]
    z, heat = z.clone().requires_grad_(), torch.full((len(z),) if each else (), t, requires_grad=trained)
    value = operator(z, heat)
    weight, *grad_t = torch.autograd.grad(value.sum(), (z, heat) if trained else (z,))
    exact, high = z.detach().double(), heat.detach().flatten()[0].item()
    u = (exact - exact.mean(1, keepdim=True)) / high
    log_mean = torch.logsumexp(u, 1, keepdim=True) - torch.log(torch.tensor(n, dtype=torch.float64))
    narrow = u.abs().amax(1, keepdim=True) < 0.5
    log_mean = torch.where(narrow, torch.log1p(torch.expm1(u).mean(1, keepdim=True)), log_mean)
    weights = torch.exp(u - log_mean) / n
    falling = plain.phi(u - log_mean).mean(1)
    error = (value - (exact.mean(1) + high * log_mean.squeeze(1))).abs() / exact.abs().amax(1).clamp(min=1e-300)
    off = (weight - weights).abs().amax(1) / weights.amax(1)
    slope = torch.zeros(1)
    if trained:
        falling = falling if each else falling.sum()
        slope = torch.where(falling > torch.finfo(z.dtype).tiny, (grad_t[0] + falling).abs() / falling, 0.0)
    value_off, weight_off, slope_off = (x.detach().max().item() / eps for x in (error, off, slope))
    return value_off, weight_off, slope_off


def along(operator, z, t):
    return operator(z, t, dim=1)


def side_by_side(operator, z, t):
    return operator(z.t().contiguous(), t, dim=0)


def as_maps(operator, z, t):
    side = round(z.shape[1] ** 0.5)
    return operator(z.view(-1, 8, side, side), t.view(-1, 8) if t.dim() else t, dim=(2, 3)).flatten()


def as_maps_channels_last(operator, z, t):
    side = round(z.shape[1] ** 0.5)
    maps = z.view(-1, 16, side, side).contiguous(memory_format=torch.channels_last)
    return operator(maps, t.view(-1, 16) if t.dim() else t, dim=(2, 3)).flatten()


# the least scale and the most, t, whether it is trained, and whether each row has its own
CASES = [
    (1e-3, 30.0, 1.0, True, True),
    (1e-3, 30.0, 3.3, False, False),
    (3.3, 30.0, 1.0, False, True),
    (1e-3, 30.0, 3.3, True, False),
    (1e-3, 0.4, 3.3, False, False),
]


@pytest.mark.parametrize("way", ["kernel", "plain"])
@pytest.mark.parametrize("layout", [along, side_by_side, as_maps, as_maps_channels_last])
def test_error_of_rows_that_are_nearly_alike(way, layout, monkeypatch):
    if way == "plain":
        without_kernel(monkeypatch)
    torch.manual_seed(0)
    maps = layout in (as_maps, as_maps_channels_last)
    sizes = (16, 49, 64, 196, 784) if maps else (2, 3, 7, 49, 1000)
    for n, kind, (least, most, t, trained, each) in itertools.product(sizes, ALIKE, CASES):
        z = t * spread(alike(kind, 16 * min(100, 20_000 // n), n), least, most).float()
        worst = errors(functools.partial(layout, logavgexp), z, t, trained, each)
        case = (n, kind, least, most, t, trained, each, worst)
        assert worst[0] <= VALUE and worst[1] <= WEIGHT and worst[2] <= D_LOG_T, case


@pytest.mark.parametrize("layout", [along, side_by_side])
@pytest.mark.parametrize("each", [False, True])
def test_error_of_long_rows_with_an_outlier(layout, each):
    """The gradient to t is small against the terms of which it is the difference."""
    torch.manual_seed(0)
    z = 0.05 * torch.randn(64, 3000)
    z[:, 7] = torch.linspace(2.5, 4.0, 64)
    worst = errors(functools.partial(layout, logavgexp), z, 1.0, True, each)
    assert worst[0] <= VALUE and worst[1] <= WEIGHT and worst[2] <= D_LOG_T, worst


@pytest.mark.parametrize("n", [2, 7, 49])
def test_error_of_such_rows_in_float64(n, operator):
    torch.manual_seed(0)
    for kind in ("one above", "one below", "two values"):
        check(measure(spread(alike(kind, 40, n)), torch.ones(40, dtype=torch.float64), operator))
