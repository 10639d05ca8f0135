"""Networks and searches as the paper describes them: networks that are built, and hyperparameters that it prints."""

from __future__ import annotations

from lae_core.evidence.decision import Built
from lae_core.evidence.rules.registry import rule


def _built_as_described(built: Built, scale: str) -> str:
    if built.known is not None and built.parameters != built.known:
        return "contradicted"
    return "reproduced" if scale == "paper" else "implemented"


@rule("N1", protocol="pyramidnet")
def n1(built: Built, scale: str) -> str:
    """Implemented if PyramidNet-110 builds from its description with the number of parameters known
    for it, contradicted if with another; reproduced only once it was trained by the printed
    protocol, with its n."""
    return _built_as_described(built, scale)


@rule("N2", protocol="wrn")
def n2(built: Built, scale: str) -> str:
    """Implemented if WRN-18-6 builds from its description with the number of parameters known for
    it, contradicted if with another; reproduced only once it was trained by the printed protocol,
    with its n."""
    return _built_as_described(built, scale)


@rule("N3", protocol="squeeze")
def n3(built: Built, scale: str) -> str:
    """Implemented if WRN-18-6 with Squeeze-and-Excitation builds (no number of parameters is known
    for it); reproduced only once it was trained by the printed protocol, with its n."""
    return _built_as_described(built, scale)


@rule("N4", protocol="mxresnet")
def n4(built: Built, scale: str) -> str:
    """Implemented if MXResNet-50 builds from its description with the number of parameters known
    for it, contradicted if with another; reproduced only once it was trained by the printed
    protocol, with its n."""
    return _built_as_described(built, scale)


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
