"""Schedules at their corners, Ranger against an independent one, and who decays."""

import math

import pytest
import torch
from torch import nn

from lae_core.training import network, optim
from lae_core.training.config import RunConfig


def test_schedules_at_their_corners():
    assert [optim.ramp(p, 0.125) for p in (0, 0.0625, 0.125, 0.5625, 1)] == pytest.approx([0, 0.5, 1, 0.5, 0])
    assert [optim.ramp(p, 0) for p in (0, 0.5)] == pytest.approx([1, 0.5])
    steps = [optim.step(p, (0.5, 0.75), 0.1) for p in (0, 0.499, 0.5, 0.74, 0.75, 0.99)]
    assert steps == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    assert [optim.flat_cosine(p, 0.6) for p in (0, 0.599, 0.8, 1)] == pytest.approx([1, 1, 0.5, 0])
    assert optim.flat_cosine(0.9, 1) == 1 and optim.ramp(0.5, 1) == 0.5


def test_the_papers_schedules():
    wrn = optim.schedule(RunConfig(epochs=48))
    assert [wrn(e / 48) for e in (3, 6, 27)] == pytest.approx([0.5, 1, 0.5])
    pyramid = optim.schedule(RunConfig(network="pyramidnet", depth=110, width=200, schedule="step", epochs=300))
    assert [pyramid(e / 300) for e in (149, 150, 225)] == pytest.approx([1, 0.1, 0.01])


def problem(seed: int = 0) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    return model, torch.randn(40, 5).double(), torch.randn(40, 3).double()


def fit(model, optimiser, x, y, steps=40):
    for _ in range(steps):
        optimiser.zero_grad()
        (model(x) - y).square().mean().backward()
        optimiser.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_ranger_is_radam_under_lookahead():
    """Against both written out by hand, with decoupled decay, over several lookahead rounds."""
    lr, b1, b2, eps, decay = 0.02, 0.95, 0.99, 1e-6, 0.1
    model, x, y = problem()
    config = RunConfig(optimiser="ranger", lr=lr, momentum=b1, beta2=b2, eps=eps, weight_decay=decay, decay_norm=True)
    ours = fit(model, optim.optimiser(model, config), x, y)

    model, x, y = problem()
    params = list(model.parameters())
    slow = [p.detach().clone() for p in params]
    m, v = [torch.zeros_like(p) for p in params], [torch.zeros_like(p) for p in params]
    longest = 2 / (1 - b2) - 1
    for t in range(1, 41):
        grads = torch.autograd.grad((model(x) - y).square().mean(), params)
        rho = longest - 2 * t * b2**t / (1 - b2**t)
        with torch.no_grad():
            for i, (p, g) in enumerate(zip(params, grads, strict=True)):
                p.mul_(1 - lr * decay)
                m[i].lerp_(g, 1 - b1)
                v[i].mul_(b2).addcmul_(g, g, value=1 - b2)
                step = m[i] / (1 - b1**t)
                if rho > 5:
                    r = math.sqrt((rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho))
                    step = step * r * math.sqrt(1 - b2**t) / (v[i].sqrt() + eps)
                p.sub_(lr * step)
                if t % 6 == 0:
                    slow[i].lerp_(p, 0.5)
                    p.copy_(slow[i])
    by_hand = torch.cat([p.detach().flatten() for p in params])
    torch.testing.assert_close(ours, by_hand, rtol=1e-9, atol=1e-11)


def test_ranger_agrees_with_the_librarys_own():
    from pytorch_optimizer import Ranger

    model, x, y = problem(1)
    config = RunConfig(optimiser="ranger", lr=0.02, momentum=0.95, weight_decay=0.0)
    ours = fit(model, optim.optimiser(model, config), x, y)
    model, x, y = problem(1)
    theirs = Ranger(
        model.parameters(), lr=0.02, betas=(0.95, 0.99), eps=1e-6, k=6, alpha=0.5, weight_decay=0.0, use_gc=False,
        degenerated_to_sgd=True,
    )  # fmt: skip
    torch.testing.assert_close(ours, fit(model, theirs, x, y), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("pool", ["lae(train=channel)", "mixed(train=channel)", "gated", "lae(train=context)"])
def test_pools_never_decay_and_have_their_own_learning_rate(pool):
    config = RunConfig(depth=8, width=1, pool=pool, weight_decay=0.5, temperature_lr=7.0, decay_norm=True)
    model = network.build(config)
    groups = optim.parameter_groups(model, config)
    pools = {id(p) for p in model.global_pool.parameters()}
    assert pools
    for group in groups:
        for parameter in group["params"]:
            inside = id(parameter) in pools
            assert group["weight_decay"] == (0.0 if inside else 0.5)
            assert group["lr_factor"] == (7.0 if inside else 1.0)
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))


def test_norms_and_biases_decay_only_on_request():
    model = network.build(RunConfig(depth=8, width=1))
    vectors = {id(p) for p in model.parameters() if p.ndim <= 1}
    for decays in (False, True):
        config = RunConfig(depth=8, width=1, decay_norm=decays)
        for group in optim.parameter_groups(model, config):
            for parameter in group["params"]:
                assert (group["weight_decay"] > 0) == (decays or id(parameter) not in vectors)


def test_slopes_of_prelus_decay_on_request_and_nothing_else_does():
    config = RunConfig(depth=8, width=1, pool="lae(train=one)", weight_decay=0.5, decay_slopes=True)
    model = network.build(config)
    slopes = {id(m.weight) for m in model.modules() if isinstance(m, nn.PReLU)}
    assert len(slopes) == 3
    groups = optim.optimiser(model, config).param_groups
    decayed = {id(p) for group in groups for p in group["params"] if group["weight_decay"] > 0}
    assert decayed == slopes | {id(p) for p in model.parameters() if p.ndim > 1}
    assert sorted(id(p) for g in groups for p in g["params"]) == sorted(map(id, model.parameters()))


def test_lookahead_moves_the_slow_weights_as_told():
    """After k steps the weights stand alpha of the way from the start to where RAdam alone would be."""
    settings = {"optimiser": "ranger", "lr": 0.02, "decay_norm": True}
    model, x, y = problem()
    start = torch.cat([p.detach().flatten() for p in model.parameters()])
    never = optim.optimiser(model, RunConfig(lookahead_steps=100, **settings))
    alone = fit(model, never, x, y, steps=3)
    model, x, y = problem()
    ours = fit(model, optim.optimiser(model, RunConfig(lookahead_steps=3, lookahead_alpha=0.25, **settings)), x, y, 3)
    torch.testing.assert_close(ours, start + 0.25 * (alone - start))
    assert not torch.allclose(alone, start)


def test_set_lr_reaches_every_group():
    config = RunConfig(depth=8, width=1, pool="lae(train=one)", temperature_lr=10.0)
    optimiser = optim.optimiser(network.build(config), config)
    optim.set_lr(optimiser, 0.3)
    assert sorted({round(g["lr"], 9) for g in optimiser.param_groups}) == [0.3, 3.0]
