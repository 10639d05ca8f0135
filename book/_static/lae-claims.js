/* The filter of the Claims page. Without it the page shows all claims. */
(function () {
  "use strict";
  const table = document.querySelector("table.lae-claims");
  if (!table) return;
  const kinds = { T: "theory", N: "networks and searches", E: "experiments", C: "further claims" };
  const rows = Array.from(table.tBodies[0].rows).map((row) => ({
    row,
    verdict: row.querySelector(".lae-verdict").textContent.trim(),
    kind: row.cells[0].textContent.trim()[0],
    text: row.textContent.toLowerCase(),
  }));
  const wanted = new Set(new URLSearchParams(location.search).getAll("verdict"));

  const form = document.createElement("form");
  form.className = "lae-filter";
  form.setAttribute("role", "search");
  form.addEventListener("submit", (event) => event.preventDefault());

  const buttons = document.createElement("div");
  buttons.setAttribute("role", "group");
  buttons.setAttribute("aria-label", "Show claims with these verdicts");
  for (const verdict of ["proved", "reproduced", "consistent with print", "implemented", "partly", "contradicted", "open", "not testable here"]) {
    const number = rows.filter((item) => item.verdict === verdict).length;
    if (!number) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "lae-verdict lae-" + verdict.replaceAll(" ", "-");
    button.textContent = verdict + " " + number;
    button.setAttribute("aria-pressed", wanted.has(verdict));
    button.addEventListener("click", () => {
      if (!wanted.delete(verdict)) wanted.add(verdict);
      button.setAttribute("aria-pressed", wanted.has(verdict));
      show();
    });
    buttons.append(button);
  }

  const kind = document.createElement("select");
  kind.setAttribute("aria-label", "Kind of claim");
  kind.append(new Option("all kinds", ""));
  for (const [letter, name] of Object.entries(kinds)) kind.append(new Option(letter + ": " + name, letter));
  kind.addEventListener("change", show);

  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "search the claims";
  search.setAttribute("aria-label", "Search the claims");
  search.addEventListener("input", show);

  const count = document.createElement("output");
  form.append(buttons, kind, search, count);
  // Before the scrolling frame that the theme puts around a table, so that the form stays in view.
  (table.closest(".pst-scrollable-table-container") || table).before(form);

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of rows) {
      const fits =
        (!wanted.size || wanted.has(item.verdict)) &&
        (!kind.value || kind.value === item.kind) &&
        words.every((word) => item.text.includes(word));
      item.row.hidden = !fits;
      shown += fits;
    }
    count.textContent = shown === rows.length ? rows.length + " claims" : shown + " of " + rows.length + " claims";
  }
  show();
})();
