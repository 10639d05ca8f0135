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

A new rule is a function in the module of its subject, and a name in the imports below, which say where each claim is decided.
What several rules share is in `parts.py`.
"""

from lae_core.evidence.rules.descriptions import c7a, c24, e10, n1, n2, n3, n4, n5, n6
from lae_core.evidence.rules.input_size import c13, c13a, c13c, c23, e5
from lae_core.evidence.rules.parts import CHANNEL, FIXED, IMAGENET, MARGIN, ONE, SCALED
from lae_core.evidence.rules.pools import c1, c3, c7, c29, c30, e1, e2, e3, e4
from lae_core.evidence.rules.precision import c6, c10, e8
from lae_core.evidence.rules.pretrained import c26, c26a, c26b, c26c, c27, c27a, c28
from lae_core.evidence.rules.printed import C2_BETTER, c2, c2_statements, c9a, c13b, c14a, c14b, c15, c16, c17, c18, c19
from lae_core.evidence.rules.registry import RULES, overview
from lae_core.evidence.rules.squeeze import c4, c5, c14, c25, e9
from lae_core.evidence.rules.temperature import c8, c8a, c9, c11, c12, c20, c21, c22, e6, e7
