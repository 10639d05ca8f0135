"""Muon's step is what it says: orthogonal directions, weights of constant norm, and torch's own SGD elsewhere."""

import pytest
import torch
from torch import nn

from lae_core.training import network, optim
from lae_core.training.config import RunConfig
from lae_core.training.muon import Muon, orthogonalise

SPEED = RunConfig(
    network="speed", depth=8, width=0.125, data="digits", optimiser="muon", lr=0.24, momentum=0.85, nesterov=True
)


@pytest.mark.parametrize("shape", [(6, 20), (20, 6), (7, 7)])
def test_singular_values_come_near_one_and_directions_stay(shape):
    torch.manual_seed(0)
    matrix = torch.randn(shape).double()
    u, values, v = torch.linalg.svd(matrix, full_matrices=False)
    close = torch.linalg.svdvals(orthogonalise(matrix, iterations=8))
    assert values.max() / values.min() > 1.5 and 0.6 < close.min() <= close.max() < 1.3
    # an odd polynomial of the singular values: the singular vectors are those of the matrix
    inside = u.T @ orthogonalise(matrix) @ v.T
    torch.testing.assert_close(inside, torch.diag(inside.diagonal()), atol=1e-10, rtol=0)


@pytest.mark.parametrize("nesterov", [False, True])
def test_other_groups_take_torchs_sgd_step(nesterov):
    torch.manual_seed(0)
    ours = nn.Linear(5, 3).double()
    theirs = nn.Linear(5, 3).double()
    theirs.load_state_dict(ours.state_dict())
    options = {"lr": 0.1, "momentum": 0.8, "nesterov": nesterov}
    first = Muon([{"params": list(ours.parameters()), "weight_decay": 0.01}], **options)
    second = torch.optim.SGD(theirs.parameters(), weight_decay=0.01, **options)
    for seed in range(4):
        x = torch.randn(8, 5, generator=torch.Generator().manual_seed(seed)).double()
        for model, optimiser in ((ours, first), (theirs, second)):
            optimiser.zero_grad()
            model(x).square().mean().backward()
            optimiser.step()
    torch.testing.assert_close(ours.weight, theirs.weight)
    torch.testing.assert_close(ours.bias, theirs.bias)


def test_convolutions_keep_their_norm_and_step_by_the_learning_rate():
    weight = nn.Parameter(torch.randn(8, 4, 3, 3, generator=torch.Generator().manual_seed(0)).double())
    optimiser = Muon([{"params": [weight], "orthogonal": True}], lr=0.05, momentum=0.6, nesterov=True)
    weight.grad = torch.randn_like(weight)
    optimiser.step()
    kept = weight.detach().clone()
    weight.grad = torch.zeros_like(weight)  # the momentum alone moves it now
    optimiser.step()
    start = kept * 8**0.5 / kept.norm()
    step = (start - weight.detach()).flatten(1) / 0.05
    assert torch.linalg.svdvals(step).mean() == pytest.approx(1, abs=0.35)


def test_groups_of_the_config():
    model = network.build(SPEED.replace(pool="lae(train=one)", vector_lr=0.2, head_lr=3.0, temperature_lr=0.02))
    groups = {g["name"]: g for g in optim.optimiser(model, SPEED.replace(vector_lr=0.2, head_lr=3.0)).param_groups}
    assert set(groups) == {"convolutions", "head", "vectors", "temperature"}
    assert groups["convolutions"]["orthogonal"] and groups["convolutions"]["momentum"] == 0.6
    assert groups["convolutions"]["weight_decay"] == 0 and groups["head"]["weight_decay"] == SPEED.weight_decay
    assert (groups["head"]["lr_factor"], groups["vectors"]["lr_factor"]) == (3.0, 0.2)
    assert [p.shape for p in groups["head"]["params"]] == [model.fc.weight.shape]
    assert all(p.ndim == 4 for p in groups["convolutions"]["params"])
    assert not any(p is model.groups[0][2].weight for g in groups.values() for p in g["params"])  # frozen scale
