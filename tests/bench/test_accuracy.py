import math

import pytest
import torch

from lae_core.bench.accuracy import FORMS, derivative_errors, measure, sweep
from lae_core.bench.reference import reference
from lae_core.paper.figure_one import matrices, panels, pool_matrix


def rows(dtype):
    return torch.randn(2, 16, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)


def errors(form, dtype, t):
    z = rows(dtype)
    return measure(form, z, t, [reference(row.tolist(), t) for row in z.double()])


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_right_where_nothing_is_hard(form):
    assert max(errors(form, torch.float64, 1.0)) < 100


def test_a_wrong_form_is_seen(monkeypatch):
    monkeypatch.setitem(FORMS, "wrong", lambda z, t: FORMS["lae_core"](z, t * 1.001))
    found = errors("wrong", torch.float32, 1.0)
    assert min(found) > 100


def test_what_is_not_finite_counts_as_infinitely_wrong():
    assert math.isinf(errors("textbook", torch.float16, 2.0**17).d_z)
    assert max(errors("lae_core", torch.float16, 2.0**17)) < 8


def test_a_sweep_covers_every_form_dtype_and_temperature():
    found = sweep(1, 4, range(-1, 2))
    assert len(found) == len(found.drop_duplicates(["form", "dtype", "t"])) == len(FORMS) * 4 * 3


def test_derivative_errors_tell_autograd_from_differences():
    auto, central = derivative_errors([-1.0, 0.0, 1.4, 1.6], 1.0)
    assert auto < 1e-15 < central < 1e-7


def test_a_panel_of_figure_one_measures_in_its_last_digit():
    found = {(panel.pool, panel.matrix): panel for panel in panels()}
    assert len(found) == 18 and set(matrices()) == {matrix for _, matrix in found}
    half = found["lae(t0=0.5)", "first"]
    assert half.printed == "1.18" and half.distance == pytest.approx(abs(118 - 100 * half.value))
    value, gradient = pool_matrix("avg", [[1.0, 2.0], [3.0, 6.0]])
    assert value == 3 and gradient.tolist() == [[0.25, 0.25], [0.25, 0.25]]
