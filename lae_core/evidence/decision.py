"""From a rule's word to a decision: the word, limited by gate, n and data sets, with the scale and regime of the runs.

A rule is a function from outcomes to a word (`rules/`). A :class:`Rule` holds this function and what was fixed before the
runs. When it is called, it adds what nobody may choose: the scale, which follows from the configs of the runs; the regime,
from the accuracy of their baseline arm; and n.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lae_core.evidence.compare import Comparisons, describe
from lae_core.evidence.gate import Kind, Regime, family, regime
from lae_core.evidence.scale import SCALES, scale_of
from lae_core.runs.records import Record

VERDICTS: tuple[str, ...] = (
    "proved", "reproduced", "consistent with print", "implemented", "partly", "contradicted", "open",
    "not testable here",
)  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """A verdict's word with all that a reader needs beside it. `because` says what held the word down, if anything."""

    claim: str
    word: str
    rule: str
    scale: str
    n: int | None = None
    regimes: tuple[Regime, ...] = ()
    because: str = ""
    comparisons: Comparisons | None = None

    @property
    def evidence(self) -> str:
        """The comparisons in a sentence, with differences and intervals."""
        return "" if self.comparisons is None else f"{describe(self.comparisons.values())}."

    def __str__(self) -> str:
        return f"{self.claim}: {self.word}" + (f" ({self.because})" if self.because else "")


class Built(NamedTuple):
    """A network built from its description: its parameters, the number known for it, and the runs that trained it."""

    parameters: int
    known: int | None
    runs: Sequence[Record] = ()


@dataclass(frozen=True)
class Rule:
    """A rule that can be called with its evidence; the fields are explained in `rules/`.

    `word` is the function that was registered: from outcomes to a word, whatever gate, n and places say.
    """

    claim: str
    word: Callable[..., str]
    margin: float | None = None
    n: Mapping[str, int] = field(default_factory=dict)
    gate: Kind = "table"
    places: tuple[str, ...] = ()
    protocol: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", inspect.getdoc(self.word))  # so that help(rules.e3) shows the rule

    @property
    def text(self) -> str:
        """The rule in words, on one line."""
        return " ".join((inspect.getdoc(self.word) or "").split())

    def __call__(self, *evidence: Any) -> Decision:
        """Decide on comparisons, on the decisions of a claim's parts, on a network, or on counts."""
        match evidence:
            case (Comparisons(source="runs") as comparisons,):
                return self._from_runs(comparisons)
            case (Comparisons() as comparisons,):
                word = _in_print(self.word(comparisons))
                return Decision(self.claim, word, self.text, "printed", comparisons.n, comparisons=comparisons)
            case (Decision(), *_):
                return self._from_parts(evidence)
            case (Built() as built,):
                scale = scale_of(built.runs, self.protocol)
                return Decision(self.claim, self.word(built, scale), self.text, scale)
            case _:
                return Decision(self.claim, _in_print(self.word(*evidence)), self.text, "printed")

    def _from_parts(self, parts: Sequence[Decision]) -> Decision:
        """Decide on a claim of several parts: the weakest scale, the smallest n, and the regimes of all."""
        regimes = tuple(dict.fromkeys(r for part in parts for r in part.regimes))
        scale = min((part.scale for part in parts), key=SCALES.index)
        n = min((part.n for part in parts if part.n), default=None)
        because = "; ".join(dict.fromkeys(part.because for part in parts if part.because))
        return Decision(self.claim, self.word(*parts), self.text, scale, n, regimes, because)

    def _from_runs(self, comparisons: Comparisons) -> Decision:
        """Decide on the places whose network works, if every arm there has enough runs."""
        baseline = comparisons.baseline or {}
        places = list(dict.fromkeys(contrast.place for contrast in comparisons))
        without_baseline = [place for place in places if not baseline[place]]
        if without_baseline == places:
            why = f"the baseline arm was not run on {places[0]}" if places else "not run"
            return Decision(self.claim, "open", self.text, "cpu", because=why)
        regimes = tuple(regime(place, baseline[place], self.gate) for place in places if baseline[place])
        working = [r.place for r in regimes if r.passed]
        counted = comparisons.only(lambda contrast: contrast.place in working)
        scale, n = scale_of(comparisons.runs, self.protocol), (counted or comparisons).n
        decision = Decision(self.claim, "open", self.text, scale, n, regimes, comparisons=comparisons)
        if not counted:
            return replace(decision, word="not testable here", because="the baseline arm is below the gate")
        data = {place: family(baseline[place][0].config["data"]) for place in working}
        if short := self._short_of_runs(counted, data):
            return replace(decision, because=short)
        word = self.word(counted)
        missing = [name for name in self.places if name not in data.values()]
        if word == "reproduced" and missing:
            return replace(decision, word="partly", because=f"nothing was decided on {', '.join(missing)}")
        below = [r.place for r in regimes if not r.passed]
        left_out = {"below the gate": below, "not run": without_baseline}
        because = "; ".join(f"not counted: {', '.join(names)} ({why})" for why, names in left_out.items() if names)
        return replace(decision, word=word, because=because)

    def _short_of_runs(self, comparisons: Comparisons, data: Mapping[str, str]) -> str:
        """Where an arm has fewer runs than the rule asks for on the place's data set, in words."""
        for contrast, c in comparisons.items():
            wanted = self.n.get(data[contrast.place], self.n.get("other", 2))
            if c.n < wanted:
                return f"the rule asks for n = {wanted}, and {contrast} has n = {c.n}"
        return ""


def _in_print(word: str) -> str:
    """The word for what the paper's own page bears out."""
    return "consistent with print" if word == "reproduced" else word
