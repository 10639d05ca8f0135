"""The page *Run times and environment*, written from what the executed notebooks carry with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lae_core.book.notebooks import Notebook

if TYPE_CHECKING:
    from lae_core.book.stage import Stage

_HEAD = """# Run times and environment

Every result and figure in this book comes from a notebook that was executed to make it. {numref}`tab-run-times` lists those
executions, from what each notebook recorded about itself.

"""


def write(stage: Stage) -> None:
    """Write `book/run_times.md` into the staged tree."""
    records = {name: done.metadata for name, done in stage.executed.items()}
    lines = [_HEAD, f"They ran at the profile `{stage.profile}`; the foot of each page has its own command."]
    # What all share is said once: on a phone the table has no room for it.
    varying: dict[str, str] = {}
    for key, heading, sentence in (
        ("commit", "commit", "All are of commit `{}`."),
        ("device", "hardware", "All ran on one kind of hardware: {}."),
    ):
        values = {record[key] for record in records.values()}
        if len(values) == 1:
            lines += [sentence.format(*values)]
        else:
            varying[key] = heading
    if any(record["commit"].endswith("+") for record in records.values()):
        lines += ["A `+` after a commit says that files had changed since."]
    lines += ["", "```{list-table} Executed notebooks", ":name: tab-run-times", ":header-rows: 1", ""]
    lines += _row("notebook", "seconds", "executed (UTC)", *varying.values())
    for name, record in records.items():
        title = Notebook(stage.root, name).title
        when = record["started"].replace("T", " ").removesuffix("+00:00")
        link = f"[{title}](../notebooks/{name}.ipynb)"
        rest = [f"`{record[key]}`" if key == "commit" else record[key] for key in varying]
        lines += _row(link, f"{record['seconds']:.1f}", when, *rest)
    total = sum(record["seconds"] for record in records.values())
    lines += [*_row("all", f"{total:.1f}", "", *("" for _ in varying)), "```", ""]
    lines += ["## Versions", "", "{numref}`tab-versions` has the packages that can change a number or a figure."]
    lines += ["", "```{list-table} Package versions", ":name: tab-versions", ":header-rows: 1", ""]
    lines += _row("package", "version")
    packages = sorted({package for record in records.values() for package in record["versions"]})
    for package in packages:
        found = sorted({record["versions"].get(package, "absent") for record in records.values()})
        lines += _row(package, ", ".join(found))
    lines += ["```", "", "`constraints.txt` in the checkout pins these and all the others."]
    (stage.source / "book" / "run_times.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _row(*cells: str) -> list[str]:
    first, *rest = cells
    return [f"* - {first}", *(f"  - {cell}" for cell in rest)]
