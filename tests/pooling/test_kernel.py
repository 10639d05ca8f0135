"""The fused CPU kernel: a row's bits depend on that row alone, extremes are finite and right, torch can work with it."""

import math
import os
import shutil
import subprocess
import sys

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lae_core import logavgexp, make_pool
from lae_core.pooling import cpu, functional

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
KINDS = ("normal", "rectified", "constant", "outlier", "padded", "far")
needs_kernel = pytest.mark.skipif(cpu.LIBRARY is None, reason="the kernel was not built")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.skipif(os.environ.get("LAE_KERNEL") == "off", reason="it is turned off")
def test_the_kernel_is_there():
    """Without it the package works, and is slow: our own environment must not get there in silence."""
    assert cpu.LIBRARY is not None, "run `make env`, or `python setup.py build_ext --inplace`"


def test_without_the_library_there_is_one_warning_and_the_plain_form():
    code = """
import os, torch, warnings
from pathlib import Path
real = Path.with_name
Path.with_name = lambda self, name: real(self, "missing" if name.startswith("_kernel") else name)

def use():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        from lae_core import logavgexp
        for _ in range(3): value = logavgexp(torch.tensor([0.0, 1.0, 2.0]), 0.01)
    from lae_core.pooling import cpu
    assert cpu.LIBRARY is None and abs(value.item() - 1.9890) < 1e-4
    print(len([w for w in told if "without its CPU kernel" in str(w.message)]), "warnings", flush=True)

for mode in ("", "off", "required"):  # in a process each, but torch is loaded once
    if os.fork() == 0:
        os.environ["LAE_KERNEL"] = mode
        try: use()
        except BaseException as error: print("refused:", error, flush=True)
        finally: os._exit(0)
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    without, off, required = done.stdout.splitlines()
    assert (without, off) == ("1 warnings", "0 warnings")
    assert required.startswith("refused:") and "missing" in required


def rows_of_all_kinds(count: int, n: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for i in range(count):
        row = torch.randn(n, generator=generator) * 10 ** float(torch.rand((), generator=generator) * 4 - 2)
        kind = KINDS[(i + seed) % len(KINDS)]
        if kind == "rectified":
            row = row.relu()
        elif kind == "constant":
            row = row[:1].expand(n)
        elif kind == "outlier":
            row = torch.where(torch.arange(n) == seed % n, row * 100, row / 100)
        elif kind == "padded":
            row = torch.where(torch.arange(n) > n // 2, -math.inf, row)
        elif kind == "far":
            row = row + 1000
        rows.append(row)
    return torch.stack(rows)


def results(z, t, dim, trained=True):
    """Value, gradient to z and gradient to each row's t."""
    z, t = z.detach().requires_grad_(), t.detach().clone().requires_grad_(trained)
    value = logavgexp(z, t, dim=dim)
    grads = torch.autograd.grad(value, (z, t) if trained else (z,), torch.full_like(value, 0.7))
    return [value.detach(), *grads]


@needs_kernel
@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(DTYPES),
    st.integers(1, 40),
    st.sampled_from([1, 2, 7, 15, 16, 17, 49, 64, 100, 511, 512, 1000]),
    st.floats(-3, 4),
    st.integers(0, 1000),
    st.booleans(),
)
@example(torch.float64, 33, 512, 1.0, 1, False)  # columns that fill more than one buffer
@example(torch.bfloat16, 33, 512, 0.0, 2, True)
@example(torch.float32, 40, 1000, 0.0, 3, True)
def test_a_row_alone_is_what_it_is_in_a_batch(dtype, count, n, log_t, seed, trained):
    z = rows_of_all_kinds(count, n, seed).to(dtype)
    t = torch.full((count,), 10.0**log_t)
    together = results(z, t, 1, trained)
    with torch.no_grad():
        assert torch.equal(logavgexp(z, t), together[0]), "training changes the value"
    shared = results(z, t[0], 1, False)
    assert all(torch.equal(a, b) for a, b in zip(together, shared[:2], strict=False)), "a t of its own changes a row"
    for i in {0, count // 2, count - 1}:
        alone = results(z[i : i + 1], t[i : i + 1], 1, trained)
        assert all(torch.equal(a[0], b[i]) for a, b in zip(alone, together, strict=True)), i
    # side by side the order of summation may be another one: there, too, a row does not depend on its neighbours
    if count == 1:
        return  # a single column is a row along memory
    across = results(z.t().contiguous(), t, 0, trained)
    for i in {0, count - 1}:
        pair = results(z[[i, 0, i]].t().contiguous(), t[[i, 0, i]], 0, trained)
        assert torch.equal(pair[0][0], across[0][i]) and torch.equal(pair[1][:, 2], across[1][:, i])


@needs_kernel
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_threads_and_neighbours_change_no_bit(dtype, layout):
    z = rows_of_all_kinds(64 * 96, 49, 3).view(64, 96, 7, 7).to(dtype).contiguous(memory_format=layout)
    found, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append([*results(z, torch.full((64, 96), 1.3), (2, 3)), results(z, torch.tensor(1.3), (2, 3))[2]])
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    shifted = results(z[5:9], torch.full((4, 96), 1.3), (2, 3))
    assert all(torch.equal(a, b[5:9]) for a, b in zip(shifted, found[0], strict=False))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("way", ["kernel", "plain"])
@pytest.mark.parametrize("n", [2, 60])
def test_extremes_are_finite_and_right(dtype, way, n, monkeypatch):
    if way == "plain":
        monkeypatch.setattr(functional, "_kernel", lambda z, t: None)
    large = 1e10 if dtype != torch.float16 else 6e4

    def value_and_gradients(row, t):
        z = torch.tensor(row * (n // 2), dtype=dtype, requires_grad=True)
        t = torch.tensor(t, dtype=torch.float64, requires_grad=True) if isinstance(t, float) else t
        value = logavgexp(z, t)
        grads = torch.autograd.grad(value, (z, t))
        assert all(x.isfinite().all() for x in (value, *grads)), (row, t)
        return value.item(), grads[0].double()

    for row, t, expected in (
        ([large, large / 2], 1.0, large - math.log(2)),
        ([-large, -large], 1.0, -large),
        ([-large, 1.0], 1.0, 1 - math.log(2)),
        ([large, -large], 1e-10, large - 1e-10 * math.log(2)),
        ([0.0, 1.0], 1e-12, 1 - 1e-12 * math.log(2)),
        ([0.0, 1.0], 1e-40, 1.0),
        ([0.0, 1.0], 1e-300, 1.0),
        ([0.0, 1.0], 1e30, 0.5),
        ([0.0, 1.0], 1e39, 0.5),
        ([0.0, 1.0], 1e300, 0.5),
    ):
        value, weights = value_and_gradients(row, t)
        eps = torch.finfo(dtype).eps
        assert abs(value - expected) <= 4 * eps * max(map(abs, row)), (row, t, value)
        assert abs(weights.sum() - 1) <= n * eps
        if t < 1 or row[0] == large:  # the largest element has all the weight
            assert weights[row.index(max(row)) :: 2].sum() >= 1 - n * eps


def test_a_number_as_t_may_be_outside_of_float32():
    z = torch.tensor([0.0, 1.0])
    assert logavgexp(z, 1e39) == 0.5 and logavgexp(z, 1e-50) == 1.0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("way", ["kernel", "plain"])
def test_an_infinite_t_gives_the_mean(dtype, way, monkeypatch):
    if way == "plain":
        monkeypatch.setattr(functional, "_kernel", lambda z, t: None)
    z, t = torch.randn(5, 40).to(dtype).requires_grad_(), torch.tensor(math.inf, requires_grad=True)
    value = logavgexp(z, t)
    torch.testing.assert_close(value.double(), z.double().mean(1), rtol=0, atol=4 * torch.finfo(dtype).eps)
    grad, grad_t = torch.autograd.grad(value.sum(), (z, t))
    torch.testing.assert_close(grad, torch.full_like(grad, 1 / 40))
    assert grad_t.abs() < 1e-30


@pytest.mark.parametrize("pool", ["lae(t0=1e5)", "lae(t0=1e5, train=one)", "lae(t0=1e-6)"])
def test_a_temperature_beyond_float16_in_a_half_module(pool):
    z = torch.randn(2, 3, 4, 4).half()
    value = make_pool(pool, channels=3).half()(z)
    expected = z.float().amax((2, 3)) if "1e-6" in pool else z.float().mean((2, 3))
    torch.testing.assert_close(value.float(), expected, rtol=0, atol=4e-3)


OPCHECK = [
    (dtype, shape, order, dims, t_shape)
    for dtype in (torch.float32, torch.float64, torch.bfloat16)
    for shape, order, dims, t_shape in (
        ((2, 3, 4, 5), (0, 1, 2, 3), (2, 3), ()),
        ((2, 3, 4, 5), (0, 2, 3, 1), (1, 2), (2, 3)),
        ((2, 3, 4, 5), (3, 1, 0, 2), (0, 2), (3, 4)),
        ((4, 6), (0, 1), (0,), (6,)),
    )
    if dtype == torch.float32 or t_shape in ((), (3, 4))
]


@needs_kernel
@pytest.mark.parametrize(("dtype", "shape", "order", "dims", "t_shape"), OPCHECK)
def test_the_registered_operator(dtype, shape, order, dims, t_shape):
    z = torch.randn(shape).to(dtype).permute(order).requires_grad_()
    work = torch.float64 if dtype == torch.float64 else torch.float32
    t = (0.5 + torch.rand(t_shape, dtype=work)).requires_grad_()
    torch.library.opcheck(torch.ops.lae.forward, (z, t, list(dims), False))
    with torch.no_grad():
        value, kept = torch.ops.lae.forward(z, t, list(dims), False)
        torch.library.opcheck(torch.ops.lae.backward, (value, z, t, kept, list(dims), True))
    assert torch.equal(value, logavgexp(z, t, dim=dims))


@needs_kernel
def test_compiled_code_calls_the_kernel_and_gives_the_same_bits():
    torch._dynamo.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(str(graph.graph))
        return graph

    z, t = torch.randn(2, 3, 7, 7, requires_grad=True), torch.tensor(0.7, requires_grad=True)
    compiled = torch.compile(logavgexp, fullgraph=True, backend=backend)
    found, expected = (f(z, t, dim=(2, 3)) for f in (compiled, logavgexp))
    assert torch.equal(found, expected) and any("lae" in graph for graph in graphs)
    for a, b in zip(*(torch.autograd.grad(v.square().sum(), (z, t)) for v in (found, expected)), strict=True):
        assert torch.equal(a, b)


@needs_kernel
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4)])
def test_without_rows_the_gradient_to_t_is_zero(shape):
    z, t = torch.empty(shape, requires_grad=True), torch.tensor(0.7, requires_grad=True)
    value = logavgexp(z, t)
    grads = torch.autograd.grad(value.sum(), (z, t))
    assert value.shape == shape[:2] and grads[0].shape == shape and grads[1] == 0


@needs_kernel
@settings(max_examples=60, deadline=None)
@given(st.permutations(range(4)), st.lists(st.integers(1, 3), min_size=4, max_size=4), st.integers(1, 14))
def test_rows_in_memory_are_what_torch_says(order, shape, chosen):
    dims = tuple(d for d in range(4) if chosen >> d & 1)
    z = torch.arange(math.prod(shape)).view(shape).permute(order)
    rows, outer, n, inner = cpu.rows_in_memory(z, dims)
    assert torch.equal(rows, z) and outer * n * inner == z.numel()
    flat = rows.as_strided((outer, n, inner), (n * inner, inner, 1))
    assert torch.equal(flat.sum(1).flatten().sort().values, z.sum(dims).flatten().sort().values)


def test_forward_mode_and_hessian():
    z, t = torch.randn(5, dtype=torch.float64), torch.tensor(0.7, dtype=torch.float64)

    def textbook(z, t):
        return t * (torch.logsumexp(z / t, -1) - math.log(5))

    for transform in (torch.func.jacfwd, torch.func.jacrev, torch.func.hessian):
        found, expected = (transform(f, argnums=(0, 1))(z, t) for f in (logavgexp, textbook))
        torch.testing.assert_close(found, expected)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(z, torch.ones_like(z))
        assert torch.autograd.forward_ad.unpack_dual(logavgexp(dual, 0.7)).tangent == pytest.approx(1.0)
    with pytest.raises(RuntimeError, match="forward mode within forward mode"):  # torch would make it 0
        torch.func.jacfwd(torch.func.jacfwd(logavgexp))(z, t)


def test_a_tensor_that_is_negated_in_name_only():
    x = torch.randn(3, 8, dtype=torch.complex64)
    z = torch.imag(x.conj())
    assert z.is_neg()
    torch.testing.assert_close(logavgexp(z), logavgexp(z.clone()))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [2, 49, 600])
def test_nan_is_not_lost_among_minus_infinities(dtype, n):
    """A row of padding alone is -inf, and one nan in it shows, with and without the kernel, along and across memory."""
    z = torch.full((3, n), -math.inf, dtype=dtype)
    z[1, -1] = math.nan
    for value in (logavgexp(z), logavgexp(z.t().contiguous(), dim=0), logavgexp(z, mask=torch.ones(3, n).bool())):
        assert value[1].isnan() and value[0] == value[2] == -math.inf
