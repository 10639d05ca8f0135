"""The paper's own tables, decided again.

A contrast is higher where its first arm is significantly better by Welch's test from the printed means and deviations,
corrected by Holm over the contrasts of the claim.
"""

from __future__ import annotations

from lae_core.evidence.compare import Comparisons
from lae_core.evidence.rules.parts import AVERAGE, MARGIN, against, all_of, at_place, with_first
from lae_core.evidence.rules.registry import rule


@rule("C2", margin=None)
def c2(comparisons: Comparisons) -> str:
    """Contrasts: every LAE pool against average pooling in the four settings of table 2. The claim
    makes four statements: some LAE pool is higher on Imagewoof 128, on Imagewoof 256 and on
    Imagenette 128, and none is higher or lower on Imagenette 256. Reproduced if all four hold,
    partly if two or three do, contradicted otherwise."""
    met = c2_statements(comparisons)
    return "reproduced" if all(met.values()) else "partly" if sum(met.values()) >= 2 else "contradicted"


def c2_statements(comparisons: Comparisons) -> dict[str, bool]:
    """Which of C2's four statements hold, by setting."""
    at = {place: comparisons.outcomes(at_place(place)) for place in C2_BETTER}
    return {
        place: "higher" in at[place] if better else not {"higher", "lower"} & set(at[place])
        for place, better in C2_BETTER.items()
    }


C2_BETTER = {"Imagewoof 128 px": True, "Imagewoof 256 px": True, "Imagenette 128 px": True, "Imagenette 256 px": False}


@rule("C9a", margin=None)
def c9a(comparisons: Comparisons) -> str:
    """Contrasts in the settings of table 2: LAE trained from t₀ = 4, with one temperature and with
    one per channel, against average pooling and against the best other pool of the setting.
    Reproduced if both are higher than average pooling somewhere and lower than nothing anywhere;
    contradicted if one is lower than average pooling, or none is higher; partly otherwise."""
    average = comparisons.outcomes(against(AVERAGE))
    if "lower" in average or "higher" not in average:
        return "contradicted"
    each = {c.first: comparisons.only(with_first(c.first)).outcomes(against(AVERAGE)) for c in comparisons}
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
    added_up = failed = 0
    for place, first in cases:
        outcomes = set(comparisons.only(at_place(place)).outcomes(with_first(first)))
        added_up += outcomes == {"higher"}
        failed += bool(outcomes & {"lower", "same"})
    if cases and failed == len(cases):
        return "reproduced"
    return "contradicted" if 2 * added_up > len(cases) else "partly" if failed else "open"
