"""LogAvgExp in sympy, for a list of symbols and for any n at once, and the few ways in which the book checks a proof.

Notebooks assert what these functions find, so a chapter whose proof fails does not build. `operator_error` ties the
symbols to the code: a proof about one formula cannot stand beside an operator that computes another.
"""

from collections.abc import Callable, Sequence

import torch
from sympy import (
    Add,
    Expr,
    IndexedBase,
    Piecewise,
    Sum,
    Symbol,
    diff,
    exp,
    expand,
    expand_log,
    lambdify,
    log,
    simplify,
    symbols,
)

# The names of the paper. z[i] with i = 1…n is a row of any length.
t = Symbol("t", positive=True)
n = Symbol("n", integer=True, positive=True)
i, j, k = symbols("i j k", integer=True)
z = IndexedBase("z", real=True)


def logits(count: int) -> tuple[Symbol, ...]:
    """z1 … zn as real symbols, for a row of known length."""
    return symbols(f"z1:{count + 1}", real=True)


def lse(row: Sequence[Expr]) -> Expr:
    """log Σ exp(z)"""
    return log(sum(exp(v) for v in row))


def lae(row: Sequence[Expr], t: Expr | int = 1) -> Expr:
    """t·log((1/n) Σ exp(z/t))"""
    return t * log(sum(exp(v / t) for v in row) / len(row))


def softargmax(row: Sequence[Expr]) -> list[Expr]:
    """exp(zᵢ) / Σ exp(z)"""
    return [exp(v) / sum(exp(w) for w in row) for v in row]


def total(term: Expr) -> Sum:
    """Σ term over i = 1…n"""
    return Sum(term, (i, 1, n))


LSE_N = log(total(exp(z[i])))
LAE_N = t * log(total(exp(z[i] / t)) / n)


def in_range(expression: Expr) -> Expr:
    """What sympy finds where its index lies in 1…n: the first case of the Piecewise that a Kronecker delta leaves."""
    found = simplify(expression.doit())
    return found.args[0][0] if isinstance(found, Piecewise) else found


def tidy(expression: Expr) -> Expr:
    """The same expression with every sum taken apart: one term each, over the index i, constant factors in front.

    sympy leaves a denominator such as Σ exp(zⱼ) inside the sum over i, and takes Σⱼ and Σᵢ for two things.
    """
    return expression.replace(lambda part: isinstance(part, Sum) and len(part.limits) == 1, _apart)


def _apart(whole: Sum) -> Expr:
    index, first, last = whole.limits[0]
    found = []
    for term in Add.make_args(expand(whole.function)):
        constant, rest = term.as_independent(index, as_Add=False)
        name = index if rest.has(Sum) else i  # an inner sum has its own i
        found.append(constant * Sum(rest.subs(index, name), (name, first, last)).doit())
    return Add(*found)


def same(a: Expr, b: Expr | int = 0) -> bool:
    """Whether sympy can show that a = b. Logarithms are taken apart as of positive numbers, which all of ours are."""
    apart = tidy(a - b)
    # each sum is one number from here on; sympy's own treatment of sums stumbles over some quotients of them
    numbers = {s: Symbol(f"sum{place}", real=True, positive=s.is_positive) for place, s in enumerate(apart.atoms(Sum))}
    return bool(simplify(expand_log(simplify(apart.xreplace(numbers)), force=True)) == 0)


def never_negative(f: Expr, x: Symbol, depth: int = 3) -> bool:
    """Whether f(x) ≥ 0 for all x ≥ 0 can be shown so: f(0) = 0, and its slope is never negative.

    The slope's sign is sympy's to tell; where it cannot, the same argument is tried on the slope.
    """
    if not x.is_nonnegative:
        raise ValueError(f"x = {x} is invalid; expected a symbol with nonnegative=True, where the argument holds")
    slope = simplify(diff(f, x))
    rises = bool(slope.is_nonnegative) or (depth > 0 and never_negative(slope, x, depth - 1))
    return rises and same(f.subs(x, 0))


def operator_error(expression: Expr, arguments: Sequence[Symbol], operator: Callable[..., torch.Tensor]) -> float:
    """The largest difference between an expression and the operator over 64 random points.

    `operator` gets one float64 tensor of 64 values for each argument. Positive symbols get values in (0.2, 5).
    """
    random = torch.Generator().manual_seed(0)
    points = [torch.randn(64, generator=random, dtype=torch.float64) for _ in arguments]
    points = [(1.6 * torch.tanh(p)).exp() if a.is_positive else 2 * p for a, p in zip(arguments, points, strict=True)]
    formula = lambdify(arguments, expression, modules="mpmath")
    exact = [float(formula(*map(float, values))) for values in zip(*points, strict=True)]
    return float((operator(*points) - torch.tensor(exact, dtype=torch.float64)).abs().max())
