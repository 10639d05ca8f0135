"""What the part *Rerun it* says of profiles, from their files, and the page *Run times and environment*.

`write` is one of the build's generators. It makes `book/_generated/profiles.md` and `book/run_times.md`; the latter from what
the executed notebooks recorded about themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lae_core.book.notebooks import Notebook, profiles
from lae_core.book.stage import Stage
from lae_core.book.template import fill


def write(stage: Stage) -> None:
    """Write the list and the page into the staged tree."""
    stage.write("_generated/profiles.md", differences(stage.root, stage.executed))
    records = {name: done.metadata for name, done in stage.executed.items()}
    # What all share is said once: on a phone the table has no room for it.
    seen = {key: sorted({record[key] for record in records.values()}) for key in ("commit", "device")}
    packages = sorted({package for record in records.values() for package in record["versions"]})
    versions = {
        package: sorted({record["versions"].get(package, "absent") for record in records.values()})
        for package in packages
    }
    stage.fill(
        "run_times.md", "run_times.md", profile=stage.profile, titles=stage.titles, records=records,
        commits=seen["commit"], devices=seen["device"], versions=versions,
    )  # fmt: skip


def differences(root: Path, names: Iterable[str]) -> str:
    """For each notebook that some profile changes, what each profile changes, as a definition list."""
    changed = {
        notebook: {profile: values for profile in profiles(root) if (values := notebook.profile_values(profile))}
        for notebook in (Notebook(root, name) for name in names)
    }
    return fill("profiles.md", changed={notebook: values for notebook, values in changed.items() if values})
