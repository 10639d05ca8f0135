"""Bias and noise of the pooling step: what they are measured against, and how they grow."""

from __future__ import annotations

import pytest

from lae_core.bench.rounding import errors, features

Z = features(300, 49)


def noise(pool: str, part: str) -> float:
    return float(errors(pool, Z).set_index("part").loc[part, "noise"])


def test_the_exact_form_in_double_precision_has_no_error():
    found = errors("lae(t0=32, dtype=float64)", Z.double())
    assert found["noise"].max() < 1e-14 and found["bias"].max() < 1e-14


@pytest.mark.parametrize(("part", "power"), [("value", 1), ("gradient to log t", 2)])
def test_in_the_textbook_form_noise_grows_with_the_temperature(part, power):
    at = {t: noise(f"lae(t0={t}, form=textbook, dtype=float16)", part) for t in (16, 128)}
    assert (128 / 16) ** power / 2 < at[128] / at[16] < 2 * (128 / 16) ** power


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("t", [1, 32, 1024])
def test_ours_stays_within_a_few_roundings(dtype, t):
    spacing = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23}[dtype]
    assert errors(f"lae(t0={t}, dtype={dtype})", Z)["noise"].max() < 2 * spacing
