"""The exact form in NumPy on the page *Coming from elsewhere*: against the operator, on anything."""

import re
from pathlib import Path

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lae_core import logavgexp

PAGE = Path(__file__).resolve().parents[2] / "book" / "use" / "coming_from.md"
FORM = re.search(r"^def log_avg_exp.*?(?=\n\n\n)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
NAMES: dict = {"np": np}
exec(FORM[0] if FORM else "", NAMES)


def test_the_form_is_ten_lines_at_most():
    assert FORM and len(FORM[0].splitlines()) <= 10


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=40), st.floats(-3, 6).map(lambda e: 10.0**e))
def test_it_is_the_operator(row, t):
    z = np.array(row)
    with np.errstate(all="raise", under="ignore"):
        found = NAMES["log_avg_exp"](z, t)
    expected = float(logavgexp(torch.from_numpy(z), t))
    assert abs(found - expected) <= 16 * np.finfo(float).eps * float(np.abs(z).max())
