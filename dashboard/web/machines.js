// The same kernels on several machines, side by side.
"use strict";
(() => {
  const { element, number, compact, percent, share, title, kernelLink } = atalla;

  atalla.ready(() => {
    const summary = atalla.data("summary");
    const main = atalla.frame("Machines");
    if (!summary || summary.machines.length === 0) {
      main.append(atalla.notice("No machine has a tuned kernel yet."));
      document.documentElement.dataset.drawn = "yes";
      return;
    }
    const machines = summary.machines;
    const twice = machines.filter(machine => machines.some(other => other !== machine && other.name === machine.name));
    const label = machine => twice.includes(machine) ? `${machine.name} (${machine.fingerprint.slice(0, 6)})` : machine.name;
    const peak = (machine, key, unit) => machine.peak && machine.peak[key] ? compact(machine.peak[key]) + unit : "unknown";
    main.append(element("h2", {}, "Peak rates"), atalla.table([
      { name: "Machine", value: row => row.name, cell: row => label(row) },
      { name: "Fingerprint", optional: true, cell: row => element("code", {}, row.fingerprint) },
      { name: "Array, FLOP a cycle", numeric: true, cell: row => peak(row, "array_flops", "") },
      { name: "Lanes, FLOP a cycle", numeric: true, cell: row => peak(row, "lane_flops", "") },
      { name: "DRAM, bytes a cycle", numeric: true, cell: row => peak(row, "dram_bytes", "") },
      { name: "Kernels", numeric: true, value: row => summary.kernels.filter(kernel => kernel.machine === row.fingerprint).length, cell: row => number(summary.kernels.filter(kernel => kernel.machine === row.fingerprint).length) },
    ], machines, { caption: "Machines of the database" }).node);

    const rows = new Map();
    for (const kernel of summary.kernels) {
      const key = JSON.stringify([kernel.op, kernel.workload]);
      if (!rows.has(key)) rows.set(key, { op: kernel.op, title: title(kernel), on: {} });
      rows.get(key).on[kernel.machine] = kernel;
    }
    const list = [...rows.values()];
    const cycles = (row, machine) => { const kernel = row.on[machine.fingerprint]; return kernel && kernel.cycles ? kernel.cycles : null; };
    // Among machines whose cycles mean the same.
    const fastest = (row, timed) => Math.min(...machines.filter(machine => machine.timed === timed).map(machine => cycles(row, machine) || Infinity));
    const cell = (row, machine) => {
      const kernel = row.on[machine.fingerprint];
      if (!kernel || !kernel.cycles) return element("span", { class: "muted" }, "–");
      const part = share(kernel.bound, kernel.cycles);
      return [kernelLink(kernel, number(kernel.cycles)), element("span", { class: "under" },
        part === null ? "" : `${percent(part)} of its bound`, kernel.cycles > fastest(row, machine.timed) ? `, ${(kernel.cycles / fastest(row, machine.timed)).toFixed(2)} × the fastest` : "")];
    };
    main.append(element("h2", {}, "Kernels side by side"), element("p", { class: "muted" },
      "On a functional machine such as fsim a cycle is a packet, so its counts stand for themselves."),
      atalla.table([{ name: "Operator and shape", value: row => `${row.op} ${row.title}`, cell: row => `${row.op} ${row.title}` },
        ...machines.map(machine => ({ name: label(machine), numeric: true, value: row => cycles(row, machine), cell: row => cell(row, machine) }))],
        list, { caption: "Cycles on each machine", sort: { column: 0, descending: false } }).node);
    document.documentElement.dataset.drawn = "yes";
  });
})();
