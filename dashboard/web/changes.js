// What changed: tuned kernels between their last two runs, benchmarks between their last two results.
"use strict";
(() => {
  const { element, number, percent, seconds, date, title, kernelLink, lastChange, changeMark, sparkline } = atalla;

  function kernelTable(rows, caption, empty) {
    return atalla.table([
      { name: "Operator and shape", value: row => `${row.kernel.op} ${title(row.kernel)}`, cell: row => kernelLink(row.kernel, `${row.kernel.op} ${title(row.kernel)}`) },
      { name: "Machine", value: row => row.kernel.machine_name, cell: row => row.kernel.machine_name },
      { name: "Change", numeric: true, value: row => row.difference, cell: row => changeMark(row.difference) },
      { name: "Of before", numeric: true, value: row => row.difference / row.before.cycles, cell: row => percent(row.difference / row.before.cycles, 3) },
      { name: "Before", numeric: true, value: row => row.before.cycles, cell: row => number(row.before.cycles) },
      { name: "After", numeric: true, value: row => row.after.cycles, cell: row => number(row.after.cycles) },
      { name: "Why", value: row => row.sameCompiler, cell: row => row.sameCompiler ? "more search" : `compiler ${row.before.compiler} → ${row.after.compiler}` },
      { name: "When", optional: true, value: row => row.after.when, cell: row => date(row.after.when) },
    ], rows, { caption, empty, sort: { column: 3, descending: caption.includes("slower") } }).node;
  }

  const values = metric => metric.exact ? [number(metric.before), number(metric.after)] : metric.before ? [seconds(metric.before), seconds(metric.after)] : ["–", "–"];
  function verdict(metric) {
    const kind = { slower: "bad", failed: "bad", faster: "good" }[metric.verdict] || "muted";
    const sign = { slower: "▲ ", failed: "✕ ", faster: "▼ " }[metric.verdict] || "";
    return element("span", { class: kind }, sign + metric.verdict);
  }
  const order = ["failed", "slower", "removed", "faster", "added", "undecided", "equal"];

  function overTime(main, history) {
    const text = row => row.exact ? number : seconds;
    const known = row => row.values.filter(value => value !== null);
    const change = row => known(row).at(-1) / known(row)[0] - 1;
    main.append(element("h2", {}, "Benchmarks over time"),
      element("p", { class: "muted" }, `${number(history.dates.length)} runs, from ${history.dates[0] || "an unknown date"} to ${history.dates.at(-1) || "an unknown date"}. Host times are medians.`),
      atalla.table([
        { name: "Benchmark", value: row => row.benchmark, cell: row => row.benchmark },
        { name: "Metric", value: row => row.metric, cell: row => row.exact ? row.metric : `${row.metric}, host` },
        { name: "History", cell: row => sparkline(row.values, text(row)) },
        { name: "First", numeric: true, optional: true, value: row => known(row)[0], cell: row => text(row)(known(row)[0]) },
        { name: "Last", numeric: true, value: row => known(row).at(-1), cell: row => text(row)(known(row).at(-1)) },
        { name: "Since the first", numeric: true, value: change, cell: row => change(row) === 0 ? "none" : percent(change(row), 2) },
      ], history.rows, { caption: "Benchmarks over all runs", sort: { column: 5, descending: true } }).node);
  }

  function benchmarks(main) {
    const data = atalla.data("benchmarks");
    main.append(element("h2", {}, "Benchmarks"));
    if (!data || data.results.length === 0) return main.append(element("p", {}, "No results of ./atalla bench were at hand."));
    const files = list => list.map(file => `${file.name} of ${file.date || "unknown date"}${file.host ? " on " + file.host : ""}`).join("; ");
    if (!data.comparison) {
      main.append(element("p", {}, `There is no earlier run to compare with. Results: ${files(data.results)}.`));
      return;
    }
    const found = data.comparison;
    main.append(element("p", {}, `${files(data.previous)}, against ${files(data.results)}.`), element("p", { class: "muted" },
      `Counts of simulated cycles and packets are compared exactly. Host times differ if a two-sided rank test over the repetitions (Mann–Whitney) gives p ≤ ${found.alpha} ` +
      `and the ratio is at least ${percent(found.least_change, 0)} from 1.`),
      element("p", { role: "status" }, `${found.slower} slower, ${found.failed} failed, ${found.faster} faster, ${found.equal} equal, ${found.undecided} with too few repetitions to judge.`));
    main.append(atalla.table([
      { name: "Benchmark", value: row => row.benchmark, cell: row => row.benchmark },
      { name: "Metric", value: row => row.metric, cell: row => row.exact ? row.metric : `${row.metric}, host` },
      { name: "Verdict", value: row => order.indexOf(row.verdict), cell: verdict },
      { name: "Before", numeric: true, value: row => row.before, cell: row => values(row)[0] },
      { name: "After", numeric: true, value: row => row.after, cell: row => values(row)[1] },
      { name: "Change", numeric: true, value: row => row.ratio - 1, cell: row => row.exact && row.after !== row.before ?
        [atalla.signed(row.after - row.before), " (", percent(row.ratio - 1, 2), ")"] : row.ratio !== 1 ? percent(row.ratio - 1, 2) : "none" },
      { name: "p", numeric: true, optional: true, value: row => row.p, cell: row => row.p === null ? "–" : row.p.toPrecision(2) },
      { name: "Note", optional: true, cell: row => row.note || (row.p === null ? "" : `${row.repetitions_before} and ${row.repetitions_after} repetitions`) },
    ], found.metrics, { caption: "Benchmarks against their run before", sort: { column: 2, descending: false } }).node);
  }

  atalla.ready(() => {
    const summary = atalla.data("summary");
    const main = atalla.frame("Changes");
    if (!summary) return main.append(atalla.notice("data/summary.js is missing: write the dashboard again."));
    const changed = summary.kernels.map(kernel => ({ kernel, ...lastChange(kernel) })).filter(row => row.difference !== undefined);
    const slower = changed.filter(row => row.difference > 0), faster = changed.filter(row => row.difference < 0);
    main.append(element("p", { class: slower.length ? "verdict bad" : "verdict good" }, slower.length ?
      `${number(slower.length)} ${slower.length === 1 ? "kernel is" : "kernels are"} slower than in the run before.` : "No kernel is slower than in the run before."),
      element("p", { class: "muted" }, `The latest run of each kernel against the one before; simulated cycles are exact, so a difference of one is a difference. ` +
        `${number(changed.length - slower.length - faster.length)} kernels are equal, ${number(summary.kernels.length - changed.length)} have one run only.`),
      element("h2", {}, "Slower"), kernelTable(slower, "Kernels that are slower", "None."), element("h2", {}, "Faster"), kernelTable(faster, "Kernels that are faster", "None."));
    benchmarks(main);
    const results = atalla.data("benchmarks");
    if (results && results.history.rows.length > 0) overTime(main, results.history);
    document.documentElement.dataset.drawn = "yes";
  });
})();
