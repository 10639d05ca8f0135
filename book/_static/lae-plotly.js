// Draws each plotly figure of the page from the JSON beside it, in the colours of the theme, light or dark.
(function () {
  "use strict";

  function themed(layout) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const ink = colour("--pst-color-text-base");
    const lines = colour("--pst-color-border");
    const result = {
      ...layout,
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { ...(layout.font || {}), color: ink, family: "inherit" },
    };
    delete result.width;
    for (const key of Object.keys(result).filter((key) => /^[xy]axis\d*$/.test(key)).concat(["xaxis", "yaxis"])) {
      result[key] = { ...(result[key] || {}), gridcolor: lines, zerolinecolor: lines, linecolor: lines };
    }
    return result;
  }

  function start() {
    const figures = Array.from(document.querySelectorAll(".lae-plotly"), (place) => {
      const figure = JSON.parse(place.querySelector("script").textContent);
      const plot = document.createElement("div");
      place.append(plot);
      return { plot, figure };
    });
    const draw = () =>
      figures.forEach(({ plot, figure }) =>
        Plotly.react(plot, figure.data, themed(figure.layout || {}), { responsive: true, displaylogo: false })
      );
    draw();
    new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
