"""logavgexp as a citizen of torch: edges, errors, derivatives, dtypes, compilation, export, transforms, layouts."""

import copy
import math

import numpy as np
import pytest
import torch
from backends import each_backend

from lae_core import LogAvgExpPool1d, logavgexp, make_pool, segment_logavgexp

INF, NAN = math.inf, math.nan


def randn(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([0.0, NAN, 1.0], NAN),
        ([INF, NAN], NAN),
        ([0.0, INF], INF),
        ([-INF, INF], INF),
        ([-INF, -INF], -INF),
        ([-INF], -INF),
        ([INF], INF),
        ([0.0, -INF], -math.log(2)),
        ([3.25], 3.25),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("masked", [False, True])
def test_inf_and_nan_follow_the_maths(row, expected, dtype, masked):
    z = torch.tensor([row, [0.5] * len(row)], dtype=dtype, requires_grad=True)
    t = torch.ones((), requires_grad=True)
    mask = torch.ones_like(z, dtype=torch.bool) if masked else None
    value = logavgexp(z, t, mask=mask)
    torch.testing.assert_close(value[0], torch.tensor(expected, dtype=dtype), equal_nan=True, rtol=1e-2, atol=0)
    assert value[1] == 0.5, "a strange row must not touch its neighbour"
    grad, grad_t = torch.autograd.grad(value[1], (z, t), retain_graph=True)
    assert torch.equal(grad[1], torch.full_like(grad[1], 1 / len(row))) and grad_t == 0
    if expected == -INF:
        grad, grad_t = torch.autograd.grad(value[0], (z, t))
        assert not grad.any() and grad_t == 0
    elif math.isfinite(expected):
        grad, grad_t = torch.autograd.grad(value[0], (z, t))
        assert grad.isfinite().all() and grad_t.isfinite()


def test_one_element_is_returned_as_it_is():
    z = randn(1000, 1, dtype=torch.float32) * 1e3
    for t in (1e-3, 0.7, 1e6):
        assert torch.equal(logavgexp(z, t), z[:, 0])


def test_a_constant_row_gives_the_constant():
    z = randn(1000, 1, dtype=torch.float32).expand(1000, 37)
    for t in (1e-3, 0.7, 16.0, 1e6):
        assert torch.equal(logavgexp(z, t), z[:, 0])


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_nothing_to_pool(shape):
    z, t = torch.zeros(shape, requires_grad=True), torch.tensor(0.7, requires_grad=True)
    value = logavgexp(z, t)
    assert value.shape == shape[:1] and (value == -INF).all()
    value.sum().backward()
    assert z.grad.shape == shape and t.grad == 0


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"t": 0.0}, ValueError, "t is 0.0.*positive"),
        ({"t": -2}, ValueError, "t is -2.*positive"),
        ({"t": NAN}, ValueError, "t is nan.*positive"),
        ({"t": INF}, ValueError, "t is inf.*finite"),
        ({"t": torch.ones(5)}, ValueError, r"t has shape \(5,\).*\(2, 3\)"),
        ({"t": torch.ones(7, 2, 3)}, ValueError, r"t has shape \(7, 2, 3\).*\(2, 3\)"),
        ({"t": torch.ones(3, dtype=torch.int64)}, TypeError, "t has dtype torch.int64.*floating"),
        ({"t": "warm"}, TypeError, "t is 'warm'.*a positive number or a tensor"),
        ({"t": None}, TypeError, "t is None.*a positive number or a tensor"),
        ({"t": [1.0, 2.0]}, TypeError, "t is .1.0, 2.0.*a positive number or a tensor"),
        ({"t": np.array([1.0, 2.0])}, TypeError, "t is array.*a positive number or a tensor"),
        ({"t": 1j}, TypeError, "t is 1j.*a positive number or a tensor"),
        ({"t": torch.ones(3, device="meta")}, ValueError, "t is on meta, z on cpu; expected one device"),
        ({"mask": torch.ones(4, device="meta").bool()}, ValueError, "mask is on meta, z on cpu"),
        ({"weights": torch.ones(4, device="meta")}, ValueError, "weights is on meta, z on cpu"),
        ({"dim": ()}, ValueError, r"dim is \(\).*at least one"),
        ({"dim": 3}, IndexError, r"dim is 3.*\[-3, 2\]"),
        ({"dim": (0, -3)}, ValueError, "twice"),
        ({"dim": 1.5}, TypeError, "dim is 1.5.*an integer, several integers, or None"),
        ({"dim": "C"}, TypeError, "dim is 'C'.*an integer"),
        ({"mask": torch.ones(4)}, TypeError, "mask is torch.float32.*boolean"),
        ({"mask": [True]}, TypeError, "mask is list.*boolean"),
        ({"mask": torch.ones(5, dtype=torch.bool)}, ValueError, r"mask has shape \(5,\).*\(2, 3, 4\)"),
        ({"z": torch.ones(2, 3, 4, dtype=torch.int64)}, TypeError, "z has dtype torch.int64.*float64"),
        ({"z": [1.0, 2.0]}, TypeError, "z is list; expected a torch.Tensor"),
        ({"z": torch.ones(2, 3).to_sparse()}, TypeError, "z has layout torch.sparse_coo; expected a dense tensor"),
    ],
)
def test_bad_input_is_refused_with_its_name(arguments, error, words):
    with pytest.raises(error, match=words):
        logavgexp(**{"z": torch.zeros(2, 3, 4), **arguments})


def test_without_a_dim_all_is_pooled():
    z = randn(2, 3, 4)
    assert torch.equal(logavgexp(z, 2.0, dim=None), logavgexp(z.flatten(), 2.0))
    assert logavgexp(z, 2.0, dim=None, keepdim=True).shape == (1, 1, 1)


@pytest.mark.parametrize("dim", [0, -1, None, (0,)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_number_is_returned_as_it_is(dim, keepdim):
    z = torch.tensor(3.25, requires_grad=True)
    value = logavgexp(z, 0.3, dim=dim, keepdim=keepdim)
    assert torch.equal(value, torch.logsumexp(z, 0 if dim is None else dim, keepdim=keepdim))
    assert torch.autograd.grad(value, z)[0] == 1
    assert logavgexp(z, mask=torch.tensor(False)) == -INF and logavgexp(z, weights=torch.tensor(2.0)) == 3.25
    with pytest.raises(IndexError, match=r"dim is 1.*\[-1, 0\]"):
        logavgexp(z, dim=1)


@pytest.mark.parametrize(
    "dim", [np.int64(1), (np.int32(1), np.int64(-1)), np.array([0, 2]), np.array(1), torch.tensor(1)], ids=str
)
def test_integers_of_numpy_are_integers(dim):
    z = randn(2, 3, 4)
    plain = int(dim) if np.ndim(dim) == 0 else tuple(map(int, dim))
    assert torch.equal(logavgexp(z, dim=dim), logavgexp(z, dim=plain))


@pytest.mark.filterwarnings("ignore")  # torch's, that nested tensors are new
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
@pytest.mark.parametrize(
    "pool",
    [
        lambda z: logavgexp(z, dim=1),
        lambda z: segment_logavgexp(z, torch.tensor([0, 1])),
        make_pool("avg", input_fmt="NLC"),
        make_pool("lae", input_fmt="NLC"),
        LogAvgExpPool1d(2),
    ],
    ids=["function", "segments", "avg", "lae", "windows"],
)
def test_a_nested_tensor_is_refused(layout, pool):
    nested = torch.nested.nested_tensor([torch.zeros(3, 2), torch.ones(5, 2)], layout=layout)
    with pytest.raises(TypeError, match=r"z is a nested tensor.*segment_logavgexp"):
        pool(nested)


def test_a_tensor_t_that_is_not_positive_gives_nan():
    t = torch.tensor([1.0, 0.0, -1.0, NAN])
    assert logavgexp(randn(4, 9, dtype=torch.float32), t).isnan().tolist() == [False, True, True, True]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_first_and_second_derivatives(scale, masked):
    z = (scale * randn(3, 4, 5)).requires_grad_()
    t = (0.5 + randn(3, 1).abs()).requires_grad_()
    mask = None
    if masked:
        mask = randn(3, 4, 5, seed=1) > -0.5
        mask[0, 0] = torch.arange(5) == 2

    def operator(z, t):
        return logavgexp(z, t.expand(3, 4), dim=2, mask=mask)

    assert torch.autograd.gradcheck(operator, (z, t))
    assert torch.autograd.gradgradcheck(operator, (z, t))


def test_a_second_derivative_past_minus_infinity():
    z = torch.tensor([[0.0, -INF, 1.0], [-INF, -INF, -INF]], dtype=torch.float64, requires_grad=True)
    t = torch.ones(2, dtype=torch.float64, requires_grad=True)
    value = logavgexp(z, t)
    grad, grad_t = torch.autograd.grad(value[0], (z, t), create_graph=True)
    for first in (grad[0, 0], grad_t[0]):
        second, second_t = torch.autograd.grad(first, (z, t), retain_graph=True)
        assert second.isfinite().all() and second_t.isfinite().all()
    exact, exact_t = torch.autograd.grad(logavgexp(z, t)[0], (z, t))
    torch.testing.assert_close(grad, exact)
    torch.testing.assert_close(grad_t, exact_t)


@pytest.mark.parametrize("t_shape", [(), (3,), (2, 1), (2, 3)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_dims_and_broadcasting(t_shape, keepdim):
    z, t = randn(2, 3, 4, 5), 0.5 + randn(*t_shape).abs()
    t_given = t.reshape(*t_shape, 1, 1) if keepdim and t_shape else t
    value = logavgexp(z, t_given, dim=(-1, 2), keepdim=keepdim)
    assert value.shape == ((2, 3, 1, 1) if keepdim else (2, 3))
    spread = t.expand(2, 3)
    for i in range(2):
        for j in range(3):
            alone = logavgexp(z[i, j].flatten(), float(spread[i, j]))
            torch.testing.assert_close(value[i, j].squeeze(), alone)
    torch.testing.assert_close(logavgexp(z.permute(2, 0, 3, 1), t, dim=(0, 2)), logavgexp(z, t, dim=(2, 3)))


@pytest.mark.parametrize("t", [0.25, 4.0, 100.0])
def test_layouts_agree(t):
    z = randn(4, 8, 6, 7, dtype=torch.float32)
    heat = torch.full((8,), t, requires_grad=True)
    expected = None
    for view in (
        z,
        z.to(memory_format=torch.channels_last),
        torch.cat([z, z], 3)[..., ::2],
        z.transpose(0, 1).contiguous().transpose(0, 1),
    ):
        leaf = view.detach().requires_grad_()
        value = logavgexp(leaf, heat, dim=(2, 3))
        found = (value, *torch.autograd.grad(value.square().sum(), (leaf, heat)))
        if view.shape == z.shape and torch.equal(view, z):
            expected = expected or found
            for a, b in zip(found, expected, strict=True):
                torch.testing.assert_close(a, b)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("wide", [0.03, 0.15, 0.6, 1.0])
def test_rows_of_all_kinds_together_are_what_they_are_alone(wide, each, trained, layout):
    """Most rows narrow or most rows wide, beside some of zeros, nan and inf."""
    z = randn(20, 64, 6, 6, dtype=torch.float32)
    z *= torch.where(torch.arange(20 * 64) % 100 < 100 * wide, 40.0, 0.8).view(20, 64, 1, 1)[:, torch.randperm(64)]
    z[0, :9], z[1, 1, 2], z[2, 2, 3], z[3, 3, 4], z[4, 4] = 0.0, math.nan, math.inf, -math.inf, -math.inf
    heat = torch.full((20, 64) if each else (), 8.0)

    def results(z, heat):
        z, heat = z.detach().requires_grad_(), heat.clone().requires_grad_(trained)
        value = logavgexp(z, heat, dim=(2, 3))
        usual = value.isfinite()
        grads = torch.autograd.grad(value[usual].sum(), (z, heat) if each and trained else (z,))
        return value, grads[0] * usual[:, :, None, None], *grads[1:]

    together = results(z.to(memory_format=layout), heat)
    alone = [
        results(z[i : i + 1, j : j + 1], heat[i : i + 1, j : j + 1] if each else heat)
        for i in range(5)
        for j in range(64)
    ]
    for a, b in zip(together, zip(*alone, strict=True), strict=True):
        b = torch.cat([x.flatten() for x in b]).view(a[:5].shape)
        torch.testing.assert_close(a[:5], b, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_autocast_leaves_the_precision_alone(dtype):
    z = randn(4, 64, dtype=dtype).requires_grad_()
    t = torch.tensor(64.0, requires_grad=True)
    plain = logavgexp(z, t)
    expected = torch.autograd.grad(plain.sum(), (z, t))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = logavgexp(z, t)
        found = torch.autograd.grad(inside.sum(), (z, t))
    assert inside.dtype == dtype and torch.equal(inside, plain)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("masked", [False, True])
def test_compiles_whole(masked):
    torch._dynamo.reset()
    z, t = randn(2, 3, 4, 4, dtype=torch.float32).requires_grad_(), torch.tensor([0.5, 1.0, 64.0], requires_grad=True)
    mask = randn(2, 1, 4, 4) > 0 if masked else None
    compiled = torch.compile(logavgexp, fullgraph=True)
    value, expected = compiled(z, t, dim=(2, 3), mask=mask), logavgexp(z, t, dim=(2, 3), mask=mask)
    torch.testing.assert_close(value, expected)
    for a, b in zip(*(torch.autograd.grad(v.square().sum(), (z, t)) for v in (value, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@each_backend
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("t_shape", [(), (16,), (3, 1), (3, 16)], ids=str)
def test_gradients_to_t_when_compiled(t_shape, layout, backend):
    """For each shape of t, also past rows of nan, inf and -inf that have no gradient."""
    torch._dynamo.reset()
    z = randn(3, 16, 7, 7, dtype=torch.float32)
    z[0, 1, 2], z[1, 3, 4], z[2, 5] = math.nan, math.inf, -math.inf
    value_grad = randn(3, 16, dtype=torch.float32)
    value_grad[0, 1] = value_grad[1, 3] = 0.0
    z = z.to(memory_format=layout).requires_grad_()
    t = (0.5 + randn(*t_shape, dtype=torch.float32).abs()).requires_grad_()
    found, expected = (
        torch.autograd.grad(operator(z, t, dim=(2, 3)), t, value_grad)[0]
        for operator in (torch.compile(logavgexp, fullgraph=True, backend=backend), logavgexp)
    )
    assert expected.isfinite().all()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_vmap_and_grad_transforms():
    z, t = randn(5, 3, 7), 0.5 + randn(5).abs()
    mask = randn(5, 3, 7, seed=2) > -1

    def total(z, t, mask):
        return logavgexp(z, t, dim=1, mask=mask).sum()

    for given_mask, mask_dim in ((None, None), (mask, 0)):
        found = torch.func.vmap(torch.func.grad(total, argnums=(0, 1)), in_dims=(0, 0, mask_dim))(z, t, given_mask)
        for i in range(5):
            leaf, heat = z[i].clone().requires_grad_(), t[i].clone().requires_grad_()
            expected = torch.autograd.grad(total(leaf, heat, None if given_mask is None else mask[i]), (leaf, heat))
            torch.testing.assert_close([f[i] for f in found], list(expected))
    shared = torch.func.vmap(lambda t: logavgexp(z, t, dim=(1, 2)))(torch.tensor([0.5, 2.0], dtype=torch.float64))
    torch.testing.assert_close(shared[1], logavgexp(z, 2.0, dim=(1, 2)))
    hessian = torch.func.jacrev(torch.func.jacrev(lambda z: logavgexp(z, 2.0)))(z[0, 0])
    w = torch.softmax(z[0, 0] / 2, 0)
    torch.testing.assert_close(hessian, (torch.diag(w) - w.outer(w)) / 2)


class Pooled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.log_t = torch.nn.Parameter(torch.tensor([-1.0, 0.0, 5.0]))

    def forward(self, z):
        return logavgexp(z, self.log_t.exp(), dim=(2, 3))


def test_exports():
    z = randn(2, 3, 8, 8, dtype=torch.float32)
    module = Pooled()
    batch = torch.export.Dim("batch", min=1)
    exported = torch.export.export(module, (z,), dynamic_shapes=({0: batch},))
    other = randn(5, 3, 8, 8, dtype=torch.float32, seed=3)
    torch.testing.assert_close(exported.module()(other), module(other))


def test_exports_for_maps_of_any_size():
    """One graph for short rows and for long ones, which are added more carefully."""
    module = Pooled()
    sizes = {0: torch.export.Dim("batch"), 2: torch.export.Dim("height"), 3: torch.export.Dim("width")}
    exported = torch.export.export(module, (randn(2, 3, 8, 9, dtype=torch.float32),), dynamic_shapes=(sizes,)).module()
    for shape in ((5, 3, 7, 7), (2, 3, 40, 50)):
        other = randn(*shape, dtype=torch.float32, seed=3)
        torch.testing.assert_close(exported(other), module(other))


def test_onnx_in_onnxruntime(tmp_path):
    import onnxruntime

    z = 100 * randn(4, 3, 8, 8, dtype=torch.float32)
    z[0, 0] = 0.0
    module = Pooled()
    file = tmp_path / "lae.onnx"
    torch.onnx.export(copy.deepcopy(module).eval(), (z,), file, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(str(file))
    (found,) = session.run(None, {session.get_inputs()[0].name: z.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), module(z).detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_cuda_agrees_with_the_cpu(dtype):
    z, t = randn(8, 16, 49, dtype=dtype), torch.tensor(4.0)
    results = []
    for device in ("cpu", "cuda"):
        leaf, heat = z.to(device).requires_grad_(), t.to(device).requires_grad_()
        value = logavgexp(leaf, heat)
        results.append([x.cpu() for x in (value, *torch.autograd.grad(value.sum(), (leaf, heat)))])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("mask", [None, True])
def test_a_graph_that_is_kept_gives_the_same_gradient_again(mask):
    z = torch.randn(4, 3, 6, 6, requires_grad=True)
    where = torch.rand(4, 3, 6, 6) < 0.7 if mask else None
    once = torch.autograd.grad(logavgexp(z, 0.5, dim=(2, 3), mask=where).sum(), z)[0]
    value = logavgexp(z, 0.5, dim=(2, 3), mask=where)
    kept = [torch.autograd.grad(value.sum(), z, retain_graph=True)[0] for _ in range(2)]
    last = torch.autograd.grad(value.sum(), z)[0]
    for gradient in (*kept, last):
        assert torch.equal(gradient, once)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(value.sum(), z)


def test_gradient_under_checkpointing_and_saved_tensor_hooks():
    from torch.utils.checkpoint import checkpoint

    z = torch.randn(4, 3, 6, 6, requires_grad=True)
    expected = torch.autograd.grad(logavgexp(z, 0.5, dim=(2, 3)).square().sum(), z)[0]
    again = checkpoint(lambda x: logavgexp(x, 0.5, dim=(2, 3)).square().sum(), z, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(again, z)[0], expected)
    with torch.autograd.graph.save_on_cpu():
        value = logavgexp(z, 0.5, dim=(2, 3)).square().sum()
    assert torch.equal(torch.autograd.grad(value, z)[0], expected)


@pytest.mark.parametrize("trained", [False, True])
def test_a_batch_of_gradients_is_what_they_are_one_by_one(trained):
    z, t = torch.randn(2, 3, 5, 5, requires_grad=True), torch.tensor(0.7, requires_grad=trained)
    leaves = (z, t) if trained else (z,)
    grads = torch.randn(4, 2, 3)
    batch = torch.autograd.grad(logavgexp(z, t, dim=(2, 3)), leaves, grads, is_grads_batched=True)
    for i, grad in enumerate(grads):
        for found, alone in zip(batch, torch.autograd.grad(logavgexp(z, t, dim=(2, 3)), leaves, grad), strict=True):
            torch.testing.assert_close(found[i], alone)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("t", [0.3, 1.0, 2.0, 4.0, 100.0])
@pytest.mark.parametrize("trained", [False, True])
def test_half_types_agree_with_float32_where_some_rows_need_care(dtype, t, trained):
    """Many rows of which a few are narrow, or have an outlier."""
    scale = torch.where(torch.arange(512) % 40 == 0, 0.01, 1.0).view(-1, 1, 1)
    z = (torch.randn(8, 512, 8, 8) * scale).to(dtype)
    z[:, 1::40, 0, 0] = 12 * t
    found = []
    for x in (z, z.float()):
        x, heat = x.requires_grad_(), torch.tensor(t, requires_grad=trained)
        value = logavgexp(x, heat, dim=(2, 3))
        found.append((value, *torch.autograd.grad(value.sum(), (x, heat) if trained else x)))
    for half, single in zip(*found, strict=True):
        torch.testing.assert_close(half.float(), single, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (3,), (1, 1)])
def test_an_array_of_numpy_is_no_temperature(shape):
    with pytest.raises(TypeError, match="t is array"):
        logavgexp(torch.randn(3, 4), np.ones(shape))
