"""What decides each claim: one function per claim, whose docstring is its rule in plain words.

The rules were written before the runs that they decide. `rules.e3(comparisons)` gives a :class:`Decision`: the word
that the outcomes earn, held down by what the runs behind them can bear. The decorator fixes, claim by claim,

- `margin`, in points of accuracy unless the rule says otherwise: smaller differences do not count, and arms whose
  difference surely lies within it are the same;
- `n`, runs per arm: with fewer the claim stays *open*;
- `gate`, which accuracy the baseline arm must reach (`gate.py`): a place below it does not count, and where none is
  left the claim is *not testable here*;
- `places`, the data sets that the claim is about: on fewer of them it is *partly* borne out at best;
- `protocol`, the printed experiment that runs must agree with to count as the paper's scale (`scale.py`).

What agrees with the paper's own tables is *consistent with print*, not reproduced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lae_core.evidence.compare import Comparison, Comparisons, Contrast
from lae_core.evidence.decision import Built, Decision, Rule

MARGIN, WIDE_MARGIN = 0.2, 0.5  # points of accuracy: in tables of pools, in sweeps
TABLE_N, FIVE = {"cifar10": 10, "other": 5}, {"other": 5}  # runs per arm
CIFAR = ("cifar10", "cifar100")
IMAGENET = ("imagewoof", "imagenette")

AVERAGE, SCALED = "avg", "avg(train=one)"  # the latter with a learned scale
FIXED, ONE, CHANNEL = "lae", "lae(train=one)", "lae(train=channel)"


RULES: dict[str, Rule] = {}


def rule(claim: str, **options: Any) -> Callable[[Callable[..., str]], Rule]:
    """Register a function as the rule of a claim."""

    def register(function: Callable[..., str]) -> Rule:
        RULES[claim] = Rule(claim, function, **options)
        return RULES[claim]

    return register


# What several rules are made of. `wanted` and `opposite` are words of outcomes.


def all_of(outcomes: Sequence[str], wanted: str = "higher", opposite: str = "lower") -> str:
    """The word for a claim that holds only if every outcome is as wanted."""
    if outcomes and all(outcome == wanted for outcome in outcomes):  # where nothing was run, nothing was reproduced
        return "reproduced"
    return "partly" if wanted in outcomes else "contradicted" if opposite in outcomes else "open"


def some_of(outcomes: Sequence[str]) -> str:
    """The word for a claim that holds if some outcome is higher and none is lower."""
    if "higher" in outcomes:
        return "partly" if "lower" in outcomes else "reproduced"
    return "contradicted" if "lower" in outcomes else "open"


def combine(words: Sequence[str]) -> str:
    """The word for a claim of several parts: theirs where they agree, *partly* where they do not and one came out."""
    if len(set(words)) == 1:
        return words[0]
    return "partly" if {"reproduced", "partly"} & set(words) else "open"


def by_place(comparisons: Comparisons, word: Callable[[Comparisons], str]) -> str:
    """The word of each place, combined."""
    places = dict.fromkeys(contrast.place for contrast in comparisons)
    return combine([word(comparisons.only(_in(place))) for place in places] or ["open"])


def _against(*seconds: str) -> Callable[[Contrast], bool]:
    return lambda contrast: contrast.second in seconds


def _in(place: str) -> Callable[[Contrast], bool]:
    return lambda contrast: contrast.place == place


def _of(first: str) -> Callable[[Contrast], bool]:
    return lambda contrast: contrast.first == first


# Training: tables of pools (tiers 1, 6, 7, 8), by recipes whose networks work.


@rule("E1", margin=WIDE_MARGIN, n=TABLE_N, gate="table", places=CIFAR, protocol="pyramidnet")
def e1(comparisons: Comparisons) -> str:
    """Contrasts: LAE at t = 1, with one trained temperature and with one per channel, each against
    average pooling at one common learning rate. Measure: mean validation accuracy over the first
    half of training. Reproduced if all are higher on every data set; contradicted if none is higher
    and one is lower; partly if some are higher; else open."""
    return all_of(comparisons.outcomes())


@rule("C7", margin=WIDE_MARGIN, n=TABLE_N, gate="table", places=CIFAR, protocol="pyramidnet")
def c7(comparisons: Comparisons) -> str:
    """Contrast: the mean of the three LAE pools of E1 against average pooling, same measure, same
    learning rate. Reproduced if higher on every data set; contradicted if higher on none and lower
    on one; partly if higher on some; else open. That a scaled average learns as fast would not
    change the verdict, only its reason."""
    return all_of(comparisons.outcomes(_against(AVERAGE)))


@rule("E3", margin=MARGIN, n=TABLE_N, gate="table", places=CIFAR, protocol="wrn")
def e3(comparisons: Comparisons) -> str:
    """Contrasts: LAE with one trained temperature against average pooling, against the average with
    a learned scale where that was run, and against every other pool of the table. Measure: final
    accuracy, each pool at the learning rate that it chose on held-out folds. Reproduced if on every
    data set it is higher than average pooling and than the scaled average, and no pool is higher
    than it; contradicted if it is lower than average pooling on one data set and higher on none;
    partly if it is higher than average pooling on some data set; else open."""
    average = comparisons.outcomes(_against(AVERAGE))
    controls = comparisons.outcomes(_against(AVERAGE, SCALED))
    if "higher" not in average:
        return "contradicted" if "lower" in average else "open"
    return "reproduced" if set(controls) == {"higher"} and "lower" not in comparisons.outcomes() else "partly"


@rule("C1", margin=MARGIN, n=TABLE_N, gate="table", places=CIFAR, protocol="wrn")
def c1(comparisons: Comparisons) -> str:
    """Contrasts: LAE with one trained temperature against every other pool of table 1, printed or
    run. Reproduced if it is higher than every other pool on both data sets; partly if it is higher
    than average pooling on both and no pool is higher than it; contradicted if some pool is higher
    than it, or if it is nowhere higher than average pooling though every contrast with it is
    decided; else open."""
    outcomes, average = comparisons.outcomes(), comparisons.outcomes(_against(AVERAGE))
    if "lower" in outcomes or (average and set(average) <= {"same", "lower"}):
        return "contradicted"
    if average and set(average) == {"higher"}:
        return "reproduced" if set(outcomes) == {"higher"} else "partly"
    return "open"


@rule("C3", margin=MARGIN, n=TABLE_N, gate="table", places=CIFAR, protocol="wrn")
def c3(comparisons: Comparisons) -> str:
    """Contrasts: every LAE pool against average pooling in every setting, printed or run.
    Reproduced if more than half are higher and none is lower; contradicted if at least as many are
    lower as higher, one at least, or if all are the same; open if none is decided; partly
    otherwise."""
    outcomes = comparisons.outcomes(_against(AVERAGE))
    higher, lower = outcomes.count("higher"), outcomes.count("lower")
    if (lower and lower >= higher) or (outcomes and set(outcomes) == {"same"}):
        return "contradicted"
    if not higher:
        return "open"
    return "reproduced" if 2 * higher > len(outcomes) and not lower else "partly"


@rule("E2", margin=MARGIN, n=FIVE, gate="table", places=CIFAR, protocol="pyramidnet")
def e2(comparisons: Comparisons) -> str:
    """Contrasts: each LAE pool against average pooling in PyramidNet with ShakeDrop, final
    accuracy. Reproduced if some is higher and none lower; contradicted if some is lower and none
    higher; partly if both occur; else open."""
    return some_of(comparisons.outcomes())


@rule("E4", margin=MARGIN, n=FIVE, gate="table", places=IMAGENET, protocol="mxresnet")
def e4(comparisons: Comparisons) -> str:
    """Contrasts: each LAE pool against average pooling in MXResNet, final accuracy. Reproduced if
    some is higher and none lower; contradicted if some is lower and none higher; partly if both
    occur; else open."""
    return some_of(comparisons.outcomes())


@rule("C29", margin=MARGIN, n=FIVE, gate="table", places=("cifar10",))
def c29(comparisons: Comparisons) -> str:
    """Contrasts: the two pools with the lowest error of E3 on CIFAR-10, average pooling aside, each
    against average pooling, in the table's network and in a larger one that is trained for longer.
    Reproduced if each is higher, lower or the same in both; contradicted if one is decided in both
    and comes out otherwise; else open."""
    pairs = [comparisons.outcomes(_of(first)) for first in dict.fromkeys(contrast.first for contrast in comparisons)]
    decided = [pair for pair in pairs if len(pair) == 2 and not {"undecided", "not run"} & set(pair)]
    if any(before != after for before, after in decided):
        return "contradicted"
    return "reproduced" if pairs and len(decided) == len(pairs) else "open"


@rule("C30", margin=MARGIN, n=TABLE_N, gate="table", places=CIFAR)
def c30(comparisons: Comparisons) -> str:
    """Contrasts: LAE with one trained temperature and with one per channel, each against average
    pooling with a learned scale, final accuracy. Reproduced if all are higher on every data set;
    contradicted if all are the same or lower; partly if some are higher; else open."""
    outcomes = comparisons.outcomes()
    return "contradicted" if outcomes and set(outcomes) <= {"same", "lower"} else all_of(outcomes, opposite="")


# Other input sizes: the networks of the tables, looked at again.


def _breadth(comparisons: Comparisons) -> str:
    zoom = comparisons.outcomes(lambda c: "zoom" in c.first)
    crops = comparisons.outcomes(lambda c: "zoom" not in c.first)
    return combine([all_of(part) for part in (zoom, crops)])


@rule("E5", margin=WIDE_MARGIN, n=TABLE_N, gate="table", places=IMAGENET, protocol="input size")
def e5(comparisons: Comparisons) -> str:
    """As C13, which it is the figure of."""
    return _breadth(comparisons)


@rule("C13", margin=WIDE_MARGIN, n=TABLE_N, gate="table", places=IMAGENET, protocol="input size")
def c13(comparisons: Comparisons) -> str:
    """Contrasts: the two LAE pools with a trained temperature, their mean, against average pooling,
    for zooms and for crops. Measure: mean accuracy over the sizes off that of training less the
    accuracy at it. Reproduced if higher in zooms and in crops everywhere; contradicted if lower and
    never higher in both; partly if some of it is higher; else open."""
    return _breadth(comparisons)


@rule("C13a", margin=WIDE_MARGIN, n=FIVE, gate="table", places=IMAGENET, protocol="input size")
def c13a(comparisons: Comparisons) -> str:
    """Contrasts: the mixed pool against LAE at t = 1 in the measure of C13, for zooms and crops.
    Reproduced if higher on Imagenette and lower on Imagewoof throughout; contradicted if the
    opposite is seen on both; partly if a part came out as said; else open."""
    nette = comparisons.outcomes(lambda c: c.place.startswith("Imagenette"))
    woof = comparisons.outcomes(lambda c: not c.place.startswith("Imagenette"))
    return combine([all_of(nette), all_of(woof, "lower", "higher")])


@rule("C13c", margin=WIDE_MARGIN, n=FIVE, gate="table", places=("imagewoof",), protocol="input size")
def c13c(comparisons: Comparisons) -> str:
    """Contrasts: LAE at t = 1 against average pooling on Imagewoof, accuracy at two thirds and at
    four thirds of the size of training. Reproduced if higher on both sides throughout; contradicted
    if on both sides lower and never higher; partly if some are higher; else open."""
    smaller = comparisons.outcomes(lambda c: "smaller" in c.first)
    larger = comparisons.outcomes(lambda c: "larger" in c.first)
    return combine([all_of(smaller), all_of(larger)])


@rule("C23", margin=WIDE_MARGIN, n=FIVE, gate="table", places=("imagenette",), protocol="input size")
def c23(comparisons: Comparisons) -> str:
    """Contrasts: LAE at t = 1 and the mixed pool against average pooling on Imagenette, in the
    measure of C13. Reproduced if all are the same; contradicted if one is higher or lower; else
    open."""
    return _alike(comparisons.outcomes())


def _alike(outcomes: Sequence[str]) -> str:
    if {"higher", "lower"} & set(outcomes):
        return "contradicted"
    return "reproduced" if outcomes and set(outcomes) == {"same"} else "open"


# Temperatures: wide sweeps (tier 2), and the swap that most users would make (tiers 1 and 5).


@rule("C11", margin=0.1, n=FIVE, gate="sweep", places=IMAGENET, protocol="final temperature")
def c11(comparisons: Comparisons) -> str:
    """Contrasts: final against initial temperature for each t₀, in doublings (the mean of log₂ over
    channels); less than a tenth of a doubling is no movement. One temperature: reproduced if it
    moves up wherever it moves, at half of the t₀ at least; contradicted if it moves up nowhere and
    down at half of them; partly if it moves up at some; else open. One per channel: reproduced if
    it rises from every t₀ up to 4 and falls from every one above; contradicted if it never does as
    said and somewhere the opposite; partly if it does at some t₀; else open. The claim is both, on
    every data set: partly where only a part came out."""
    one = comparisons.only(_of(ONE))
    channel = comparisons.only(_of(CHANNEL))
    return combine([by_place(part, word) for part, word in ((one, _rises), (channel, _turns)) if part] or ["open"])


def _rises(moves: Comparisons) -> str:
    outcomes = moves.outcomes()
    up, down = outcomes.count("higher"), outcomes.count("lower")
    if up:
        return "reproduced" if not down and 2 * up >= len(outcomes) else "partly"
    return "contradicted" if down and 2 * down >= len(outcomes) else "open"


def _turns(moves: Comparisons) -> str:
    turned = {"higher": "lower", "lower": "higher"}
    as_said = [c.outcome if (key.t or 0) <= 4 else turned.get(c.outcome, c.outcome) for key, c in moves.items()]
    return all_of(as_said)


@rule("C8a", margin=None, n=FIVE, gate="sweep", places=IMAGENET, protocol="final temperature")
def c8a(comparisons: Comparisons) -> str:
    """Contrasts: the slope of final on initial log-temperature over all t₀, run by run, for one
    temperature and for one per channel. By the 95 % interval of its mean: reproduced if it lies at
    ½ or above, contradicted if below 0.1, partly if between the two, else open; where the kinds or
    data sets differ, partly if one came out."""
    return combine([_memory(c) for c in comparisons.values()] or ["open"])


def _memory(slope: Comparison) -> str:
    low, high = slope.interval.low, slope.interval.high
    if low >= 0.5:
        return "reproduced"
    if high < 0.1:
        return "contradicted"
    return "partly" if low >= 0.1 and high < 0.5 else "open"


@rule("E6", protocol="final temperature")
def e6(directions: Decision, memory: Decision) -> str:
    """C11 and C8a: reproduced or contradicted if both are, partly if one came out, else as they
    agree or open."""
    return combine([directions.word, memory.word])


@rule("C8", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="final temperature")
def c8(comparisons: Comparisons) -> str:
    """Contrasts: one for each factor (×10, ×100) by which the temperature's learning rate is larger
    than that of the weights: the mean final accuracy over both kinds of trained temperature and t₀
    of 1 and 64, against factor 1. Reproduced if one is higher and none lower; contradicted if one
    is lower and none higher, or all are the same; partly if both occur; else open."""
    outcomes = comparisons.outcomes()
    return "contradicted" if outcomes and set(outcomes) == {"same"} else some_of(outcomes)


@rule("E7", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="initial temperature")
def e7(comparisons: Comparisons) -> str:
    """Contrasts: the mean accuracy of fixed t₀ = 1, 4 and 16 against the lowest and against the
    highest t₀ that was tried. Reproduced if higher than both ends on every data set; contradicted
    if lower than one end and higher than none; partly if higher than some end; else open."""
    return all_of(comparisons.outcomes())


@rule("C12", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="initial temperature")
def c12(comparisons: Comparisons) -> str:
    """Contrasts: the mean over fixed, one and per-channel temperatures against average pooling, at
    t₀ of 4 and of 16 with their own hyperparameters, and at 256 with average pooling's. First half:
    reproduced if both are higher, contradicted if neither is and both are decided, partly if one
    is, else open. Second half: reproduced if 256 is the same, contradicted if it is higher or
    lower, else open. The claim is both: partly where only one came out."""
    middle = comparisons.outcomes(lambda c: (c.t or 0) < 32)
    far = comparisons.outcomes(lambda c: (c.t or 0) > 32)
    beats = "contradicted" if middle and set(middle) <= {"same", "lower"} else all_of(middle, "higher", "")
    return combine([beats, _alike(far)])


@rule("C9", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="initial temperature")
def c9(comparisons: Comparisons) -> str:
    """Contrasts: LAE trained from t₀ = 4, with one temperature and with one per channel, each
    against average pooling, against t fixed at 1 and at 4, and against the same kind trained from 1
    and from 16. A setting is borne out if it is higher than average pooling and lower than none; it
    fails if it is lower than average pooling or than t fixed at 1. Reproduced if one of the two is
    borne out on every data set; contradicted if both fail; partly if one is higher than average
    pooling but not the best, or the data sets differ; else open."""
    return by_place(comparisons, _advice)


def _advice(comparisons: Comparisons) -> str:
    words = []
    for setting in dict.fromkeys(contrast.first for contrast in comparisons):
        own = comparisons.only(_of(setting))
        average = own.outcomes(_against(AVERAGE))
        if "lower" in own.outcomes(_against(AVERAGE, FIXED)):
            words.append("contradicted")
        elif "higher" not in average:
            words.append("open")
        else:
            words.append("partly" if "lower" in own.outcomes() else "reproduced")
    return "reproduced" if "reproduced" in words else combine(words)


@rule("C20", margin=MARGIN, n=TABLE_N, gate="table", places=("cifar10",), protocol="initial temperature")
def c20(comparisons: Comparisons) -> str:
    """Contrasts, one for each network and each way to swap: LAE at t = 1 in place of average
    pooling from the start, at average pooling's hyperparameters; and LAE put into a trained network
    of average pooling, with one more epoch from a tenth of its learning rate down to 0, at t of ½,
    2 and 16 times the features' spread, against the same epoch with average pooling. Final accuracy.
    Reproduced if every one is the same or lower; contradicted if every one is higher; partly if some
    are higher and some the same or lower; open if what is left is undecided."""
    outcomes = comparisons.outcomes()
    gains, none = "higher" in outcomes, bool({"same", "lower"} & set(outcomes))
    if gains and none:
        return "partly"
    if "undecided" in outcomes or not outcomes:
        return "open"
    return "contradicted" if gains else "reproduced"


@rule("C21", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="initial temperature")
def c21(comparisons: Comparisons) -> str:
    """Contrast: how far the three kinds lie apart (the range of their accuracies, the mean over t₀)
    with average pooling's hyperparameters against with their own. Reproduced if lower on every data
    set; contradicted if lower on none and the same or higher on one; partly if lower on some; else
    open, also where both are the same runs."""
    outcomes = comparisons.outcomes()
    if "lower" in outcomes:
        return "reproduced" if set(outcomes) == {"lower"} else "partly"
    return "contradicted" if {"same", "higher"} & set(outcomes) else "open"


@rule("C22", margin=MARGIN, n=FIVE, gate="sweep", places=("imagewoof",), protocol="initial temperature")
def c22(comparisons: Comparisons) -> str:
    """Contrast: LAE on Imagewoof at 128 px with average pooling's hyperparameters against with its
    own, the mean accuracy over all t₀ and kinds. Reproduced if higher, contradicted if lower or the
    same, else open."""
    return _one_way(comparisons.outcomes())


# Precision of the pooling step (tier 3).


@rule("E8", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="precision")
def e8(comparisons: Comparisons) -> str:
    """Contrasts: the textbook form in FP16 against FP32 at fixed t of 1, 32, 128 and 1024, and FP32
    at 1024 against FP32 at 1. Reproduced if FP16 is lower at 128 and 1024 and not lower at 1 and
    32, and FP32 at 1024 is not lower by 5 points; contradicted if FP16 is lower at none of 128 and
    1024 and one of them is decided; partly if it is lower at one of them, or fails earlier, or FP32
    falls too; else open."""
    half = comparisons.only(lambda c: c.second != "FP32 at the lowest t")
    hot, cold = half.outcomes(lambda c: (c.t or 0) > 32), half.outcomes(lambda c: (c.t or 0) <= 32)
    held = all(c.difference > -5 for key, c in comparisons.items() if key.second == "FP32 at the lowest t")
    if "lower" not in hot:
        return "contradicted" if {"same", "higher"} & set(hot) else "open"
    return "reproduced" if set(hot) == {"lower"} and "lower" not in cold and held else "partly"


@rule("C6", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="precision")
def c6(comparisons: Comparisons) -> str:
    """Contrasts: the exact form in FP32 against FP64 at fixed t of 1, 32, 128 and 1024, final
    accuracy. Reproduced (the supplement's word) if all are the same; contradicted if one is higher
    or lower; else open."""
    return _alike(comparisons.outcomes())


@rule("C10", margin=WIDE_MARGIN, n=FIVE, gate="sweep", places=IMAGENET, protocol="precision")
def c10(comparisons: Comparisons) -> str:
    """Contrasts, textbook form in FP16 from t₀ of 128 and 1024: a trained temperature against a
    fixed one, and one temperature against one per channel. Reproduced if trained is higher
    throughout, and one is higher than per channel somewhere and lower nowhere; contradicted if none
    is higher and one is lower; partly if some are higher; else open."""
    trained = comparisons.outcomes(_against("fixed"))
    single = comparisons.outcomes(lambda c: c.second != "fixed")
    if trained and set(trained) == {"higher"} and some_of(single) == "reproduced":
        return "reproduced"
    return "partly" if "higher" in trained + single else all_of(trained + single)


# A pretrained network with frozen weights: not in the paper, so no printed protocol stands behind these.


@rule("C26", margin=WIDE_MARGIN, n={"other": 20}, gate="frozen", places=("cifar10",))
def c26(comparisons: Comparisons) -> str:
    """Contrast: LAE at t = 1 against the average, both over class scores, on canvases of 160 px
    whose object has 64 px. Reproduced if higher; contradicted if lower or the same; else open."""
    return _one_way(comparisons.outcomes())


@rule("C26a", margin=WIDE_MARGIN, n={"other": 20}, gate="frozen", places=("cifar10",))
def c26a(comparisons: Comparisons) -> str:
    """Contrast: LAE at t = 1 against the maximum, both over class scores, on the canvases of C26.
    Reproduced if higher; contradicted if lower or the same; else open."""
    return _one_way(comparisons.outcomes())


@rule("C26b", margin=WIDE_MARGIN, n={"other": 20}, gate="frozen", places=("cifar10",))
def c26b(comparisons: Comparisons) -> str:
    """Contrasts, trained on canvases of 160 px and tested on those of 96 px, and the other way round, as
    dense with distractors: over scores, LAE at t = 1 against the average and against the maximum;
    over features, LAE at t = 1 against LSE. Reproduced if all are higher; contradicted if none is
    higher and one is lower; partly if some are higher; else open."""
    return all_of(comparisons.outcomes())


@rule("C26c", margin=WIDE_MARGIN, n={"other": 20}, gate="frozen", places=("cifar10",))
def c26c(comparisons: Comparisons) -> str:
    """Contrasts, each a difference of two gains of LAE at t = 1 over the average, both over scores:
    on canvases of 160 px less on those of 96 px, where the object's share is larger; and with
    distractors less without any, at 96 px. Reproduced if both are higher; contradicted if none is
    higher and one is lower; partly if one is higher; else open."""
    return all_of(comparisons.outcomes())


@rule("C27", margin=WIDE_MARGIN, n={"other": 10}, gate="frozen", places=("cifar100",))
def c27(comparisons: Comparisons) -> str:
    """Contrasts: LAE over features at t of ¼, 1, 4 and 16, before and after the last activation,
    each against the average at the same place; the picture fills the frame. Reproduced if every one
    is the same or lower; contradicted if one is higher; else open."""
    outcomes = comparisons.outcomes()
    if "higher" in outcomes:
        return "contradicted"
    return "reproduced" if outcomes and set(outcomes) <= {"same", "lower"} else "open"


@rule("C27a", margin=MARGIN, n={"other": 10}, gate="frozen", places=("cifar100",))
def c27a(comparisons: Comparisons) -> str:
    """Contrast: average pooling before against after the last activation. Reproduced if higher;
    contradicted if lower or the same; else open."""
    return _one_way(comparisons.outcomes())


@rule("C28", margin=WIDE_MARGIN, n={"other": 10}, gate="frozen", places=("imagenette",))
def c28(comparisons: Comparisons) -> str:
    """Contrasts, without any training, by tenths of the test pictures: LAE at t of ¼, 4 and 16 times
    the features' spread against the average that the network was trained with. First half:
    reproduced if it is lower at ¼, contradicted if the same or higher, else open. Second half:
    reproduced if it is the same at 4 and at 16, contradicted if one is higher or lower, else open.
    The claim is both: partly where only one came out."""
    low = comparisons.outcomes(lambda c: (c.t or 0) < 1)
    costs = "contradicted" if {"same", "higher"} & set(low) else all_of(low, "lower", "")
    return combine([costs, _alike(comparisons.outcomes(lambda c: (c.t or 0) >= 1))])


def _one_way(outcomes: Sequence[str]) -> str:
    """The word for a claim that something is higher, which sameness contradicts."""
    words = {"higher": "reproduced", "lower": "contradicted", "same": "contradicted", "undecided": "open"}
    return combine([words[outcome] for outcome in outcomes] or ["open"])


# Squeeze-and-excitation (tier 4) and PyramidNet's tail.


@rule("E9", margin=MARGIN, n=FIVE, gate="table", places=CIFAR, protocol="squeeze")
def e9(comparisons: Comparisons) -> str:
    """Contrasts, average as global pool: LAE in the squeeze against the average there, final
    accuracy. Where pools were picked by a shorter recipe, only runs with the longer one count.
    Reproduced if some is higher and none lower; contradicted if some is lower and none higher;
    partly if both occur; else open."""
    return some_of(comparisons.outcomes())


@rule("C4", margin=MARGIN, n=FIVE, gate="table", places=CIFAR, protocol="squeeze")
def c4(comparisons: Comparisons) -> str:
    """Contrasts of E9, printed or run. Reproduced if every LAE pool in the squeeze is higher than
    the average there on both data sets; partly if some are; contradicted if none is higher and one
    lower, or all are the same; else open."""
    outcomes = comparisons.outcomes()
    return "contradicted" if outcomes and set(outcomes) == {"same"} else all_of(outcomes)


@rule("C5", margin=MARGIN, n=FIVE, gate="table", places=CIFAR, protocol="squeeze")
def c5(comparisons: Comparisons) -> str:
    """Contrasts, printed or run: the network with Squeeze-and-Excitation, the same LAE pool in both
    places, against the network without it. No gain is the same or lower; what is not significant
    shows neither. Reproduced if two thirds or more show no gain; contradicted if more than half are
    higher; partly if a third or more show no gain; else open."""
    outcomes = comparisons.outcomes()
    gains, none = outcomes.count("higher"), outcomes.count("same") + outcomes.count("lower")
    if 2 * gains > len(outcomes):
        return "contradicted"
    if not outcomes or 3 * none < len(outcomes):
        return "open"
    return "reproduced" if 3 * none >= 2 * len(outcomes) else "partly"


@rule("C14", margin=MARGIN, n=FIVE, gate="table", places=CIFAR, protocol="pyramidnet")
def c14(comparisons: Comparisons) -> str:
    """Contrasts, with average pooling and with LAE: a PReLU tail against a ReLU tail, and the order
    BN-Pool-BN-ReLU against BN-ReLU-Pool. Reproduced if PReLU is higher with both pools and the
    orders differ with both; contradicted if PReLU is lower, or the same, with both; partly if some
    of that came out; else open."""
    activation = comparisons.outcomes(_against("ReLU"))
    order = comparisons.outcomes(_against("BN-ReLU-Pool"))
    if activation and set(activation) <= {"same", "lower"}:
        return "contradicted"
    met = [outcome == "higher" for outcome in activation] + [outcome in ("higher", "lower") for outcome in order]
    return "reproduced" if activation and order and all(met) else "partly" if any(met) else "open"


@rule("C25", margin=None, n=FIVE, gate="table", places=("cifar100",), protocol="pyramidnet")
def c25(comparisons: Comparisons) -> str:
    """Contrast: by how many per cent the gap between training and validation accuracy is narrower
    with LAE than with average pooling, both re-tuned. By the 95 % interval: reproduced if it holds
    22 and not 0; contradicted if it does not hold 22; else open."""
    words = []
    for c in comparisons.values():
        holds, clear = c.interval.low <= 22 <= c.interval.high, c.interval.low > 0
        words.append("contradicted" if not holds else "reproduced" if clear else "open")
    return combine(words or ["open"])


# Networks and searches as described.


def _network(built: Built, scale: str) -> str:
    if built.known is not None and built.parameters != built.known:
        return "contradicted"
    return "reproduced" if scale == "paper" else "implemented"


@rule("N1", protocol="pyramidnet")
def n1(built: Built, scale: str) -> str:
    """Implemented if PyramidNet-110 builds from its description with the number of parameters known
    for it, contradicted if with another; reproduced only once it was trained by the printed
    protocol, with its n."""
    return _network(built, scale)


@rule("N2", protocol="wrn")
def n2(built: Built, scale: str) -> str:
    """Implemented if WRN-18-6 builds from its description with the number of parameters known for
    it, contradicted if with another; reproduced only once it was trained by the printed protocol,
    with its n."""
    return _network(built, scale)


@rule("N3", protocol="squeeze")
def n3(built: Built, scale: str) -> str:
    """Implemented if WRN-18-6 with Squeeze-and-Excitation builds (no number of parameters is known
    for it); reproduced only once it was trained by the printed protocol, with its n."""
    return _network(built, scale)


@rule("N4", protocol="mxresnet")
def n4(built: Built, scale: str) -> str:
    """Implemented if MXResNet-50 builds from its description with the number of parameters known
    for it, contradicted if with another; reproduced only once it was trained by the printed
    protocol, with its n."""
    return _network(built, scale)


@rule("N5")
def n5(on_lattice: int, by_division: int, neither: int) -> str:
    """From the printed hyperparameters of WRN-18-6: reproduced if all rows are whole steps of the
    lattice from the stated start; partly if the rest follow one further rule exactly; contradicted
    if some row follows neither."""
    return "contradicted" if neither else "partly" if by_division else "reproduced"


@rule("N6")
def n6(values: int, outside: int) -> str:
    """From the printed hyperparameters of MXResNet: reproduced if every value is inside its stated
    range, partly if at most one in twenty is not, contradicted otherwise."""
    return "reproduced" if not outside else "partly" if 20 * outside <= values else "contradicted"


@rule("E10")
def e10(rows: int, strange: int) -> str:
    """From the printed hyperparameters: reproduced if each searched row is what its search as
    described can give, contradicted if more than a tenth are not, partly otherwise."""
    return "reproduced" if not strange else "contradicted" if 10 * strange > rows else "partly"


@rule("C7a")
def c7a(lower: int, settings: int) -> str:
    """From the printed hyperparameters: the median rate of the LAE pools over that of average
    pooling. Reproduced if lower in every setting, contradicted if in at most half, partly
    otherwise."""
    return "reproduced" if lower == settings else "contradicted" if 2 * lower <= settings else "partly"


@rule("C24")
def c24(average_as_said: bool, lae_as_said: bool) -> str:
    """From the printed hyperparameters of PyramidNet: reproduced if both weight decays are as said,
    partly if one is, contradicted if neither."""
    met = bool(average_as_said) + bool(lae_as_said)
    return ("contradicted", "partly", "reproduced")[met]


# The paper's own tables. A contrast is higher where its first arm is significantly better by Welch's test from the
# printed means and deviations, corrected by Holm over the contrasts of the claim.


@rule("C2", margin=None)
def c2(comparisons: Comparisons) -> str:
    """Contrasts: every LAE pool against average pooling in the four settings of table 2. The claim
    makes four statements: some LAE pool is higher on Imagewoof 128, on Imagewoof 256 and on
    Imagenette 128, and none is higher or lower on Imagenette 256. Reproduced if all four hold,
    partly if two or three do, contradicted otherwise."""
    met = statements_of_c2(comparisons)
    return "reproduced" if all(met.values()) else "partly" if sum(met.values()) >= 2 else "contradicted"


def statements_of_c2(comparisons: Comparisons) -> dict[str, bool]:
    """Which of C2's four statements hold, by setting."""
    at = {place: comparisons.outcomes(_in(place)) for place in C2_BETTER}
    return {place: ("higher" in at[place]) if better else not {"higher", "lower"} & set(at[place])
            for place, better in C2_BETTER.items()}  # fmt: skip


C2_BETTER = {"Imagewoof 128 px": True, "Imagewoof 256 px": True, "Imagenette 128 px": True, "Imagenette 256 px": False}


@rule("C9a", margin=None)
def c9a(comparisons: Comparisons) -> str:
    """Contrasts in the settings of table 2: LAE trained from t₀ = 4, with one temperature and with
    one per channel, against average pooling and against the best other pool of the setting.
    Reproduced if both are higher than average pooling somewhere and lower than nothing anywhere;
    contradicted if one is lower than average pooling, or none is higher; partly otherwise."""
    average = comparisons.outcomes(_against(AVERAGE))
    if "lower" in average or "higher" not in average:
        return "contradicted"
    each = {c.first: comparisons.only(_of(c.first)).outcomes(_against(AVERAGE)) for c in comparisons}
    both = all("higher" in outcomes for outcomes in each.values())
    return "reproduced" if both and "lower" not in comparisons.outcomes() else "partly"


@rule("C13b", margin=None)
def c13b(comparisons: Comparisons) -> str:
    """Contrast: LAE at t = 1 against average pooling on Imagewoof 128 in table 2. Reproduced if
    lower, contradicted if higher, else open."""
    return all_of(comparisons.outcomes(), "lower", "higher")


@rule("C14a")
def c14a(unsettled: int, entries: int) -> str:
    """From the commented table: an LAE entry is unsettled where its deviation at rate 0.5 is more
    than ten times that at 0.1. Reproduced if most are (context temperature aside), contradicted if
    none is, partly otherwise."""
    return "contradicted" if not unsettled else "reproduced" if 2 * unsettled > entries else "partly"


@rule("C14b")
def c14b(collapsed: int, settings: int) -> str:
    """From the commented table: an entry has collapsed where its error is within a tenth of chance.
    Reproduced if the context temperature has on both data sets, partly if on one, contradicted if
    on none."""
    return "contradicted" if not collapsed else "reproduced" if collapsed == settings else "partly"


@rule("C15", margin=None)
def c15(comparisons: Comparisons) -> str:
    """Contrasts: every two LAE pools in a setting of table 2. Reproduced if at most one pair in ten
    differs significantly, contradicted if more than half do, partly otherwise."""
    outcomes = comparisons.outcomes()
    differ = outcomes.count("higher") + outcomes.count("lower")
    return "reproduced" if 10 * differ <= len(outcomes) else "contradicted" if 2 * differ > len(outcomes) else "partly"


@rule("C16", margin=1.0)
def c16(comparisons: Comparisons) -> str:
    """Contrasts: the LAE pools that start at t₀ = 4 against average pooling on Imagewoof 128 in
    table 2. Level is the same within 1 point, or higher; what is not significant alone is not
    level. Reproduced if all are level, contradicted if all are lower, partly if some are level,
    else open."""
    level = ["level" if outcome in ("same", "higher") else outcome for outcome in comparisons.outcomes()]
    if level and set(level) == {"lower"}:
        return "contradicted"
    return all_of(level, "level", "")


@rule("C17", margin=MARGIN)
def c17(comparisons: Comparisons) -> str:
    """Contrasts: the LAE pools against average pooling in the dropped PyramidNet table. As said:
    higher on CIFAR-10, lower on CIFAR-100 first, the same within 0.2 points after re-tuning.
    Reproduced if all are as said; contradicted if those that came out otherwise outnumber them;
    partly if some are as said; open if none is decided."""
    said = {"CIFAR-10, initial": "higher", "CIFAR-100, initial": "lower", "CIFAR-100, re-tuned": "same"}
    met = [c.outcome == said[key.place] for key, c in comparisons.items()]
    other = [c.outcome not in (said[key.place], "undecided") for key, c in comparisons.items()]
    if met and all(met):
        return "reproduced"
    return "contradicted" if sum(other) > sum(met) else "partly" if any(met) else "open"


@rule("C18", margin=None)
def c18(comparisons: Comparisons) -> str:
    """Contrasts: each pool at a first learning rate of 0.1 against 0.5 in the commented table.
    Reproduced if each is higher, partly if some are and each mean is, contradicted if some mean is
    lower, else open."""
    if any(c.difference < 0 for c in comparisons.values()):
        return "contradicted"
    return all_of(comparisons.outcomes())


@rule("C19", margin=0.1)
def c19(comparisons: Comparisons) -> str:
    """Contrasts: LAE in both places against LAE as global pool alone, and against LAE in the
    squeeze alone, from tables 1 and 3. The gains add up in a case where both are higher, and do not
    where one is lower or the same within 0.1 points. Reproduced if they do not add up in every
    case, contradicted if they do in most, partly if they do not in some, else open."""
    cases = {(key.place, key.first) for key in comparisons}
    outcomes = [set(comparisons.only(_in(place)).outcomes(_of(first))) for place, first in cases]
    stack, fail = (sum(o == {"higher"} for o in outcomes), sum(bool(o & {"lower", "same"}) for o in outcomes))
    if cases and fail == len(cases):
        return "reproduced"
    return "contradicted" if 2 * stack > len(cases) else "partly" if fail else "open"


def overview() -> list[dict[str, str]]:
    """Every rule as a row of a table: the claim, its rule in words, and what was fixed with it."""
    return [
        {
            "claim": claim,
            "rule": found.text,
            "margin": "–" if found.margin is None else f"{found.margin:g}",
            "runs per arm": ", ".join(f"{n} ({data})" if data != "other" else str(n) for data, n in found.n.items())
            or "–",
            "gate": found.gate if found.n else "–",
            "data sets": ", ".join(found.places) or "–",
        }
        for claim, found in sorted(RULES.items(), key=lambda item: _order(item[0]))
    ]


def _order(claim: str) -> tuple[str, int, str]:
    """E2 before E10, and letters in the order of the ledger: networks, experiments, further claims."""
    digits = "".join(c for c in claim[1:] if c.isdigit())
    return str("TNEC".index(claim[0])), int(digits), claim
