"""The theory chapters can fail: with a broken operator, and with a statement that is not true, their code stops."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Runs the code cells of chapters one after the other, as a kernel would, with one operator put in the place of another: for
# each order that it is given, in a process of its own that is forked off once the libraries are there.
# Each writes, for each chapter, the kind of the first exception, or null.
DRIVER = """
import json, math, os, sys
import jupytext, matplotlib, sympy, torch
matplotlib.use("Agg")
import matplotlib.pyplot
import lae_core, lae_core.evidence.verdicts, lae_core.pooling
import lae_core.pooling.functional as functional, lae_core.pooling.modules as modules

right = functional.logavgexp
def without_n(z, t=1.0, dim=-1, mask=None):      # forgets to divide by n
    return right(z, t, dim, mask) + t * math.log(z.shape[-1])
def slightly_hot(z, t=1.0, dim=-1, mask=None):   # a temperature that is off by one in a million
    return right(z, t * (1 + 1e-6), dim, mask)

smaller = {"numerics": {"rows": 2, "coldest": 0, "hottest": 12}, "temperature": {"rows": 64}}
def run(operator, chapters, verdicts):
    os.environ["LAE_VERDICTS"] = verdicts
    chosen = {"right": right, "without_n": without_n, "slightly_hot": slightly_hot}[operator]
    for place in (lae_core, lae_core.pooling, functional, modules):
        place.logavgexp = chosen
    found = {}
    for chapter in chapters:
        names = {}
        try:
            for cell in jupytext.read(f"notebooks/theory/{chapter}.md").cells:
                if cell.cell_type == "code":
                    exec(cell.source, names)
                    if "parameters" in cell.metadata.get("tags", []):
                        names.update(smaller.get(chapter, {}))
            found[chapter] = None
        except Exception as error:
            found[chapter] = type(error).__name__
    with open(os.path.join(verdicts, "found"), "w") as out:
        json.dump(found, out)

for operator, chapters, verdicts in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        code = 1
        try:
            run(operator, chapters, verdicts)
            code = 0
        finally:
            os._exit(code)
    os.waitpid(child, 0)
"""


def driven(code: str, *arguments: str, verdicts: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LAE_VERDICTS": str(verdicts), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_broken_operator_stops_every_chapter_and_the_right_one_none(tmp_path):
    """Those that prove for seconds before they meet the operator have mutations below."""
    chapters = ["an_or_for_logits", "figure_one", "temperature", "numerics", "padding_and_clutter"]
    orders = {"right": [*chapters, "explorer"], "without_n": [*chapters, "explorer"], "slightly_hot": chapters}
    for operator in orders:
        (tmp_path / operator).mkdir()
    given = [(operator, order, str(tmp_path / operator)) for operator, order in orders.items()]
    done = driven(DRIVER, json.dumps(given), verdicts=tmp_path)
    for operator, order in orders.items():
        ends = None if operator == "right" else "AssertionError"
        assert json.loads((tmp_path / operator / "found").read_text()) == dict.fromkeys(order, ends), done.stderr
    verdicts = {path.stem for path in (tmp_path / "right").glob("*.json")}
    assert verdicts == {"T1", "T2", "T3", "T9", "T10"}
    assert not [*tmp_path.glob("without_n/*.json"), *tmp_path.glob("slightly_hot/*.json")]  # no verdict is left behind


@dataclass(frozen=True)
class Mutation:
    """A false statement: in the one cell of the chapter that holds `old`, `new` stands in its place."""

    chapter: str
    claim: str
    old: str
    new: str


SQUARE = "(lambda x: 1 + x**2)"  # in place of exp: positive, and not an exponential
WITHOUT_N = "LAE_N = t * log(total(exp(z[i] / t)))"  # t LSE(z/t)
WITHOUT_T = "LAE_N = log(total(exp(z[i] / t)) / n)"  # the outer t forgotten
MUTATIONS = [
    # T1: an "or" of any number of options needs the exponential, and LSE rather than LAE or the max
    Mutation(
        "an_or_for_logits",
        "T1",
        'R = Symbol("R", positive=True)',
        f'exp = {SQUARE}; LSE_N = log(total(exp(z[i]))); R = Symbol("R", positive=True)',
    ),
    Mutation("an_or_for_logits", "T1", "group.subs(c, LSE_N)", "group.subs(c, LSE_N - log(n))"),
    Mutation("an_or_for_logits", "T1", "same(answers[0], LSE_N)", "same(answers[0], LSE_N + 1)"),
    Mutation("an_or_for_logits", "T2", "LAE_N.subs(t, 1), LSE_N - log(n)", "LAE_N.subs(t, 1), LSE_N"),
    Mutation("an_or_for_logits", "T2", "same(lae_constant, a)", "same(lae_constant, a + log(n))"),
    Mutation("an_or_for_logits", "T3", "shifted = z[i] - log(N)", "shifted = z[i] * log(N)"),
    Mutation("an_or_for_logits", "T3", "shifted = z[i] - log(N)", f"exp = {SQUARE}; shifted = z[i] - log(N)"),
    # T4: holds only for the max, for every other entry at or below it
    Mutation(
        "between_max_and_mean", "T4", "shifted = total(exp((top - d[i]) / t))", "shifted = total(exp(top - d[i]))"
    ),
    Mutation(
        "between_max_and_mean", "T4", "LAE_t = t * log(exp(top / t) * S / n)", "LAE_t = t * log(exp(top / t) * S)"
    ),
    Mutation(
        "between_max_and_mean",
        "T4",
        "others = Sum(term, (i, 2, n))",
        'd = IndexedBase("d", real=True); others = Sum(term, (i, 2, n))',
    ),
    Mutation("between_max_and_mean", "T4", "others = Sum(term, (i, 2, n))", "others = Sum(term, (i, 3, n))"),
    Mutation(
        "between_max_and_mean",
        "T4",
        "others = Sum(term, (i, 2, n))",
        f"term = {SQUARE}(d[i] / t); others = Sum(term, (i, 2, n))",
    ),
    Mutation("between_max_and_mean", "T4", "total(1 - term)", "total(2 - term)"),
    Mutation("between_max_and_mean", "T4", "above = (LSE_t - top)", "above = (LAE_t - top)"),
    Mutation("between_max_and_mean", "T4", "below = (top - LAE_t)", "below = (top - LSE_t)"),
    Mutation("between_max_and_mean", "T4", "(top - t * log(n))", "(top - t * log(n) / 2)"),
    Mutation(
        "between_max_and_mean", "T5", 'assert limit(value, t, 0, "+") == top', "assert limit(value, t, oo) == top"
    ),
    Mutation("between_max_and_mean", "T6", "mean = total(z[i]) / n", "mean = total(z[i])"),
    Mutation("between_max_and_mean", "T6", "K = log(total(exp(s * z[i])) / n)", "K = total(exp(s * z[i])) / n"),
    Mutation(
        "between_max_and_mean", "T6", "assert same(product, (b - centre)", "assert same(product, 2 * (b - centre)"
    ),
    Mutation("between_max_and_mean", "T6", "(m2 - m1**2) / 2)", "(m2 - m1**2))"),
    Mutation("between_max_and_mean", "T4", "a[:-1], -1), a[-1])", "a[:-1], -1), a[-1] * (1 + 1e-6))"),
    # T7: the outer t, and the exponential, make the shares add up to 1
    Mutation("derivatives", "T7", "gradient = in_range", f"{WITHOUT_T}; gradient = in_range"),
    Mutation("derivatives", "T7", "(k, 1, n)), 1)", "(k, 1, n)), 1 / t)"),
    Mutation(
        "derivatives",
        "T7",
        "assert same(gradient, p(k))",
        f"gradient = in_range(diff(t * log(total({SQUARE}(z[i] / t)) / n), z[k]))",
    ),
    # T8: as printed it is LAE's, and not that of t LSE(z/t)
    Mutation("derivatives", "T8", "slope = diff(LAE_N, t)", f"{WITHOUT_N}; slope = diff(LAE_N, t)"),
    Mutation("derivatives", "T8", "average = total(p(i) * z[i])", "average = total(z[i]) / n"),
    Mutation("derivatives", "T8", "assert same(slope, -KL)", "assert same(slope, KL)"),
    Mutation("derivatives", "T8", "KL = total(p(i) * log(n * p(i)))", "KL = total(p(i) * log(p(i)))"),
    Mutation("derivatives", "T8", "diff(t * log(total(power)), t)", "diff(t * log(total(power) / n), t)"),
    Mutation("derivatives", "T8", "phi = x * exp(x) - exp(x) + 1", "phi = x * exp(x) - exp(x)"),
    Mutation("derivatives", "T8", "phi = x * exp(x) - exp(x) + 1", "phi = x**2"),
    # the Hessian is a covariance over t, and its quadratic form a variance over t
    Mutation("derivatives", "Hessian", "H = in_range(", f"{WITHOUT_T}; H = in_range("),
    Mutation("derivatives", "Hessian", "(both - p(j) * p(k)) / t", "both / t"),
    Mutation("derivatives", "Hessian", "total(p(i) * (v[i] - mean_v) ** 2) / t", "total(p(i) * v[i] ** 2) / t"),
    Mutation("derivatives", "Hessian", "(v[i] - mean_v) ** 2) / t", "(v[i] - mean_v) ** 2)"),
    Mutation("derivatives", "Hessian", "mean_v = total(p(i) * v[i])", "mean_v = total(v[i]) / n"),
    Mutation("derivatives", "Hessian", "form = Sum(", "H = p(j) * p(k) / t; form = Sum("),
    Mutation("derivatives", "T8", "points[:-1], -1), points[-1])", "points[:-1], -1), points[-1] * (1 + 1e-6))"),
    # T10: LSE keeps its value, LAE loses t log((n+k)/n), and not the other way round
    Mutation(
        "padding_and_clutter", "T10", "LAE_wide = t * log(cluttered / (n + k))", "LAE_wide = t * log(cluttered / n)"
    ),
    Mutation("padding_and_clutter", "T10", "loss = t * log((n + k) / n)", "loss = t * log(k / n)"),
    Mutation("padding_and_clutter", "T10", "limit(LSE_wide, b, -oo)", "limit(LSE_wide, b, 0)"),
    Mutation("padding_and_clutter", "T10", "log(1 + k * exp(b / t) / power)", "log(1 + exp(b / t) / power)"),
    Mutation("padding_and_clutter", "T10", "diff(LAE_N, t) - log((n + k) / n)", "diff(LAE_N, t)"),
    Mutation("padding_and_clutter", "T10", "log(r * power / (r * n))", "log(r * power / n)"),
]

# Runs each chapter as it is. Where a cell is mutated, the false version runs first, on a copy of the names so far.
# Prints, for each mutation, the kind of the exception, or null if the false statement went through.
MUTANT_DRIVER = """
import json, sys
import jupytext, matplotlib
matplotlib.use("Agg")
mutations = json.loads(sys.argv[1])
found = [None] * len(mutations)
for chapter in dict.fromkeys(m["chapter"] for m in mutations):
    names = {}
    for cell in jupytext.read(f"notebooks/theory/{chapter}.md").cells:
        if cell.cell_type != "code":
            continue
        for place, m in enumerate(mutations):
            if m["chapter"] == chapter and m["old"] in cell.source:
                assert found[place] is None, f"two cells hold {m['old']!r}"
                try:
                    exec(cell.source.replace(m["old"], m["new"]), dict(names))
                    found[place] = "nothing"
                except Exception as error:
                    found[place] = type(error).__name__
        exec(cell.source, names)
print("\\n" + json.dumps(found))
"""


def test_a_false_statement_stops_its_chapter(tmp_path):
    done = driven(MUTANT_DRIVER, json.dumps([asdict(mutation) for mutation in MUTATIONS]), verdicts=tmp_path)
    found = json.loads(done.stdout.splitlines()[-1])
    survived = [(m, error) for m, error in zip(MUTATIONS, found, strict=True) if error != "AssertionError"]
    assert survived == []


def test_every_statement_of_theory_has_a_mutation():
    assert {f"T{number}" for number in (*range(1, 9), 10)} <= {mutation.claim for mutation in MUTATIONS}
