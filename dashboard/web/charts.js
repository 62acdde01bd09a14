// Charts by uPlot in the colours of the page, redrawn when width or colours change.
"use strict";
(() => {
  const { element, compact } = atalla;

  const wholeSteps = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map(digit => digit * 10 ** power)).flat();
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function axis(label, options) {
    const text = colour("--muted"), grid = { stroke: colour("--line"), width: 1 };
    return { label, labelSize: 22, labelFont: "12px system-ui, sans-serif", font: "12px system-ui, sans-serif", stroke: text, grid, ticks: grid,
             values: (_, splits) => splits.map(value => value === null ? null : options.format(value)), size: options.size, space: options.space,
             incrs: options.whole ? wholeSteps : undefined };
  }

  // x: the numbers of the x axis, ascending. series: {label, values, colour, kind: "line" | "steps" | "points"}; null is a gap.
  // axes: x and y {label, log, format, whole: only whole numbers are marked}; at: the index whose values the legend shows
  // first, the last if not given. `summary` says in words what the chart shows.
  function chart({ x, series, axes, summary, at, height = 260 }) {
    const canvas = element("div", { class: "canvas", role: "img", "aria-label": summary });
    const box = element("figure", { class: "chart" }, canvas, element("figcaption", {}, summary));
    let plot = null;
    function draw() {
      if (plot) plot.destroy();
      canvas.replaceChildren();
      const scale = log => log ? { distr: 3, log: 10 } : {};
      plot = new uPlot({
        width: Math.max(240, canvas.clientWidth), height,
        scales: { x: { time: false, ...scale(axes.x.log) }, y: { ...scale(axes.y.log), range: axes.y.range } },
        legend: { show: true, live: true },
        // The legend shows numbers from the start, those under the pointer later.
        hooks: { ready: [ready => ready.setLegend({ idx: at === undefined ? x.length - 1 : at }, false)] },
        cursor: { drag: { x: true, y: false }, points: { size: 7 } },
        axes: [axis(axes.x.label, { format: axes.x.format || compact, whole: axes.x.whole, size: 34, space: 60 }),
               axis(axes.y.label, { format: axes.y.format || compact, whole: axes.y.whole, size: 70, space: 32 })],
        series: [{ label: axes.x.label, value: (_, value) => value === null ? "–" : (axes.x.format || compact)(value) },
          ...series.map(one => ({
            label: one.label, stroke: colour(one.colour), width: 2, spanGaps: true,
            paths: one.kind === "points" ? () => null : one.kind === "steps" ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear(),
            points: one.kind === "points" ? { show: true, size: one.size || 4, fill: colour(one.colour), stroke: colour(one.colour) } : { show: Boolean(one.size), size: one.size, fill: colour(one.colour) },
            value: (_, value) => value === null || value === undefined ? "–" : (one.format || axes.y.format || compact)(value),
          }))],
      }, [x, ...series.map(one => one.values)], canvas);
    }
    let width = 0;
    new ResizeObserver(() => {
      if (canvas.clientWidth === 0 || canvas.clientWidth === width) return;
      width = canvas.clientWidth;
      plot ? plot.setSize({ width, height }) : draw();
    }).observe(canvas);
    document.addEventListener("themechange", () => { if (plot) draw(); });
    return box;
  }

  atalla.chart = chart;
})();
