// The page of one kernel: result, schedule, stalls, history, trials with their regret, roofline, program.
"use strict";
(() => {
  const { element, append, number, compact, percent, date, seconds, share, title, shareBar, chart, changeMark } = atalla;

  const section = (heading, ...children) => element("section", {}, element("h2", {}, heading), children);
  const facts = rows => element("dl", { class: "details" }, rows.filter(row => row).map(([name, ...value]) => [element("dt", {}, name), append(element("dd"), value)]));
  const simple = (caption, columns, rows, empty) => atalla.table(columns.map(([name, key, numeric]) =>
    ({ name, numeric, value: numeric ? row => row[key] : row => String(row[key]), cell: row => numeric ? number(row[key]) : row[key] })), rows, { caption, empty }).node;

  function result(kernel, version, summary) {
    const cycles = version.winner ? version.winner.cycles : 0;
    const machine = summary.machines.find(one => one.fingerprint === kernel.machine);
    const last = kernel.history.length > 1 ? kernel.history.at(-1).cycles - kernel.history.at(-2).cycles : null;
    const peak = machine && machine.peak && kernel.flops > 0 && cycles > 0 ? kernel.flops / cycles / machine.peak.array_flops : null;
    return section("Result", facts([
      ["Cycles", cycles ? number(cycles) : "nothing ran", version.winner && !version.winner.verified ? element("span", { class: "tag" }, "not verified") : null],
      ["Lower bound", version.bound ? number(version.bound) : "unknown", kernel.bound_by ? `, decided by ${kernel.bound_by}` : ""],
      ["Share of bound", shareBar(share(version.bound, cycles))],
      version.bound && cycles ? ["Proven", `at most ${percent(1 - version.bound / cycles)} of the cycles could be saved${version.optimal_in_space ? "; no schedule of the space is faster" : ""}`] : null,
      peak === null ? null : ["Share of the array's peak", percent(peak)],
      version.unoptimized && cycles ? ["Unoptimized program", `${number(version.unoptimized)}; this one is ${compact(version.unoptimized / cycles)} times as fast`] : null,
      last === null ? null : ["Against the run before", changeMark(last)],
      ["Machine", kernel.machine_name, " ", element("code", {}, kernel.machine)],
      ["Compiler", element("code", {}, version.compiler)],
    ]));
  }

  function schedule(kernel, version) {
    if (!version.winner) return null;
    const values = Object.entries(version.winner.values).map(([name, value]) => ({ name, value }));
    const workload = JSON.stringify(kernel.workload);
    return section("Schedule", kernel.words ? element("p", {}, kernel.words) : null,
      element("p", {}, "As a point: ", element("code", { class: "wrap" }, version.winner.point)),
      element("details", {}, element("summary", {}, `The ${values.length} parameters and the workload`),
        simple("Parameters of the schedule", [["Parameter", "name"], ["Value", "value", true]], values), element("p", {}, element("code", { class: "wrap" }, workload))));
  }

  const causes = { issue: "packets issued", fetch: "instruction cache", branch: "branches", data: "results not there yet", dma: "DMA not done", bank: "register banks",
                   unit: "unit busy", array: "array", vlsu: "pad access", sdma: "DMA queue", drain: "end of program" };
  function stalls(version) {
    const counters = version.winner && version.winner.counters;
    if (!counters || !counters.stalls || !counters.cycles) return null;
    const parts = [["issue", counters.packets], ...Object.entries(counters.stalls)].filter(([, cycles]) => cycles > 0);
    const words = parts.map(([name, cycles]) => `${name} ${percent(cycles / counters.cycles)}`).join(", ");
    const bar = element("div", { class: "stack", role: "img", "aria-label": "Where the cycles went: " + words }, parts.map(([name, cycles]) => {
      const part = element("span", { class: "part cause-" + (causes[name] ? name : "other"), title: `${name}: ${number(cycles)} cycles` });
      part.style.flexGrow = cycles;
      return part;
    }));
    const rows = parts.map(([name, cycles]) => ({ name, cycles, share: cycles / counters.cycles }));
    return section("Where the cycles went", bar, atalla.table([
      { name: "Cause", value: row => row.name, cell: row => [element("span", { class: "key cause-" + (causes[row.name] ? row.name : "other"), "aria-hidden": "true" }), row.name] },
      { name: "Meaning", cell: row => causes[row.name] || "", optional: true },
      { name: "Cycles", numeric: true, value: row => row.cycles, cell: row => number(row.cycles) },
      { name: "Share", numeric: true, value: row => row.share, cell: row => percent(row.share) },
    ], rows, { caption: "Cycles by cause", sort: { column: 2, descending: true } }).node,
      element("details", {}, element("summary", {}, "All counters"), element("pre", {}, JSON.stringify(counters, null, 1))));
  }

  function history(kernel) {
    if (kernel.history.length < 2) return null;
    const x = kernel.history.map((_, index) => index + 1), cycles = kernel.history.map(entry => entry.cycles);
    return section("History", chart({ x, series: [{ label: "best cycles", values: cycles, colour: "--accent", kind: "steps", size: 7 }], axes: { x: { label: "run", format: number, whole: true }, y: { label: "cycles", format: number, whole: true } },
        summary: `Best cycles after each of ${x.length} runs: from ${number(cycles[0])} to ${number(cycles.at(-1))}.` }),
      element("details", {}, element("summary", {}, "As a table"), atalla.table([
        { name: "Run", value: row => row.when, cell: row => date(row.when) },
        { name: "Compiler", value: row => row.compiler, cell: row => element("code", {}, row.compiler) },
        { name: "Cycles", numeric: true, value: row => row.cycles, cell: row => number(row.cycles) },
        { name: "Share of bound", numeric: true, value: row => share(row.bound, row.cycles), cell: row => share(row.bound, row.cycles) === null ? "unknown" : percent(share(row.bound, row.cycles)) },
        { name: "Trials", numeric: true, value: row => row.trials, cell: row => number(row.trials) },
      ], kernel.history, { caption: "Best cycles after each run" }).node));
  }

  function trials(version) {
    const { cycles, status } = version.rows;
    const x = cycles.map((_, index) => index + 1), ok = cycles.map(value => value || null);
    const failed = status.filter(value => value !== 0).length;
    let best = null;
    const incumbent = ok.map(value => (best = value !== null && (best === null || value < best) ? value : best));
    if (best === null) return section("Trials", element("p", {}, `${number(cycles.length)} trials, none ran to its end.`));
    // How far the best so far is above the best of all; a logarithmic axis has no zero, so it is drawn from 0.01 % on.
    const regret = incumbent.map(value => value === null ? null : 100 * (value / best - 1));
    const reached = limit => { const index = regret.findIndex(value => value !== null && value <= limit); return number(index + 1); };
    return section("Trials over time",
      chart({ x, axes: { x: { label: "trial", format: number, whole: true }, y: { label: "cycles", log: true } }, series: [
          { label: "cycles", values: ok, colour: "--point", kind: "points", size: ok.length > 2000 ? 2 : 5, format: number },
          { label: "best so far", values: incumbent, colour: "--accent", kind: "steps", format: number }],
        summary: `Cycles of ${number(cycles.length)} trials in the order they were made${failed ? `, ${number(failed)} of which failed` : ""}; the best took ${number(best)}.` }),
      element("h3", {}, "Regret"),
      chart({ x, height: 200, axes: { x: { label: "trial", format: number, whole: true }, y: { label: "above the best", format: value => compact(value) + " %", range: (_, low, high) => [0, Math.max(high, 1)] } }, series: [
          { label: "regret", values: regret, colour: "--accent", kind: "steps" }],
        summary: `The best so far is within 10 % of the best found after trial ${reached(10)}, within 3 % after ${reached(3)}, and the best itself is trial ${reached(0)}.` }),
      element("p", { class: "muted" }, `${version.runs.length} ${version.runs.length === 1 ? "run" : "runs"}; ${seconds(version.seconds_lower)} of lowering and ${seconds(version.seconds_simulate)} of simulation.`));
  }

  function roofline(kernel, version, summary) {
    const machine = summary.machines.find(one => one.fingerprint === kernel.machine), counters = version.winner && version.winner.counters;
    if (!machine || !machine.peak || !machine.peak.dram_bytes || !counters || !counters.dram_beats) return null;
    const { array_flops, lane_flops, dram_bytes, beat, array_rows, array_cols } = machine.peak;
    const flops = kernel.flops || 2 * counters.array_rows * array_rows * array_cols;
    if (!flops) return null;
    const intensity = flops / (counters.dram_beats * beat), rate = flops / version.winner.cycles;
    const ridge = array_flops / dram_bytes, limit = version.bound ? flops / version.bound : null;
    const roof = value => Math.min(array_flops, value * dram_bytes);
    const x = [...new Set([Math.min(intensity, ridge) / 8, intensity, ridge, Math.max(intensity, ridge) * 8])].sort((one, other) => one - other);
    const at = value => x.map(place => place === intensity ? value : null);
    const bound = intensity < ridge ? "DRAM" : "the array";
    return section("Roofline", chart({ x, at: x.indexOf(intensity), height: 280, axes: { x: { label: "FLOP a byte of DRAM", log: true }, y: { label: "FLOP a cycle", log: true } }, series: [
        { label: `array and DRAM`, values: x.map(roof), colour: "--roof", kind: "line" },
        { label: "lanes alone", values: x.map(value => Math.min(lane_flops, value * dram_bytes)), colour: "--lanes", kind: "line" },
        ...(limit ? [{ label: `bound${kernel.bound_by ? " (" + kernel.bound_by + ")" : ""}`, values: at(limit), colour: "--good", kind: "points", size: 11 }] : []),
        { label: "this kernel", values: at(rate), colour: "--accent", kind: "points", size: 11 }],
      summary: `${compact(rate)} FLOP a cycle at ${compact(intensity)} FLOP a byte; under this roof ${bound} is the limit, ${compact(roof(intensity))} FLOP a cycle` +
        (limit ? `, and the lower bound${kernel.bound_by ? `, decided by ${kernel.bound_by},` : ""} allows ${compact(limit)}.` : ".") }),
      kernel.bound_terms.length ? element("details", {}, element("summary", {}, "Terms of the lower bound"),
        simple("Terms of the lower bound", [["Term", "name"], ["Cycles", "cycles", true]], kernel.bound_terms)) : null);
  }

  function fastest(version) {
    const best = version.fastest.length ? version.fastest[0].cycles : 0;
    return section("Fastest trials", atalla.table([
      { name: "Cycles", numeric: true, value: row => row.cycles, cell: row => number(row.cycles) },
      { name: "Above the best", numeric: true, value: row => row.cycles, cell: row => percent(row.cycles / best - 1) },
      { name: "Checked", value: row => row.verification, cell: row => row.verification === "wrong" ? element("span", { class: "bad" }, `wrong: ${row.differs}`) : row.verification },
      { name: "Schedule", value: row => row.point, cell: row => element("code", {}, row.point) },
    ], version.fastest, { caption: "Fastest trials", empty: "None ran." }).node,
      version.failures.length ? [element("h3", {}, "Failures"), atalla.table([
        { name: "How often", numeric: true, value: row => row.count, cell: row => number(row.count) },
        { name: "Status", value: row => row.status, cell: row => row.status },
        { name: "Reason", value: row => row.reason, cell: row => row.reason },
        { name: "For instance", optional: true, value: row => row.point, cell: row => element("code", {}, row.point) },
      ], version.failures, { caption: "Failures by reason", sort: { column: 0, descending: true } }).node] : null);
  }

  function program(kernel) {
    if (!kernel.program) return section("Program", element("p", { class: "muted" },
      "Not in this dashboard: it has the programs of kernels that the present compiler made, as many as --programs asks for."));
    const text = element("pre", { tabindex: "0", "aria-label": "Program of the winner" });
    return section("Program", element("details", { ontoggle: async event => {
      if (!event.target.open || text.textContent) return;
      try { text.textContent = (await atalla.load("program-" + kernel.id, "program")).text; } catch (error) { text.textContent = error.message; }
    } }, element("summary", {}, "The winner as assembly, with the Func and loop of each stretch"), text));
  }

  function draw(kernel, summary) {
    const main = atalla.frame(`${kernel.op} ${title(kernel)} on ${kernel.machine_name}`);
    let chosen = kernel.versions.length - 1;
    const body = element("div");
    function fill() {
      const version = kernel.versions[chosen];
      body.replaceChildren();
      append(body, [result(kernel, version, summary), stalls(version), schedule(kernel, version), history(kernel), trials(version),
        roofline(kernel, version, summary), fastest(version), chosen === kernel.versions.length - 1 ? program(kernel) : null]);
    }
    if (kernel.versions.length > 1)
      main.append(element("label", {}, "Compiler ", element("select", { id: "compiler", onchange: event => { chosen = Number(event.target.value); fill(); } },
        kernel.versions.map((version, index) => element("option", { value: index, selected: index === chosen },
          `${version.compiler}${index === chosen ? " (latest)" : ""}`)))));
    main.append(body);
    fill();
  }

  async function show() {
    const summary = atalla.data("summary"), id = atalla.state.get().get("id") || "";
    if (!summary || !/^[0-9a-f]{16}$/.test(id) || !summary.kernels.some(kernel => kernel.id === id)) {
      const main = atalla.frame("Kernel");
      main.append(atalla.notice("There is no such kernel in this dashboard."), element("p", {}, element("a", { href: "index.html" }, "All kernels")));
    } else {
      try { draw(await atalla.load("kernel-" + id, id), summary); } catch (error) { atalla.frame("Kernel").append(atalla.notice(error.message)); }
    }
    document.documentElement.dataset.drawn = "yes";
  }
  atalla.ready(show);
  window.addEventListener("hashchange", show);
})();
