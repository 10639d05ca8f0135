"""Each rule by outcomes made for it: every word that it can give, and no other, over all outcomes that there are."""

from itertools import product
from pathlib import Path

import pytest

from lae_core.evidence import rules
from lae_core.evidence.claims import load_claims
from lae_core.evidence.compare import OUTCOMES, Comparison, Comparisons, Contrast
from lae_core.evidence.decision import Built, Decision
from lae_core.evidence.rules import RULES, parts
from lae_core.evidence.stats import Interval

C10, C100, WOOF, NETTE = "CIFAR-10", "CIFAR-100", "Imagewoof 64 px", "Imagenette 64 px"
LETTERS = {"h": "higher", "l": "lower", "s": "same", "u": "undecided"}
DIFFERENCE = {"higher": 1.0, "lower": -1.0, "same": 0.01, "undecided": 0.1}
# what the rules on training say of the printed tables is the same function, so `runs` or `printed` makes no difference here


def comparison(name="c", outcome="undecided", low=-1.0, high=1.0, n=5, difference=None):
    centre = DIFFERENCE[outcome] if difference is None else difference
    return Comparison(name, n, centre, Interval(centre, low, high), 0.5, 0.5, outcome)


def given(contrasts, letters):
    found = {k: comparison(str(k), LETTERS[letter]) for k, letter in zip(contrasts, letters, strict=True)}
    return Comparisons(found)


def against(place, first, *seconds):
    return [Contrast(place, first, second) for second in seconds]


# claim: (contrasts, {outcomes, one letter each: word})
CASES = {
    "E1": (
        [Contrast(C10, pool, "avg") for pool in ("lae", "lae(train=one)", "lae(train=channel)")],
        {"hhh": "reproduced", "hhu": "partly", "hll": "partly", "usl": "contradicted", "uss": "open", "uuu": "open"},
    ),
    "C7": (
        [Contrast(C10, "mean", "avg"), Contrast(C100, "mean", "avg"), Contrast(C10, rules.SCALED, "avg with gain")],
        {"hhl": "reproduced", "hlu": "partly", "ulh": "contradicted", "uuh": "open", "ssu": "open"},
    ),
    "E3": (
        [*against(C10, rules.ONE, "avg", rules.SCALED, "max"), *against(C100, rules.ONE, "avg")],
        {
            "hhuh": "reproduced", "hhhh": "reproduced", "hulh": "partly", "huuh": "partly", "hhlh": "partly",
            "hhhu": "partly", "hhhl": "partly", "lhhu": "contradicted", "uhhu": "open", "shhs": "open",
        },
    ),
    "C1": (
        [*against(C10, rules.ONE, "avg", "gated"), *against(C100, rules.ONE, "avg")],
        {
            "hhh": "reproduced", "huh": "partly", "hsh": "partly", "hlh": "contradicted", "shs": "contradicted",
            "lhh": "contradicted", "uhh": "open", "uuu": "open",
        },
    ),
    "C3": (
        [Contrast(C10, f"lae {k}", "avg") for k in range(4)],
        {
            "hhhu": "reproduced", "hhuu": "partly", "hhhl": "partly", "hlul": "contradicted", "ulll": "contradicted",
            "ssss": "contradicted", "uuuu": "open", "sssu": "open",
        },
    ),
    "E2": (
        [Contrast(C10, pool, "avg") for pool in ("lae", "lae(train=one)")],
        {"hu": "reproduced", "hl": "partly", "lu": "contradicted", "uu": "open"},
    ),
    "E4": (
        [Contrast(WOOF, pool, "avg") for pool in ("lae", "lae(t0=4)")],
        {"hs": "reproduced", "hl": "partly", "ls": "contradicted", "ss": "open"},
    ),
    "C13": (
        [Contrast(WOOF, "trained, zoom", "avg"), Contrast(WOOF, "trained, crops", "avg")],
        {"hh": "reproduced", "hl": "partly", "hu": "partly", "ll": "contradicted", "lu": "open", "uu": "open"},
    ),
    "C13a": (
        [Contrast(NETTE, "mixed, zoom", "lae"), Contrast(WOOF, "mixed, zoom", "lae")],
        {"hl": "reproduced", "hh": "partly", "lh": "contradicted", "uu": "open", "lu": "open"},
    ),
    "C13c": (
        [Contrast(WOOF, "a third smaller", "avg"), Contrast(WOOF, "a third larger", "avg")],
        {"hh": "reproduced", "hu": "partly", "ll": "contradicted", "ul": "open"},
    ),
    "C23": (
        [Contrast(NETTE, pool, "avg") for pool in ("lae", "mixed")],
        {"ss": "reproduced", "sh": "contradicted", "lu": "contradicted", "su": "open"},
    ),
    "C11": (
        [Contrast(C10, rules.ONE, "start", t) for t in (1.0, 64.0)]
        + [Contrast(C10, rules.CHANNEL, "start", t) for t in (4.0, 16.0)],
        {
            "hhhl": "reproduced", "huhl": "reproduced", "hhhh": "partly", "hlhl": "partly", "lllh": "contradicted",
            "uuuu": "open", "lluu": "open", "ssss": "open", "ullh": "contradicted",
        },
    ),
    "E7": (
        [Contrast(C10, "the middle", "t₀ = 0.25"), Contrast(C10, "the middle", "t₀ = 256")],
        {"hh": "reproduced", "hu": "partly", "hl": "partly", "lu": "contradicted", "su": "open"},
    ),
    "C8": (
        [Contrast(C10, "× 10", "× 1"), Contrast(C10, "× 100", "× 1")],
        {"hs": "reproduced", "hl": "partly", "lu": "contradicted", "ss": "contradicted", "us": "open"},
    ),
    "C12": (
        [Contrast(C10, "lae", "avg", t) for t in (4.0, 16.0, 256.0)],
        {
            "hhs": "reproduced", "hus": "partly", "hhh": "partly", "sll": "contradicted", "ssh": "contradicted",
            "uuu": "open", "ssu": "open", "uul": "open",
        },
    ),
    "C9": (
        [*against(C10, "one from 4", "avg", rules.FIXED, "one from 16"), *against(C10, "channel from 4", "avg")],
        {
            "huuu": "reproduced", "uuuh": "reproduced", "hulu": "partly", "lhhl": "contradicted", "hlll": "contradicted",
            "uuuu": "open", "luuu": "open",
        },
    ),
    "C20": (
        [Contrast(f"network {k}", rules.FIXED, "avg") for k in range(3)],
        {"ssl": "reproduced", "hsu": "partly", "hhl": "partly", "hhh": "contradicted", "hhu": "open", "ssu": "open"},
    ),
    "C21": (
        [Contrast(C10, "common", "own"), Contrast(C100, "common", "own")],
        {"ll": "reproduced", "ls": "partly", "hs": "contradicted", "us": "contradicted", "uu": "open"},
    ),
    "C22": (
        [Contrast(WOOF, "common", "own")],
        {"h": "reproduced", "l": "contradicted", "s": "contradicted", "u": "open"},
    ),
    "C26": (
        [Contrast(C10, "lae", "avg")],
        {"h": "reproduced", "l": "contradicted", "s": "contradicted", "u": "open"},
    ),
    "C26a": (
        [Contrast(C10, "lae", "max")],
        {"h": "reproduced", "l": "contradicted", "s": "contradicted", "u": "open"},
    ),
    "C26b": (
        [*against(C10, "lae over scores", "avg", "max"), *against(C10, "lae over features", "lse")],
        {"hhh": "reproduced", "hhu": "partly", "hll": "partly", "usl": "contradicted", "uss": "open", "uuu": "open"},
    ),
    "C26c": (
        [*against(C10, "gain at 160 px", "at 96 px"), *against(C10, "gain with clutter", "without")],
        {"hh": "reproduced", "hu": "partly", "hl": "partly", "ul": "contradicted", "us": "open"},
    ),
    "C27": (
        [Contrast(C100, f"lae, {place}", "avg") for place in ("before", "after")],
        {"ss": "reproduced", "sl": "reproduced", "hl": "contradicted", "hu": "contradicted", "su": "open"},
    ),
    "C27a": (
        [Contrast(C100, "before", "after")],
        {"h": "reproduced", "l": "contradicted", "s": "contradicted", "u": "open"},
    ),
    "C29": (
        [Contrast(f"{C10}, {recipe}", pool, "avg") for pool in ("gem", "lae") for recipe in ("ten", "half-hour")],
        {
            "hhss": "reproduced", "ssss": "reproduced", "hsll": "contradicted", "uuhl": "contradicted",
            "huss": "open", "uuuu": "open", "ssuu": "open",
        },
    ),
    "C30": (
        [Contrast(place, pool, rules.SCALED) for place in (C10, C100) for pool in (rules.ONE, rules.CHANNEL)],
        {"hhhh": "reproduced", "huus": "partly", "hlll": "partly", "ssls": "contradicted", "uuuu": "open", "sslu": "open"},
    ),
    "C28": (
        [Contrast(NETTE, "lae", "avg", t) for t in (0.25, 4.0, 16.0)],
        {
            "lss": "reproduced", "lsu": "partly", "lll": "partly", "uss": "partly", "sss": "partly",
            "hlh": "contradicted", "sll": "contradicted", "usu": "open", "ssu": "open", "ull": "open",
        },
    ),
    "E8": (
        [Contrast(C10, "FP16", "FP32", t) for t in (32.0, 128.0, 1024.0)],
        {"ull": "reproduced", "sll": "reproduced", "lll": "partly", "sul": "partly", "uuh": "contradicted", "suu": "open"},
    ),
    "C6": (
        [Contrast(C10, "FP32", "FP64", t) for t in (1.0, 1024.0)],
        {"ss": "reproduced", "sh": "contradicted", "su": "open"},
    ),
    "C10": (
        [Contrast(C10, "one", "fixed", 128.0), Contrast(C10, "channel", "fixed", 128.0), Contrast(C10, "one", "channel", 128.0)],
        {"hhh": "reproduced", "hhu": "partly", "hhl": "partly", "luu": "contradicted", "uuu": "open"},
    ),
    "E9": (
        [Contrast(C10, "lae in the squeeze", "avg"), Contrast(C100, "lae in the squeeze", "avg")],
        {"hu": "reproduced", "hl": "partly", "ul": "contradicted", "us": "open"},
    ),
    "C4": (
        [Contrast(C10, "lae in the squeeze", "avg"), Contrast(C100, "lae in the squeeze", "avg")],
        {"hh": "reproduced", "hu": "partly", "hl": "partly", "ul": "contradicted", "ss": "contradicted", "us": "open"},
    ),
    "C5": (
        [Contrast(C10, f"lae {k}", "without") for k in range(3)],
        {"ssu": "reproduced", "lsh": "reproduced", "suu": "partly", "hhs": "contradicted", "uuu": "open", "huu": "open"},
    ),
    "C14": (
        [Contrast(C10, "avg, PReLU", "ReLU"), Contrast(C10, "lae, PReLU", "ReLU"), Contrast(C10, "avg", "BN-ReLU-Pool")],
        {"hhl": "reproduced", "hhu": "partly", "uuh": "partly", "lsh": "contradicted", "uuu": "open"},
    ),
    "C2": (
        [Contrast(place, "lae", "avg") for place in rules.C2_BETTER],
        {"hhhu": "reproduced", "hhuu": "partly", "uuhu": "partly", "uuuu": "contradicted", "huuh": "contradicted"},
    ),
    "C9a": (
        [*against(WOOF, "one from 4", "avg", "the best"), *against(WOOF, "channel from 4", "avg")],
        {"huh": "reproduced", "hlh": "partly", "huu": "partly", "uuu": "contradicted", "luh": "contradicted"},
    ),
    "C13b": ([Contrast(WOOF, "lae", "avg")], {"l": "reproduced", "h": "contradicted", "u": "open"}),
    "C15": (
        [Contrast(WOOF, f"lae {k}", "lae") for k in range(3)],
        {"uuu": "reproduced", "huu": "partly", "hlu": "contradicted"},
    ),
    "C16": (
        [Contrast(WOOF, f"lae {k} from 4", "avg") for k in range(2)],
        {"ss": "reproduced", "hs": "reproduced", "sl": "partly", "ll": "contradicted", "uu": "open", "ul": "open"},
    ),
    "C17": (
        [Contrast(p, "lae", "avg") for p in ("CIFAR-10, initial", "CIFAR-100, initial", "CIFAR-100, re-tuned")],
        {"hls": "reproduced", "hlu": "partly", "hhu": "partly", "lhu": "contradicted", "uuu": "open"},
    ),
    "C18": (
        [Contrast(C10, pool, "at 0.5") for pool in ("avg", "lae")],
        {"hh": "reproduced", "hu": "partly", "hl": "contradicted", "uu": "open"},
    ),
    "C19": (
        [*against(C10, "one", "global alone", "squeeze alone"), *against(C100, "one", "global alone", "squeeze alone")],
        {"hslu": "reproduced", "hhlu": "partly", "hhhh": "contradicted", "uuuu": "open", "hhuu": "open"},
    ),
}  # fmt: skip
CASES["E5"] = CASES["C13"]

# claim: {arguments: word}
COUNTED = {
    "N5": {(24, 0, 0): "reproduced", (22, 2, 0): "partly", (22, 1, 1): "contradicted"},
    "N6": {(100, 0): "reproduced", (100, 5): "partly", (100, 6): "contradicted"},
    "E10": {(40, 0): "reproduced", (40, 4): "partly", (40, 5): "contradicted"},
    "C7a": {(6, 6): "reproduced", (4, 6): "partly", (3, 6): "contradicted"},
    "C24": {(True, True): "reproduced", (True, False): "partly", (False, False): "contradicted"},
    "C14a": {(4, 6): "reproduced", (3, 6): "partly", (0, 6): "contradicted"},
    "C14b": {(2, 2): "reproduced", (1, 2): "partly", (0, 2): "contradicted"},
}
NETWORKS = ("N1", "N2", "N3", "N4")
BY_INTERVAL = {
    "C8a": {(0.6, 0.9): "reproduced", (0.2, 0.4): "partly", (-0.1, 0.05): "contradicted", (0.4, 0.6): "open"},
    "C25": {(10, 30): "reproduced", (30, 40): "contradicted", (-5, 30): "open"},
}


@pytest.mark.parametrize("claim", CASES)
def test_a_rule_gives_each_of_its_words_and_no_other(claim):
    contrasts, words = CASES[claim]
    for letters, word in words.items():
        assert RULES[claim].word(given(contrasts, letters)) == word, letters
    reached = {RULES[claim].word(given(contrasts, letters)) for letters in product("hlsu", repeat=len(contrasts))}
    assert reached == set(words.values())


@pytest.mark.parametrize("claim", COUNTED)
def test_rules_on_counts(claim):
    for counts, word in COUNTED[claim].items():
        assert RULES[claim].word(*counts) == word, counts
        printed = "consistent with print" if word == "reproduced" else word
        decision = RULES[claim](*counts)
        assert (decision.word, decision.scale) == (printed, "printed")


@pytest.mark.parametrize("claim", BY_INTERVAL)
def test_rules_on_intervals(claim):
    key = Contrast(C10, rules.ONE, "0")
    for (low, high), word in BY_INTERVAL[claim].items():
        assert RULES[claim].word(Comparisons({key: comparison(low=low, high=high)})) == word


@pytest.mark.parametrize("claim", NETWORKS)
def test_a_network_that_builds_is_implemented_and_no_more(claim):
    assert RULES[claim](Built(100, 100)).word == "implemented"
    assert RULES[claim](Built(100, None)).word == "implemented"
    assert RULES[claim](Built(101, 100)).word == "contradicted"


def test_each_rule_is_called_as_its_claim():
    assert {claim: getattr(rules, claim.lower()) for claim in RULES} == RULES


def test_of_nothing_nothing_is_decided():
    assert parts.all_of([]) == parts.some_of([]) == "open"


def test_e6_is_its_two_parts():
    def part(word):
        return Decision("C11", word, "", "cpu", 5)

    words = ("reproduced", "partly", "contradicted", "open", "not testable here")
    found = {pair: rules.e6.word(part(pair[0]), part(pair[1])) for pair in product(words, repeat=2)}
    assert all(found[word, word] == word for word in words)
    assert found["reproduced", "open"] == found["contradicted", "reproduced"] == "partly"
    assert found["contradicted", "open"] == "open"
    assert rules.e6(part("not testable here"), part("not testable here")).word == "not testable here"


def test_every_claim_about_training_or_tables_has_one_rule_with_cases():
    tested = {*CASES, *COUNTED, *BY_INTERVAL, *NETWORKS, "E6"}
    assert tested == set(RULES)
    claims = {claim.id for claim in load_claims(Path("book") / "claims.yml")}
    assert set(RULES) == {name for name in claims if not name.startswith("T")}


@pytest.mark.parametrize("claim", RULES)
def test_a_rule_says_in_words_when_it_gives_which(claim):
    text = RULES[claim].text.lower()
    assert len(text) > 20 and RULES[claim].__doc__
    if claim not in ("E5", "E6"):
        assert "reproduced" in text
    words = set(CASES.get(claim, ((), {}))[1].values()) | set(COUNTED.get(claim, {}).values())
    unsaid = [word for word in words if word not in text and not ("open" in word and "else" in text)]
    assert claim == "E5" or not unsaid


def test_missing_significance_never_reproduces():
    """Where every outcome is undecided no rule on training speaks for or against its claim."""
    for claim, (contrasts, _) in CASES.items():
        word = RULES[claim].word(given(contrasts, "u" * len(contrasts)))
        if RULES[claim].protocol:
            assert word == "open", claim
    assert set(OUTCOMES) - {"not run"} == set(LETTERS.values())  # with that a claim is open whatever its rule says
