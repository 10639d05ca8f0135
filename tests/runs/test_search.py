"""The paper's two searches on functions with a known optimum, interrupted, and once on real trainings."""

import itertools
import math

import pytest

from lae_core.runs.lattice_search import Lattice, lattice_search
from lae_core.runs.random_search import PAPER_SPACE, Range, random_search
from lae_core.runs.search import Candidate, SearchError, measure_by_sweep

TARGET = (3, -2, 4)


def bowl(lattice, target=TARGET):
    """Smallest at one point of the lattice; written in ρ, λ and μ, with a term that couples two of the moves."""
    goal = lattice.params(target)

    def error(params):
        decay = math.log(params["weight_decay"] / goal["weight_decay"])
        inertia = math.log((1 - params["momentum"]) / (1 - goal["momentum"]))
        rate = math.log(params["lr"] / goal["lr"]) + decay - inertia
        return rate**2 + decay**2 + inertia**2 / 2 + rate * decay / 4

    def measure(candidates):
        measure.calls += [candidate.name for candidate in candidates]
        return [[error(c.params) + 0.01 * fold for fold in c.folds] for c in candidates]

    measure.calls = []
    return measure


@pytest.mark.parametrize(
    ("point", "lr", "weight_decay", "momentum"),
    [
        ((0, 0, 0), 0.4, 0.0004, 0.9),
        ((2, 0, 0), 1.024, 0.0004, 0.9),
        ((0, 1, 0), 0.25, 0.00064, 0.9),
        ((0, -2, 0), 1.024, 0.00015625, 0.9),
        ((0, 0, 1), 0.64, 0.0004, 0.84),
        ((0, 0, -1), 0.25, 0.0004, 0.9375),
        ((0, 0, 4), 2.62144, 0.0004, 0.34464),
        # Printed by the paper, off the lattice: where 1−μ would pass 1, μ itself was divided by r.
        ((0, -2, 5), 8.034, 0.00015625, 0.2154),
        ((1, -2, 5), 12.855, 0.00015625, 0.2154),
        ((0, -2, 7), 9.378, 0.00015625, 0.0841),
    ],
)
def test_points_of_the_lattice_by_hand(point, lr, weight_decay, momentum):
    expected = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum}
    assert Lattice().params(point) == pytest.approx(expected, rel=1e-3)


def test_each_move_keeps_what_it_should():
    lattice, here = Lattice(), Lattice().params((1, 1, 1))
    decay, inertia = lattice.params((1, 2, 1)), lattice.params((1, 1, 2))
    assert decay["lr"] * decay["weight_decay"] == pytest.approx(here["lr"] * here["weight_decay"])
    assert inertia["lr"] / (1 - inertia["momentum"]) == pytest.approx(here["lr"] / (1 - here["momentum"]))


@pytest.mark.parametrize("seed", range(4))
def test_lattice_search_finds_the_optimum_from_any_first_directions(seed):
    lattice = Lattice()
    measure = bowl(lattice)
    result = lattice_search(measure, name="bowl", storage=None, lattice=lattice, seed=seed)
    assert result.params == pytest.approx(lattice.params(TARGET)) and result.converged
    assert result.value == pytest.approx(0.02)  # the mean of the folds' own offsets
    path = result.study.user_attrs["path"]
    assert path[0] == [0, 0, 0] and path[-1] == list(TARGET)
    assert all(sum(abs(a - b) for a, b in zip(p, q, strict=True)) == 1 for p, q in itertools.pairwise(path))
    assert len(measure.calls) == len(set(measure.calls))  # no point is measured twice
    neighbours = [[*TARGET] for _ in range(6)]
    for index, point in enumerate(neighbours):
        point[index // 2] += 1 if index % 2 else -1
    assert {f"lattice {tuple(point)}" for point in neighbours} <= set(measure.calls)  # all were tried before it stopped


def test_a_limit_that_cuts_the_walk_short_is_not_called_converged():
    result = lattice_search(bowl(Lattice()), name="cut", storage=None, limit=4)
    assert not result.converged and len(result.study.trials) == 4


class Killed(BaseException):
    pass


def breaking(measure, after):
    def broken(candidates):
        if len(measure.calls) + len(candidates) > after:
            raise Killed
        return measure(candidates)

    return broken


@pytest.mark.parametrize("database", [False, True])
def test_lattice_search_resumes_where_it_was_killed(tmp_path, database):
    storage = f"sqlite:///{tmp_path}/study.db" if database else tmp_path / "journal" / "study.log"
    whole, measure = lattice_search(bowl(Lattice()), name="a", storage=None), bowl(Lattice())
    with pytest.raises(Killed):
        lattice_search(breaking(measure, 7), name="a", storage=storage)
    assert len(measure.calls) == 7
    result = lattice_search(measure, name="a", storage=storage)
    assert result.params == whole.params and len(measure.calls) == len(set(measure.calls))
    before = len(measure.calls)
    assert lattice_search(measure, name="a", storage=storage).params == whole.params
    assert len(measure.calls) == before
    errors = next(trial for trial in result.study.trials if trial.value == result.value).user_attrs["errors"]
    assert len(errors) == 5 and sum(errors) / 5 == pytest.approx(result.value)


def test_a_study_goes_on_only_with_its_own_settings(tmp_path):
    lattice_search(bowl(Lattice()), name="a", storage=tmp_path / "log", limit=2)
    with pytest.raises(ValueError, match="seed = 1 is invalid; expected 0"):
        lattice_search(bowl(Lattice()), name="a", storage=tmp_path / "log", limit=2, seed=1)


def hills(goal):
    """A bowl in the space's own coordinates, with its optimum inside the box."""

    def measure(candidates):
        measure.calls += [(candidate.name, candidate.folds) for candidate in candidates]
        scores = []
        for candidate in candidates:
            offsets = (
                PAPER_SPACE[f].coordinate(x) - PAPER_SPACE[f].coordinate(goal[f]) for f, x in candidate.params.items()
            )
            scores.append([sum(offset**2 for offset in offsets)] * len(candidate.folds))
        return scores

    measure.calls = []
    return measure


GOAL = {"lr": 0.006, "momentum": 0.9, "beta2": 0.98, "eps": 3e-7, "weight_decay": 0.01, "flat": 0.7}


def test_the_papers_space():
    assert PAPER_SPACE["momentum"].low == pytest.approx(0.5) and PAPER_SPACE["momentum"].high == pytest.approx(0.995)
    assert PAPER_SPACE["eps"].low == pytest.approx(1e-7) and PAPER_SPACE["lr"].high == pytest.approx(0.04)
    drawn = PAPER_SPACE["momentum"].draw(0.5)
    assert drawn == pytest.approx(0.95)  # the middle of the logarithmic range of 1−μ is the centre
    assert Range(1, 100).mean([1, 100]) == pytest.approx(10) and Range(0, 1, "linear").mean(
        [0.2, 0.4]
    ) == pytest.approx(0.3)


def test_random_search_closes_in_and_measures_the_best_again():
    measure = hills(GOAL)
    result = random_search(measure, name="hills", storage=None, samples=(60, 60, 60), top=8)
    for stage in range(3):
        folds = {fold for name, fold in measure.calls if name.startswith(f"stage {stage} ")}
        assert folds == {(5 * stage,)}  # a new split each stage
    finals = [name for name, fold in measure.calls if fold == tuple(range(15, 20))]
    assert finals == [*(f"final {i}" for i in range(5)), "final mean of 5", "final mean of 10"]
    values = {trial.user_attrs["name"]: trial.value for trial in result.study.trials}
    best = [min(v for name, v in values.items() if name.startswith(f"stage {stage} ")) for stage in range(3)]
    assert best[2] < best[0] and result.value <= best[2]
    distance = {f: abs(PAPER_SPACE[f].coordinate(result.params[f]) - PAPER_SPACE[f].coordinate(GOAL[f])) for f in GOAL}
    assert max(distance.values()) < 1  # of ranges that are 4.6 wide


def test_random_search_resumes_with_the_same_draws(tmp_path):
    whole = random_search(hills(GOAL), name="a", storage=None, samples=(20, 20), top=5)
    measure = hills(GOAL)
    with pytest.raises(Killed):
        random_search(breaking(measure, 30), name="a", storage=tmp_path / "log", samples=(20, 20), top=5)
    result = random_search(measure, name="a", storage=tmp_path / "log", samples=(20, 20), top=5)
    assert result.params == whole.params
    assert len(measure.calls) == len(set(measure.calls)) == 20 + 20 + 7


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Range(0, 1), "above 0 for log"),
        (lambda: Lattice(resolution=1), "resolution > 1"),
        (lambda: random_search(hills(GOAL), name="a", storage=None, samples=(4,)), r"samples = \(4,\)"),
        (lambda: lattice_search(lambda cs: [[math.nan] * 5], name="a", storage=None), "one finite number per fold"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def smoke_config():
    from lae_core.training.config import RunConfig

    return RunConfig(depth=8, width=0.25, data="digits", epochs=1, batch=64, subset=128, eval_subset=64, augment="none")


def test_both_searches_on_real_trainings(tmp_path):
    """At smoke size, on the sweep engine: every value in the study is the mean of recorded runs."""
    from lae_core.runs.records import RunStore

    store = RunStore(tmp_path / "store")
    measure = measure_by_sweep(smoke_config(), store=store, where="inline")
    result = lattice_search(measure, name="lattice", storage=tmp_path / "log", folds=2, limit=3)
    assert len(store) == 6
    trial = result.study.best_trial
    configs = [smoke_config().replace(**trial.params, fold=fold) for fold in range(2)]
    assert trial.user_attrs["errors"] == [record.result["final"]["valid_error"] for record in store.select(configs)]
    space = {"lr": Range(0.05, 0.5), "momentum": Range(0.8, 0.95, "complement")}
    sizes = {"samples": (2, 2), "top": 2, "finalists": 1, "means": (2,)}
    found = random_search(measure, name="random", storage=tmp_path / "log", space=space, **sizes)
    assert 0 <= found.value <= 1 and len(store) == 6 + 4 + 10
    again = random_search(measure, name="random", storage=tmp_path / "log", space=space, **sizes)
    assert again.params == found.params and len(store) == 20


def test_a_search_decides_nothing_without_its_failed_runs(tmp_path):
    def failing(config, **_):
        raise ValueError("no")

    measure = measure_by_sweep(smoke_config(), store=tmp_path / "store", where="inline", run=failing)
    with pytest.raises(SearchError, match="2 runs failed"):
        measure([Candidate("a", {"lr": 0.1}, (0, 1))])


def test_a_diverged_run_counts_as_wrong_throughout(tmp_path):
    measure = measure_by_sweep(smoke_config(), store=tmp_path / "s", where="inline", run=lambda c, **_: {"final": {}})
    assert measure([Candidate("a", {"lr": 0.1}, (0,))]) == [[1.0]]
