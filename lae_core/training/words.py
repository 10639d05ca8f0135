"""Names that a user writes: the error for one that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: object, words: Iterable[str]) -> str:
    """The end of an error: the name that is close to what was written, or nothing."""
    near = difflib.get_close_matches(str(word), list(words), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_word(name: str, word: str, words: Iterable[str]) -> None:
    """Raise ValueError unless `word` is one of `words`."""
    words = list(words)
    if word not in words:
        hint = did_you_mean(word, words)
        raise ValueError(f"{name} = {word!r} is invalid; expected one of {', '.join(words)}{hint}")
