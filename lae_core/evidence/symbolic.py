"""LogAvgExp in sympy, for a list of symbols and for any n at once, and the few ways in which the book checks a proof.

Every check raises AssertionError: a chapter whose proof fails does not build. `assert_operator` ties the symbols to the
code, so that a proof about one formula cannot stand beside an operator that computes another.
"""

from collections.abc import Callable, Sequence

import torch
from sympy import Expr, IndexedBase, Piecewise, Sum, Symbol, diff, exp, lambdify, log, simplify, symbols

# The names of the paper. z[i] with i = 1…n is a row of any length.
t = Symbol("t", positive=True)
n = Symbol("n", integer=True, positive=True)
i, j, k = symbols("i j k", integer=True)
z = IndexedBase("z", real=True)


def logits(count: int, name: str = "z") -> tuple[Symbol, ...]:
    """z1 … zn as real symbols, for a row of known length."""
    return symbols(f"{name}1:{count + 1}", real=True)


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


def assert_zero(expression: Expr, what: str) -> None:
    """The expression simplifies to 0."""
    left = simplify(expression)
    if left != 0:
        raise AssertionError(f"{what}: {left} is left where 0 was expected")


def assert_never_negative(f: Expr, x: Symbol, what: str, depth: int = 3) -> None:
    """f(x) ≥ 0 for every x ≥ 0: f(0) = 0 and its slope is never negative, by its sign or by this same argument.

    x must be a nonnegative symbol.
    """
    if not x.is_nonnegative:
        raise ValueError(f"x={x}: declare the symbol nonnegative=True, the argument holds only there")
    assert_zero(f.subs(x, 0), f"{what}: the value at 0")
    slope = simplify(diff(f, x))
    if slope.is_nonnegative:
        return
    if depth == 0:
        raise AssertionError(f"{what}: sympy cannot show that the slope {slope} is never negative")
    assert_never_negative(slope, x, f"{what}, its slope", depth - 1)


def assert_operator(
    expression: Expr, arguments: Sequence[Symbol], operator: Callable[..., torch.Tensor], what: str, places: int = 12
) -> float:
    """The expression and the operator agree at 64 random points, to `places` decimals; returns the largest difference.

    `operator` gets one float64 tensor of 64 values for each argument. Positive symbols get values in (0.2, 5).
    """
    random = torch.Generator().manual_seed(0)
    points = [torch.randn(64, generator=random, dtype=torch.float64) for _ in arguments]
    points = [(1.6 * torch.tanh(p)).exp() if a.is_positive else 2 * p for a, p in zip(arguments, points, strict=True)]
    ours = operator(*points)
    formula = lambdify(arguments, expression, modules="mpmath")
    exact = [float(formula(*map(float, values))) for values in zip(*points, strict=True)]
    worst = float((ours - torch.tensor(exact, dtype=torch.float64)).abs().max())
    if not worst < 10**-places:
        raise AssertionError(f"{what}: the operator is up to {worst:.1e} away from the formula")
    return worst
