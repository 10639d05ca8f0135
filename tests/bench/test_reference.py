import math

import pytest
from mpmath import mp, mpf

from lae_core.bench.reference import reference


def test_two_entries_have_a_closed_form():
    # LAE(±a; t) = t·log cosh(a/t), weights 1/(1 + exp(∓2a/t)), d/dlog t = LAE − a·tanh(a/t)
    a, t = 1.5, 0.75
    found = reference([a, -a], t)
    with mp.workdps(50):
        cosh, tanh = mp.cosh(mpf(a) / t), mp.tanh(mpf(a) / t)
        assert abs(found.value - t * mp.log(cosh)) < 1e-45
        assert abs(found.weights[0] - 1 / (1 + mp.exp(-2 * mpf(a) / t))) < 1e-45
        assert abs(found.d_log_t - (t * mp.log(cosh) - a * tanh)) < 1e-45


def test_digits_are_enough_at_both_ends_of_the_temperature():
    row = [-3.0, 0.25, 1.5, 8.0]
    for t in (1e-3, 1e6):
        usual, more = reference(row, t), reference(row, t, digits=200)
        for one, other in zip(
            (usual.value, usual.d_log_t, *usual.weights), (more.value, more.d_log_t, *more.weights), strict=True
        ):
            assert abs(one - other) <= abs(other) * mpf(10) ** -40


def test_inputs_are_taken_exactly_and_infinite_powers_do_not_matter():
    assert abs(reference([0.1], 2.0).value - mpf(0.1)) < 1e-50  # the float, which is 5e-18 away from one tenth
    assert math.isclose(float(reference([1e4, 0.0], 1e-3).value), 1e4 - 1e-3 * math.log(2), rel_tol=1e-15)


@pytest.mark.parametrize(
    ("row", "t", "says"), [([], 1.0, r"row = \[\]"), ([1.0], 0.0, "t = 0.0"), ([1.0], -2.0, "t = -2.0")]
)
def test_what_has_no_value_is_refused(row, t, says):
    with pytest.raises(ValueError, match=says):
        reference(row, t)
