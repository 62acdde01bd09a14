// The page of all kernels: what is tuned, how close to the bound, what changed.
"use strict";
(() => {
  const { element, number, percent, date, share, title, kernelLink, shareBar, state, lastChange, changeMark, sparkline } = atalla;

  function median(values) {
    if (values.length === 0) return null;
    values.sort((one, other) => one - other);
    return (values[Math.floor((values.length - 1) / 2)] + values[Math.floor(values.length / 2)]) / 2;
  }

  const columns = [
    { name: "Operator and shape", value: row => `${row.op} ${title(row)}`, cell: row => [kernelLink(row, `${row.op} ${title(row)}`),
        row.unfinished ? element("span", { class: "tag" }, "unfinished") : null] },
    { name: "Machine", value: row => row.machine_name, cell: row => row.machine_name },
    { name: "Share of bound", value: row => share(row.bound, row.cycles), cell: row => shareBar(share(row.bound, row.cycles)) },
    { name: "Cycles", numeric: true, value: row => row.cycles || null,
      cell: row => row.cycles ? [number(row.cycles), row.verified ? null : element("span", { class: "tag" }, "not verified")] : "none ran" },
    { name: "Bound", numeric: true, optional: true, value: row => row.bound || null, cell: row => row.bound ? number(row.bound) : "unknown" },
    { name: "Last change", numeric: true, value: row => { const change = lastChange(row); return change ? change.difference : null; },
      cell: row => { const change = lastChange(row); return change ? changeMark(change.difference) : element("span", { class: "muted" }, "first run"); } },
    { name: "History", optional: true, cell: row => sparkline(row.history.map(entry => entry.cycles), value => `${number(value)} cycles`) },
    { name: "Trials", numeric: true, optional: true, value: row => row.trials, cell: row => number(row.trials) },
    { name: "Last tuned", optional: true, value: row => row.when, cell: row => date(row.when, false) },
  ];

  function choice(label, id, values, chosen, onchange) {
    return element("label", {}, label, element("select", { id, onchange: event => onchange(event.target.value) },
      element("option", { value: "" }, "all"), values.map(value => element("option", { value, selected: value === chosen }, value))));
  }

  atalla.ready(() => {
    const summary = atalla.data("summary");
    const main = atalla.frame("Kernels");
    if (!summary) return main.append(atalla.notice("data/summary.js is missing: write the dashboard again."));
    const kernels = summary.kernels;
    const filter = { q: "", op: "", machine: "", changed: "", ...Object.fromEntries(state.get()) };
    const distinct = key => [...new Set(kernels.map(key))].sort();

    const changes = kernels.map(lastChange).filter(change => change !== null);
    const slower = changes.filter(change => change.difference > 0).length, faster = changes.filter(change => change.difference < 0).length;
    const shares = kernels.map(row => share(row.bound, row.cycles)).filter(value => value !== null);
    const middle = median(shares);
    const fact = (value, text, href, kind) => element("li", { class: kind || null },
      element(href ? "a" : "span", { href }, element("strong", {}, value), " ", text));
    main.append(element("ul", { class: "facts" },
      fact(number(kernels.length), kernels.length === 1 ? "kernel" : "kernels"),
      fact(middle === null ? "–" : percent(middle), "of the bound, median"),
      fact(number(slower), "slower than the run before", "changes.html", slower ? "alarm" : null),
      fact(number(faster), "faster than the run before", "changes.html")));

    const count = element("p", { role: "status", class: "count" });
    const words = row => `${row.op} ${title(row)} ${row.machine_name} ${row.compiler}`.toLowerCase();
    const haystack = new Map(kernels.map(row => [row, words(row)]));
    const visible = () => kernels.filter(row => (!filter.op || row.op === filter.op) && (!filter.machine || row.machine_name === filter.machine) &&
      (!filter.changed || (lastChange(row) || { difference: 0 }).difference !== 0) &&
      filter.q.toLowerCase().split(/\s+/).every(word => haystack.get(row).includes(word)));
    const sort = filter.sort ? { column: Number(filter.sort.replace("-", "")), descending: filter.sort.startsWith("-") } : { column: 3, descending: true };
    const list = atalla.table(columns, visible(), { caption: "All kernels", sort, empty: "No kernel matches.",
      onsort: chosen => state.set({ sort: (chosen.descending ? "-" : "") + chosen.column }) });
    function apply(change) {
      Object.assign(filter, change);
      state.set(change);
      const rows = visible();
      count.textContent = `${number(rows.length)} of ${number(kernels.length)} kernels`;
      list.update(rows);
    }
    main.append(element("form", { class: "filter", role: "search", onsubmit: event => event.preventDefault() },
      element("label", {}, "Find", element("input", { type: "search", id: "find", value: filter.q, placeholder: "gemm 512",
        oninput: event => apply({ q: event.target.value }) })),
      choice("Operator", "operator", distinct(row => row.op), filter.op, value => apply({ op: value })),
      choice("Machine", "machine", distinct(row => row.machine_name), filter.machine, value => apply({ machine: value })),
      element("label", { class: "check" }, element("input", { type: "checkbox", id: "changed", checked: filter.changed === "1",
        onchange: event => apply({ changed: event.target.checked ? "1" : "" }) }), "only what changed")), count, list.node);
    apply({});
    document.documentElement.dataset.drawn = "yes";
  });
})();
