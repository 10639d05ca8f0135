// The explorer of the theory chapters: five pools over a 2×2 matrix, computed in the page.
// Values are computed with dual numbers (a value and its five derivatives, by the entries of X and by log t), so the
// gradient shown is derived from the value; the weights are computed on their own, from their definition.
"use strict";

(() => {
  const constant = (v) => ({ v, d: [0, 0, 0, 0, 0] });
  const variable = (v, place) => ({ v, d: [0, 1, 2, 3, 4].map((k) => (k === place ? 1 : 0)) });
  const chain = (v, slope, a) => ({ v, d: a.d.map((x) => slope * x) });
  const add = (a, b) => ({ v: a.v + b.v, d: a.d.map((x, k) => x + b.d[k]) });
  const scale = (a, c) => chain(a.v * c, c, a);
  const mul = (a, b) => ({ v: a.v * b.v, d: a.d.map((x, k) => x * b.v + a.v * b.d[k]) });
  const inverse = (a) => chain(1 / a.v, -1 / (a.v * a.v), a);
  const exp = (a) => chain(Math.exp(a.v), Math.exp(a.v), a);
  const expm1 = (a) => chain(Math.expm1(a.v), Math.exp(a.v), a);
  const log = (a) => chain(Math.log(a.v), 1 / a.v, a);
  const log1p = (a) => chain(Math.log1p(a.v), 1 / (1 + a.v), a);
  const mean = (row) => scale(row.reduce(add), 1 / row.length);
  const largest = (row) => Math.max(...row.map((a) => a.v));

  // As `lae_core` computes it: measured from the maximum, and without subtracting from 1 where that would cancel.
  function lae(row, t) {
    const top = largest(row);
    const u = row.map((a) => mul(add(a, constant(-top)), inverse(t)));
    const excess = mean(u.map(expm1));
    const logMean = excess.v > -0.5 ? log1p(excess) : log(mean(u.map(exp)));
    return add(constant(top), mul(t, logMean));
  }
  const max = (row) => mean(row.filter((a) => a.v === largest(row))); // ties share, as in torch
  const softargmax = (x, t) => {
    const powers = x.map((v) => Math.exp((v - Math.max(...x)) / t));
    return powers.map((p) => p / powers.reduce((a, b) => a + b));
  };
  const equal = (x) => x.map(() => 1 / x.length);
  const winner = (x) => {
    const ties = x.filter((v) => v === Math.max(...x)).length;
    return x.map((v) => (v === Math.max(...x) ? 1 / ties : 0));
  };

  const POOLS = [
    { id: "avg", name: "Average", value: mean, weights: equal },
    { id: "max", name: "Max", value: max, weights: winner },
    {
      id: "mixed",
      name: "(max + avg)/2",
      value: (row) => scale(add(max(row), mean(row)), 0.5),
      weights: (x) => winner(x).map((w, k) => (w + equal(x)[k]) / 2),
    },
    {
      id: "lse",
      name: "LSE",
      value: (row) => add(lae(row, constant(1)), constant(Math.log(row.length))),
      weights: (x) => softargmax(x, 1),
    },
    { id: "lae", name: "LAE", value: lae, weights: softargmax, heated: true },
  ];

  const ENTRIES = ["upper left", "upper right", "lower left", "lower right"];
  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const shown = (number, digits = 3) => {
    const text = number.toFixed(digits);
    return Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "−");
  };
  // <data> keeps the whole number beside the rounded one.
  const put = (node, number, digits) => {
    node.value = String(number);
    node.textContent = shown(number, digits);
  };

  function slider(label, id, range) {
    const output = make("output", { for: id, "aria-live": "off" });
    const input = make("input", { type: "range", id, ...range });
    return { input, output, row: make("div", { class: "lx-slider" }, make("label", { for: id }, label), input, output) };
  }

  function card(pool) {
    const cells = (kind) => ENTRIES.map((place) => make("data", { "aria-label": `${kind}, ${place}` }));
    const parts = { value: make("data"), weights: cells("weight"), gradient: cells("gradient"), heat: make("data") };
    const square = (title, nodes, heat) =>
      make("div", {}, make("div", { class: "lx-title" }, title), make("div", { class: heat }, ...nodes));
    parts.node = make(
      "section",
      { class: "lx-card", "data-pool": pool.id, "aria-label": pool.name },
      make("div", { class: "lx-name" }, pool.name),
      make("p", { class: "lx-value" }, parts.value),
      square("weights", parts.weights, "lx-square lx-heat"),
      square("∂/∂X", parts.gradient, "lx-square"),
      square("∂/∂log t", [parts.heat], "lx-single"),
    );
    return parts;
  }

  // LAE over the whole range of t, between the lines of max and average.
  function curve() {
    const svgNode = (tag, attributes) => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      return node;
    };
    const svg = svgNode("svg", { viewBox: "0 0 640 190", role: "img", class: "lx-curve" });
    const px = (logT) => 95 + ((logT + 2) / 4) * 510;
    svg.update = (x, logT) => {
      const row = x.map(constant);
      const [low, high] = [mean(row).v, largest(row)];
      const py = (v) => (high > low ? 150 - ((v - low) / (high - low)) * 120 : 90);
      const at = (p) => `${px(p).toFixed(1)},${py(lae(row, constant(10 ** p)).v).toFixed(1)}`;
      const points = Array.from({ length: 161 }, (_, k) => at(-2 + k / 40));
      const text = (content, attributes) => {
        const node = svgNode("text", attributes);
        node.textContent = content;
        return node;
      };
      const [cx, cy] = at(logT).split(",");
      svg.replaceChildren(
        ...[high, low].map((v) => svgNode("line", { x1: 95, x2: 605, y1: py(v), y2: py(v), class: "lx-bound" })),
        svgNode("polyline", { points: points.join(" "), class: "lx-line" }),
        svgNode("circle", { cx, cy, r: 7, class: "lx-dot" }),
        text("max", { x: 87, y: py(high) + 5, "text-anchor": "end" }),
        text("average", { x: 87, y: py(low) + (high > low ? 5 : 24), "text-anchor": "end" }),
        ...[-2, -1, 0, 1, 2].map((p) => text((p === -2 ? "t = " : "") + 10 ** p, { x: px(p), y: 182, "text-anchor": "middle" })),
      );
      svg.setAttribute("aria-label", `LAE over temperature, falling from max ${shown(high)} to average ${shown(low)}`);
    };
    return svg;
  }

  function start(root) {
    const first = root.dataset.x.split(",").map(Number);
    const heat = slider("temperature t", "lx-t", { min: -2, max: 2, step: 0.01 });
    const entries = ENTRIES.map((place, k) => slider(`X ${place}`, `lx-x${k}`, { min: -3, max: 3, step: 0.1 }));
    const cards = POOLS.map(card);
    const chart = curve();
    const said = make("p", { role: "status", class: "lx-said" });
    const button = (label, action) => {
      const node = make("button", { type: "button" }, label);
      node.addEventListener("click", () => (action(), update()));
      return node;
    };
    const set = (x) => entries.forEach((entry, k) => (entry.input.value = x[k]));
    const read = () => entries.map((entry) => Number(entry.input.value));

    function update() {
      const x = read();
      const logT = Number(heat.input.value);
      const t = 10 ** logT;
      heat.output.textContent = shown(t, t < 0.1 ? 3 : 2);
      heat.input.setAttribute("aria-valuetext", heat.output.textContent);
      entries.forEach((entry, k) => (entry.output.textContent = shown(x[k], 1)));
      const row = x.map(variable);
      POOLS.forEach((pool, k) => {
        const found = pool.value(row, chain(t, t, variable(0, 4)));
        const weights = pool.weights(x, t);
        put(cards[k].value, found.v, 4);
        cards[k].weights.forEach((node, entry) => {
          put(node, weights[entry], 3);
          node.style.setProperty("--share", weights[entry]);
          node.classList.toggle("lx-dark", weights[entry] > 0.69);
        });
        cards[k].gradient.forEach((node, entry) => put(node, found.d[entry], 3));
        if (pool.heated) put(cards[k].heat, found.d[4], 4);
        else cards[k].heat.textContent = "–";
      });
      chart.update(x, logT);
      said.textContent = `At t = ${heat.output.textContent} LAE is ${cards[4].value.textContent}.`;
    }

    root.replaceChildren(
      make("div", { class: "lx-controls" }, heat.row, ...entries.map((entry) => entry.row)),
      make(
        "div",
        { class: "lx-buttons" },
        button("the paper's X", () => (set(first), (heat.input.value = Math.log10(Number(root.dataset.t))))),
        button("swap the lower entries", () => set([0, 1, 3, 2].map((k) => read()[k]))),
        button("all equal", () => set(read().map(() => read()[0]))),
      ),
      said,
      chart,
      make("div", { class: "lx-cards" }, ...cards.map((parts) => parts.node)),
    );
    set(first);
    heat.input.value = Math.log10(Number(root.dataset.t));
    root.addEventListener("input", update);
    update();
  }

  const ready = () => document.querySelectorAll(".lae-explorer").forEach(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", ready);
  else ready();
})();
