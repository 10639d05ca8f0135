"""What the part *Rerun it* says of profiles, from their files.

`write` is one of the build's generators. It makes `book/_generated/profiles.md`.
"""

from __future__ import annotations

from pathlib import Path

from lae_core.book.notebooks import Notebook, profiles
from lae_core.book.stage import Stage


def write(stage: Stage) -> None:
    """Write the list into the staged tree."""
    generated = stage.source / "book" / "_generated"
    generated.mkdir(parents=True, exist_ok=True)
    (generated / "profiles.md").write_text(differences(stage.root, list(stage.executed)), encoding="utf-8")


def differences(root: Path, names: list[str]) -> str:
    """For each notebook that some profile changes, what each profile changes, as a definition list."""
    lines = []
    for notebook in (Notebook(root, name) for name in names):
        changed = {profile: notebook.profile_values(profile) for profile in profiles(root)}
        if not any(changed.values()):
            continue
        lines.append(f"[{notebook.title}](/notebooks/{notebook.name}.ipynb)")
        for profile, values in changed.items():
            if values:
                lines.append(f": *{profile}*: {', '.join(f'`{name} = {value!r}`' for name, value in values.items())}")
        lines.append("")
    return "\n".join(lines)
