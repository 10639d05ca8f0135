"""The pools, the grammar that names them, and weight decay."""

import math

import pytest
import torch
from backends import each_backend
from torch import nn

from lae_core import LogAvgExpPool1d, LogAvgExpPool2d, PoolSpec, logavgexp, make_pool, weight_decay_groups

SPECS = (
    "avg",
    "max",
    "lse",
    "avg(train=one)",
    "avg(train=channel)",
    "lae",
    "lae(t0=4)",
    "lae(t0=4, train=one)",
    "lae(t0=0.25, train=channel)",
    "lae(train=context)",
    "lae(t0=4, train=context-channel)",
    "lae(t0=32, form=textbook)",
    "lae(t0=0.2, train=channel, t_min=0.05)",
    "lae(t0=4, train=context, t_min=0.5)",
    "mixed",
    "mixed(a0=0.25, train=channel)",
    "mixed(a0=0.75, train=channel, bounds=unit)",
    "gated",
    "gated(train=channel)",
    "gem",
    "gem(p0=4, train=no)",
    "lae(t0=4, train=one, dtype=float64)",
)


@pytest.mark.parametrize("text", SPECS)
def test_spec_round_trips(text):
    spec = PoolSpec.parse(text)
    assert str(spec) == text and PoolSpec.parse(str(spec)) == spec and hash(PoolSpec.parse(text)) == hash(spec)


def test_defaults_and_order_are_normalised():
    assert str(PoolSpec.parse(" lae( train=channel ,t0=4.0, form=stable) ")) == "lae(t0=4, train=channel)"
    assert PoolSpec.parse("lae(t0=1, train=no)") == PoolSpec.parse("lae")
    assert float(str(PoolSpec.parse(f"lae(t0={math.pi})"))[7:-1]) == math.pi
    assert PoolSpec.parse("lae")["t0"] == 1.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lea", "no pool 'lea'.*avg, max, lse, lae, mixed, gated, gem"),
        ("lae(t=4)", "no argument 't=4'.*t0, train, form, t_min, r0, dtype"),
        ("lae(t0=4, r0=5)", r"t0 and r0 are both given in 'lae\(t0=4, r0=5\)'; expected one, as t0 = 1/r0"),
        ("lae(r0=0)", "r0 .*'0'.*positive number"),
        ("lae(t_min=1)", "t_min = 1.0 is invalid for t0 = 1.0; expected a number from 0 to below t0"),
        ("lae(r0=5, t_min=0.2)", "t_min = 0.2 is invalid for t0 = 0.2"),
        ("lae(t0=0)", "t0 .*'0'.*positive number"),
        ("lae(t0=warm)", "'warm'.*positive number"),
        ("lae(train=all)", "'all'.*no, one, channel, context, context-channel"),
        ("lae(t0=1, t0=2)", "t0 is given twice"),
        ("lae(4)", "no argument '4'"),
        ("avg(dtype=int8)", "'int8'.*float16"),
        ("lae(t0=4", "cannot read"),
        (4, "cannot read"),
    ],
)
def test_a_bad_spec_is_refused_helpfully(text, words):
    with pytest.raises(ValueError, match=words):
        PoolSpec.parse(text)


@pytest.mark.parametrize("text", SPECS)
@pytest.mark.parametrize("shape", [(2, 6, 4, 5), (3, 6, 1, 1), (2, 6, 9), (2, 6, 2, 3, 4)])
def test_shapes_gradients_and_reload(text, shape):
    torch.manual_seed(0)
    z = torch.randn(shape, requires_grad=True)
    pool = make_pool(text, 6)
    out = pool(z)
    assert out.shape == shape[:2] and out.dtype == z.dtype and out.isfinite().all()
    assert make_pool(text, 6, flatten=False)(z).shape == (*shape[:2], *[1] * (len(shape) - 2))
    out.square().sum().backward()
    assert z.grad.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in pool.parameters())
    assert bool(list(pool.parameters())) == (
        PoolSpec.parse(text).name in ("mixed", "gated") or ("train=" in text and "=no" not in text) or text == "gem"
    )
    again = make_pool(text, 6)
    again.load_state_dict(pool.state_dict())
    assert torch.equal(again(z), out)


@pytest.mark.parametrize("text", SPECS)
def test_constant_input_is_kept(text):
    """Every pool but LSE gives a constant back; LSE adds log n."""
    z = torch.full((2, 6, 3, 3), 0.75)
    expected = 0.75 + (math.log(9) if text == "lse" else 0)
    torch.testing.assert_close(make_pool(text, 6)(z), torch.full((2, 6), expected))


def test_what_the_pools_compute():
    z = torch.randn(2, 6, 4, 4)
    rows = z.flatten(2)
    expected = {
        "avg": rows.mean(2),
        "max": rows.amax(2),
        "lse": rows.logsumexp(2),
        "lae(t0=4, train=channel)": logavgexp(rows, 4.0),
        "lae(t0=4, train=context)": logavgexp(rows, 4.0),
        "lae(t0=4, form=textbook)": logavgexp(rows, 4.0),
        "mixed(a0=0.25)": 0.25 * rows.amax(2) + 0.75 * rows.mean(2),
        "mixed(a0=0.25, bounds=unit)": 0.25 * rows.amax(2) + 0.75 * rows.mean(2),
        "gated": (rows.amax(2) + rows.mean(2)) / 2,
    }
    for text, value in expected.items():
        torch.testing.assert_close(make_pool(text, 6)(z), value, rtol=1e-5, atol=1e-5)
    positive = z.abs() + 0.1
    scaled = make_pool("avg(train=channel)", 6)
    torch.testing.assert_close(scaled(positive), positive.mean((2, 3)))  # it starts as the average
    scaled.log_scale.data[2] = math.log(3)
    torch.testing.assert_close(scaled(positive)[:, 2], 3 * positive[:, 2].mean((1, 2)))
    torch.testing.assert_close(make_pool("gem", 6)(positive), positive.flatten(2).pow(3).mean(2).pow(1 / 3))


def test_context_reads_the_input():
    pool = make_pool("lae(t0=1, train=context)", 6)
    with torch.no_grad():
        pool.weight.copy_(torch.tensor([0.0, 1.0, 0.0]))  # log t is the channel's maximum
    z = torch.randn(2, 6, 16)
    torch.testing.assert_close(pool.temperatures(z), z.amax(2).exp())
    torch.testing.assert_close(pool(z), logavgexp(z, z.amax(2).exp()))


def test_the_pooling_step_alone_changes_precision():
    """In float16 the textbook form loses everything at a high temperature, ours nothing beyond the rounding of its input."""
    z = torch.randn(8, 6, 8, 8)
    mean = z.flatten(2).mean(2)
    error = {
        form: float((make_pool(f"lae(t0=1024, form={form}, dtype=float16)", 6)(z) - mean).abs().max())
        for form in ("stable", "textbook")
    }
    assert error["stable"] < 3e-3 < 0.3 < error["textbook"]
    assert make_pool("avg(dtype=float64)", 6)(z).dtype == torch.float32


def test_modules_print_their_temperature():
    assert repr(make_pool("lae(t0=4, train=one)", 6)) == "LAEPool(t=4, r=0.25, trained)"
    assert repr(make_pool("lae(r0=5)", 6, input_fmt="NLC")) == "LAEPool(t=0.2, r=5, fixed, input_fmt=NLC)"
    assert repr(make_pool("lae(t0=4, train=one, t_min=1)", 6)) == "LAEPool(t=4, r=0.25, trained, t_min=1)"
    pool = make_pool("lae(t0=4, train=channel)", 6, flatten=False)
    with torch.no_grad():
        pool.log_t[0] = math.log(2)
    assert repr(pool) == "LAEPool(t=2..4, r=0.25..0.5 (6 channels), trained, flatten=False)"
    assert repr(make_pool("lae(t0=4, train=channel)", 6)) == "LAEPool(t=4, r=0.25 (6 channels), trained)"
    assert "fixed" in repr(make_pool("lae", 6)) and "alpha=0.5" in repr(make_pool("mixed", 6))


def test_mixing_leaves_the_unit_interval_only_without_bounds():
    z = torch.randn(4, 6, 9)
    found = {}
    for bounds in ("no", "unit"):
        pool = make_pool(f"mixed(bounds={bounds})", 6)
        optimiser = torch.optim.SGD(pool.parameters(), lr=10.0)
        (-pool(z).mean()).backward()  # asks for more of the maximum
        optimiser.step()
        found[bounds] = pool.mixing.item()
    assert found["no"] > 1 > found["unit"] > 0.5
    with pytest.raises(ValueError, match=r"a0 .*1.5.*from 0 to 1"):
        make_pool("mixed(a0=1.5, bounds=unit)", 6)


def test_a_flat_input_is_refused():
    with pytest.raises(ValueError, match=r"shape \(2, 6\).*batch, channels"):
        make_pool("avg", 6)(torch.randn(2, 6))


def test_weight_decay_leaves_temperatures_and_mixing_factors_out():
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3), make_pool("lae(train=channel)", 6, flatten=False), make_pool("mixed", 6), nn.Linear(6, 2)
    )
    groups = {group["name"]: group for group in weight_decay_groups(model, 0.1)}
    assert groups["decay"]["weight_decay"] == 0.1 and len(groups["decay"]["params"]) == 4
    assert [id(p) for p in groups["temperature"]["params"]] == [id(model[1].log_t)]
    assert [id(p) for p in groups["no_decay"]["params"]] == [id(model[2].alpha)]
    assert groups["temperature"]["weight_decay"] == groups["no_decay"]["weight_decay"] == 0.0
    assert sum(len(g["params"]) for g in groups.values()) == len(list(model.parameters()))
    torch.optim.SGD(list(groups.values()), lr=0.1)
    assert [g["name"] for g in weight_decay_groups(nn.Linear(2, 2), 0.1)] == ["decay"]


@pytest.mark.parametrize("text", SPECS)
@pytest.mark.parametrize("positions", [(9,), (3, 4)])
def test_what_is_masked_does_not_count(text, positions):
    """Each sample is pooled as it is alone, whatever the padding holds, and an empty one gives -inf and no gradient."""
    torch.manual_seed(0)
    pool = make_pool(text, 6)
    for parameter in pool.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    z = torch.randn(3, 6, *positions)
    mask = torch.rand(3, *positions) < 0.6
    mask[2] = False
    dirty = z.masked_fill(~mask[:, None], 77.0 if "gem" in text else math.nan).requires_grad_()
    value = pool(dirty, mask=mask)
    for i in (0, 1):
        alone = pool(z[i : i + 1].flatten(2)[:, :, mask[i].flatten()])
        torch.testing.assert_close(value[i : i + 1], alone, rtol=1e-4, atol=1e-5)
    assert (value[2] == -math.inf).all()
    grads = torch.autograd.grad(value[:2].square().sum(), [dirty, *pool.parameters()])
    assert all(grad.isfinite().all() for grad in grads) and not grads[0].masked_fill(mask[:, None], 0.0).any()
    grads = torch.autograd.grad(pool(dirty, mask=mask)[2].sum(), [dirty, *pool.parameters()])
    assert not any(grad.any() for grad in grads)


@pytest.mark.parametrize("text", ["avg", "mixed", "gated(train=channel)", "lae(t0=2, train=context)"])
def test_masked_means_of_float16_do_not_overflow(text):
    """Neither the sum of 1600 values near 100 nor that of their squared deviations, of 300 squared each, is a float16."""
    torch.manual_seed(0)
    pool, z = make_pool(text, 6), (100 + 150 * torch.randn(2, 6, 40, 40)).half().requires_grad_()
    masked = pool(z, mask=torch.ones(2, 40, 40, dtype=torch.bool))
    torch.testing.assert_close(masked, pool(z), rtol=2e-3, atol=0)
    (grad,) = torch.autograd.grad(masked.float().sum(), z)
    assert grad.isfinite().all()


@pytest.mark.parametrize("text", SPECS)
def test_masks_of_all_shapes_and_lengths(text):
    torch.manual_seed(0)
    pool, z, lengths = make_pool(text, 6), torch.randn(3, 6, 9), torch.tensor([9, 4, 1])
    mask = torch.arange(9) < lengths[:, None]
    expected = pool(z, mask)
    for given in (mask[:, None], mask[:, None].expand(3, 6, 9)):
        torch.testing.assert_close(pool(z, mask=given), expected)
    torch.testing.assert_close(pool(z, lengths=lengths), expected)
    torch.testing.assert_close(pool(z, mask=torch.ones(1, 1, dtype=torch.bool)), pool(z), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("text", SPECS)
@pytest.mark.parametrize(("last", "shape"), [("NLC", (2, 9, 6)), ("NHWC", (2, 3, 4, 6)), ("NDHWC", (2, 2, 3, 2, 6))])
def test_tokens_are_pooled_as_positions_are(text, last, shape):
    torch.manual_seed(0)
    z, mask = torch.randn(shape), torch.rand(shape[:-1]) < 0.8
    first, tokens = make_pool(text, 6), make_pool(text, 6, input_fmt=last)
    for arguments in ({}, {"mask": mask}):
        torch.testing.assert_close(tokens(z, **arguments), first(z.movedim(-1, 1), **arguments))
    torch.testing.assert_close(tokens(z, mask=mask.unsqueeze(-1)), first(z.movedim(-1, 1), mask=mask))
    kept = make_pool(text, 6, flatten=False, input_fmt=last)(z)
    assert kept.shape == (2, *[1] * (len(shape) - 2), 6)
    torch.testing.assert_close(kept.flatten(1), tokens(z))


def test_agrees_with_the_pool_for_tokens_of_timm():
    from timm.layers import LsePlus1d

    z = torch.randn(2, 50, 6)
    torch.testing.assert_close(make_pool("lae(r0=10)", input_fmt="NLC")(z), LsePlus1d(r=10.0)(z))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"mask": torch.ones(2, 9)}, TypeError, "mask is torch.float32; expected a boolean tensor"),
        ({"mask": [True]}, TypeError, "mask is list"),
        (
            {"mask": torch.ones(2, 8, dtype=torch.bool)},
            ValueError,
            r"mask has shape \(2, 8\); expected \(2, 9\) or \(2, 6, 9\)",
        ),
        ({"mask": torch.ones(9, dtype=torch.bool)}, ValueError, r"mask has shape \(9,\)"),
        ({"lengths": [1, 2]}, TypeError, "lengths is list; expected a tensor of integers"),
        ({"lengths": torch.ones(2)}, TypeError, "lengths is torch.float32"),
        (
            {"lengths": torch.tensor([1, 2, 3])},
            ValueError,
            r"lengths has shape \(3,\); expected one number per sample, \(2,\)",
        ),
        (
            {"lengths": torch.tensor([1, 10])},
            ValueError,
            r"lengths = \[1, 10\] is invalid; expected numbers from 0 to 9",
        ),
        (
            {"lengths": torch.tensor([1, 2]), "mask": torch.ones(2, 9) > 0},
            ValueError,
            "mask and lengths are both given",
        ),
    ],
)
def test_a_bad_mask_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        make_pool("lae", 6)(torch.zeros(2, 6, 9), **arguments)


def test_other_bad_inputs_are_refused():
    with pytest.raises(ValueError, match="lengths is given for 2 dimensions of positions; expected one, or a mask"):
        make_pool("lae", 6)(torch.zeros(2, 6, 3, 3), lengths=torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="input_fmt = 'CHW' is invalid; expected one of NCHW, NCL, NCDHW, NLC, NHWC"):
        make_pool("lae", 6, input_fmt="CHW")
    with pytest.raises(ValueError, match=r"shape \(2, 6\); .*batch, \*positions, channels"):
        make_pool("lae", 6, input_fmt="NLC")(torch.zeros(2, 6))


def test_sharpness_is_the_inverse_of_the_temperature():
    assert (
        PoolSpec.parse("lae(r0=5)") == PoolSpec.parse("lae(t0=0.2)")
        and str(PoolSpec.parse("lae(r0=5)")) == "lae(t0=0.2)"
    )
    assert PoolSpec.parse("lae(t0=4)")["r0"] == 0.25
    z = torch.randn(2, 6, 9)
    assert torch.equal(make_pool("lae(r0=5, train=one)")(z), make_pool("lae(t0=0.2, train=one)")(z))


@pytest.mark.parametrize("train", ["one", "channel", "context"])
def test_no_step_takes_the_temperature_below_its_floor(train):
    pool = make_pool(f"lae(t0=1, train={train}, t_min=0.25)", 6)
    torch.testing.assert_close(pool.temperature, torch.ones_like(pool.temperature))
    z = torch.randn(4, 6, 9)
    optimiser = torch.optim.SGD(pool.parameters(), lr=100.0)
    for _ in range(5):
        (-pool(z).mean()).backward()  # asks for the maximum
        optimiser.step()
        t = pool.temperatures(z) if train == "context" else pool.temperature
        assert (t >= 0.25).all()
    assert pool.temperature.min() < 0.3


@each_backend
@pytest.mark.parametrize("text", ["lae(t0=4, train=channel)", "avg", "gated"])
def test_masked_pools_compile_and_export(text, backend):
    torch._dynamo.reset()
    pool, z, lengths = make_pool(text, 6, input_fmt="NLC"), torch.randn(3, 9, 6), torch.tensor([9, 4, 1])
    expected = pool(z, lengths=lengths)
    compiled = torch.compile(pool, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(z, lengths=lengths), expected)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", min=2)}
    program = torch.export.export(
        pool, (z, None, lengths), dynamic_shapes={"z": sizes, "mask": None, "lengths": {0: sizes[0]}}
    )
    more = torch.randn(5, 20, 6)
    mask = torch.tensor([20, 4, 1, 7, 8])
    torch.testing.assert_close(program.module()(more, None, mask), pool(more, lengths=mask))


@pytest.mark.parametrize("t0", [1e-300, 1e-50, 1e39, 1e300])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16], ids=str)
def test_no_temperature_of_a_pool_is_0_or_infinite(t0, dtype):
    """Its logarithm may be of any size: exp of it would be 0 or inf, the value and the gradient nan."""
    z = torch.randn(2, 6, 4, 4).to(dtype).requires_grad_()
    for pool in (make_pool(f"lae(t0={t0}, train=channel)", 6), LogAvgExpPool2d(4, t0=t0, train="one")):
        value = pool.to(dtype)(z).flatten(1)
        expected = z.amax((2, 3)) if t0 < 1 else z.mean((2, 3))
        torch.testing.assert_close(value, expected, rtol=0, atol=4e-3 if dtype == torch.float16 else 1e-6)
        assert all(g.isfinite().all() for g in torch.autograd.grad(value.sum(), (z, pool.log_t)))


def test_a_context_far_out_gives_no_nan():
    pool = make_pool("lae(train=context)", 6)
    torch.nn.init.ones_(pool.weight)
    for z in (torch.full((2, 6, 4, 4), 300.0), -300 * torch.rand(2, 6, 4, 4), 50 * torch.randn(2, 6, 4, 4)):
        z.requires_grad_()
        value = pool(z)
        assert all(x.isfinite().all() for x in (value, *torch.autograd.grad(value.sum(), (z, *pool.parameters()))))


@pytest.mark.parametrize("text", SPECS)
@pytest.mark.parametrize("flatten", [True, False])
def test_inputs_without_samples_or_positions(text, flatten):
    for last, shape in (("NCHW", (0, 6, 4, 4)), ("NHWC", (0, 4, 4, 6))):
        value = make_pool(text, 6, flatten, last)(torch.zeros(shape))
        assert value.shape == ((0, 6) if flatten else (0, 6, 1, 1) if last == "NCHW" else (0, 1, 1, 6))
    z = torch.zeros(2, 6, 0, requires_grad=True)
    value = make_pool(text, 6, flatten)(z)
    assert (value == -math.inf).all() and value.flatten(1).shape == (2, 6)
    assert torch.autograd.grad(value.sum(), z)[0].shape == z.shape


@pytest.mark.parametrize("text", [text for text in SPECS if "channel" in text])
def test_another_number_of_channels_is_refused(text):
    """One channel would be broadcast, to a result of six."""
    for channels in (1, 4):
        with pytest.raises(ValueError, match=f"the input has {channels} channels; expected 6"):
            make_pool(text, 6)(torch.zeros(2, channels, 3, 3))


@pytest.mark.parametrize("text", ["avg", "max", "lae"])
@pytest.mark.parametrize(
    ("z", "words"),
    [
        (None, "z is NoneType; expected a torch.Tensor"),
        (torch.ones(2, 6, 4, dtype=torch.int64), "z has dtype torch.int64; expected float64, float32, bfloat16"),
        (torch.ones(2, 6, 4).to_sparse(), "z has layout torch.sparse_coo; expected a dense tensor"),
    ],
    ids=["none", "integers", "sparse"],
)
def test_what_is_no_input_is_named(text, z, words):
    for pool in (make_pool(f"{text}(dtype=float64)"), LogAvgExpPool1d(2)):
        with pytest.raises(TypeError, match=words):
            pool(z)


@pytest.mark.parametrize("text", SPECS)
def test_a_pool_without_values_prints_itself(text):
    assert type(make_pool(text, 6)).__name__ in repr(make_pool(text, 6).to("meta"))
    assert "device meta" in repr(LogAvgExpPool1d(2).to("meta"))
