import pytest
import torch
from sympy import Sum, Symbol, cos, diff, exp, log

from lae_core import logavgexp
from lae_core.evidence.symbolic import (
    LAE_N,
    LSE_N,
    i,
    in_range,
    j,
    k,
    lae,
    logits,
    lse,
    n,
    never_negative,
    operator_error,
    same,
    softargmax,
    t,
    tidy,
    total,
    z,
)

x = Symbol("x", nonnegative=True)


def test_same_accepts_what_is_equal_and_nothing_else():
    assert same(LAE_N.subs(t, 1), LSE_N - log(n))
    assert not same(LAE_N.subs(t, 1), LSE_N)
    assert not same(LAE_N, t * LSE_N - t * log(n))  # z/t and z are not the same
    assert same(exp(log(1 + x)) - x, 1)


W = total(exp(z[i]))
SUMS = [
    total(exp(z[i]) / (W + x)),
    total(z[i] * exp(z[i]) / W - 2 * z[i]),
    Sum(exp(z[j]) / W, (j, 1, n)),
    Sum(Sum(z[j] * exp(z[j] + z[k]), (j, 1, n)) / W**2, (k, 1, n)),
    Sum(Sum(exp(z[j] * z[k]), (j, 1, n)), (k, 1, n)),
    Sum(z[i], (i, 2, n)) + total(1 - exp(-z[i])),
]


@pytest.mark.parametrize("expression", SUMS)
def test_tidy_changes_the_form_and_not_the_value(expression):
    row = {z[place]: value for place, value in enumerate(logits(3), 1)}
    short = [form.subs(n, 3).doit().subs(row).doit().subs(row) for form in (expression, tidy(expression))]
    point = dict(zip(logits(3), (0.3, -1.1, 2.0), strict=True)) | {x: 0.7}
    assert float(short[0].subs(point)) == pytest.approx(float(short[1].subs(point)), rel=1e-12)


def test_sums_are_the_same_whatever_their_index_and_no_others_are():
    assert same(Sum(exp(z[j]), (j, 1, n)), W) and same(total(exp(z[i]) / W), 1)
    assert not same(Sum(exp(z[j]), (j, 2, n)), W)
    assert not same(total(exp(z[i])) / total(exp(2 * z[i])), 1)
    # sympy's simplify raises StopIteration at this one
    assert not same(log(W) - 2 * total(z[i] * exp(z[i])) / W, log(W / n))


@pytest.mark.parametrize("f", [1 - exp(-x), exp(x) - 1 - x, log(1 + x), x**2])
def test_what_is_never_negative_is_shown(f):
    assert never_negative(f, x)


@pytest.mark.parametrize("f", [x**2 - x, cos(x) - 1, x - 2 * log(1 + x), x + 1 - exp(x), -x])
def test_what_is_negative_somewhere_is_not(f):
    assert not never_negative(f, x)


def test_the_argument_needs_a_nonnegative_symbol():
    with pytest.raises(ValueError, match="nonnegative=True"):
        never_negative(Symbol("y", real=True) ** 2, Symbol("y", real=True))


def test_in_range_takes_the_case_of_an_index_that_exists():
    assert same(in_range(diff(total(z[i] ** 2), z[k])), 2 * z[k])


def test_the_small_and_the_general_formula_are_one():
    row = logits(3)
    general = LAE_N.subs(n, 3).doit().subs({z[place]: value for place, value in enumerate(row, 1)})
    assert same(general, lae(row, t))
    assert same(sum(softargmax(row)), 1) and same(lse(row) - log(3), lae(row))


def test_operator_error_sees_a_small_change():
    row = (*logits(3), t)

    def ours(*a, heat=1.0):
        return logavgexp(torch.stack(a[:-1], -1), a[-1] * heat)

    assert operator_error(lae(row[:-1], t), row, ours) < 1e-13
    assert operator_error(lae(row[:-1], t), row, lambda *a: ours(*a, heat=1 + 1e-9)) > 1e-11
