// Compiled models with their segments and memory plan; networks as lists of kernels, with what each layer costs.
"use strict";
(() => {
  const { element, append, svg, number, percent, share, title, kernelLink, shareBar, sameWorkload, state } = atalla;

  // The layers of a model with the kernels that the database has for them on a machine.
  function costs(model, machine, kernels) {
    const layers = model.layers.map(layer => {
      const kernel = kernels.find(one => one.machine === machine && one.op === layer.op && one.cycles > 0 && sameWorkload(one.workload, layer.workload));
      return { ...layer, kernel, cycles: kernel ? kernel.cycles * layer.count : null, bound: kernel ? kernel.bound * layer.count : null };
    });
    const known = layers.filter(layer => layer.kernel);
    const sum = key => known.reduce((total, layer) => total + layer[key], 0);
    return { layers, known: known.length, cycles: sum("cycles"), bound: sum("bound") };
  }

  function section(model, machine, kernels) {
    const { layers, known, cycles, bound } = costs(model, machine.fingerprint, kernels);
    const part = element("section", {}, element("h3", {}, model.name), element("p", { class: "muted" }, model.source));
    let list = part;
    const missing = layers.length - known;
    part.append(element("p", {}, known === 0 ? `None of its ${layers.length} kinds of layers is tuned on ${machine.name}.` :
      [element("strong", {}, `${number(cycles)} cycles`), ` on ${machine.name} in ${known} of ${layers.length} kinds of layers, ${percent(share(bound, cycles) || 0)} of the bound.`,
       missing ? ` ${missing} not tuned yet are left out.` : ""]));
    if (known > 0) {
      const bar = element("div", { class: "stack", role: "img", "aria-label": "Share of each layer: " + layers.filter(layer => layer.kernel)
        .map(layer => `${layer.name} ${percent(layer.cycles / cycles)}`).join(", ") },
        layers.filter(layer => layer.kernel).map((layer, index) => {
          const piece = element("span", { class: `part layer-${index % 8}`, title: `${layer.name}: ${percent(layer.cycles / cycles)}` });
          piece.style.flexGrow = layer.cycles;
          return piece;
        }));
      part.append(bar);
    }
    if (known === 0) {
      list = element("details", {}, element("summary", {}, `The layers of ${model.name}`));
      part.append(list);
    }
    let coloured = 0;
    const colours = new Map(layers.filter(layer => layer.kernel).map(layer => [layer, coloured++ % 8]));
    list.append(atalla.table([
      { name: "Layer", value: row => row.name, cell: row => [row.kernel ? element("span", { class: `key layer-${colours.get(row)}`, "aria-hidden": "true" }) : null, row.name] },
      { name: "Kernel", value: row => row.kernel ? title(row.kernel) : "", cell: row => row.kernel ? kernelLink(row.kernel, title(row.kernel)) :
        element("span", { class: "muted" }, row.problem || "not tuned") },
      { name: "Times", numeric: true, value: row => row.count, cell: row => number(row.count) },
      { name: "Cycles in all", numeric: true, value: row => row.cycles, cell: row => row.cycles === null ? "–" : number(row.cycles) },
      { name: "Of the model", numeric: true, value: row => row.cycles, cell: row => row.cycles === null ? "–" : percent(row.cycles / cycles) },
      { name: "Share of bound", value: row => share(row.bound, row.cycles), cell: row => row.kernel ? shareBar(share(row.bound, row.cycles)) : "–" },
    ], layers, { caption: `Layers of ${model.name} on ${machine.name}`, sort: { column: 3, descending: true } }).node);
    return part;
  }

  const bytes = value => value >= 1 << 20 ? `${(value / (1 << 20)).toFixed(1)} MiB` : value >= 1 << 10 ? `${(value / (1 << 10)).toFixed(1)} KiB` : `${number(value)} B`;

  // Addresses downwards, steps to the right; the table below it says the same.
  function memoryPlan(model) {
    const computed = model.memory.filter(value => value.kind !== "constant");
    if (computed.length === 0) return null;
    const steps = model.steps.length, low = Math.min(...computed.map(value => value.address));
    const high = Math.max(...computed.map(value => value.address + value.bytes)), height = 180, width = 640;
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plan", role: "img", "aria-label":
      `Memory plan: ${computed.length} tensors between addresses ${number(low)} and ${number(high)} over ${steps} steps` });
    for (const value of computed) {
      const box = svg("rect", { x: width * value.first / steps, width: width * (value.last - value.first + 1) / steps, class: "plan-" + value.kind,
        y: height * (value.address - low) / (high - low), height: Math.max(1, height * value.bytes / (high - low)) });
      const label = svg("title", {});
      label.textContent = `${value.name}: ${number(value.bytes)} bytes at ${number(value.address)}, steps ${value.first + 1} to ${value.last + 1}`;
      box.append(label);
      picture.append(box);
    }
    const fixed = model.memory.filter(value => value.kind === "constant").reduce((sum, value) => sum + value.bytes, 0);
    return [element("h3", {}, "Memory"), element("p", {}, `${bytes(model.memory_bytes)} in all: ${bytes(fixed)} of constants, and ${bytes(model.arena_bytes)} for what is computed, ` +
      `of which ${bytes(model.arena_bound)} are alive at the same time; no plan needs fewer.`), picture,
      element("details", {}, element("summary", {}, `The ${model.memory.length} tensors in memory`), atalla.table([
        { name: "Tensor", value: row => row.name, cell: row => row.name },
        { name: "Kind", value: row => row.kind, cell: row => row.kind },
        { name: "Address", numeric: true, value: row => row.address, cell: row => number(row.address) },
        { name: "Bytes", numeric: true, value: row => row.bytes, cell: row => number(row.bytes) },
        { name: "First step", numeric: true, value: row => row.first, cell: row => number(row.first + 1) },
        { name: "Last step", numeric: true, value: row => row.last, cell: row => number(row.last + 1) },
      ], model.memory, { caption: `Tensors of ${model.name} in memory`, sort: { column: 2, descending: false } }).node)];
  }

  function compiled(model) {
    const part = element("section", {}, element("h2", {}, `${model.name}, compiled`));
    const onAccelerator = model.steps.filter(step => step.on === "accelerator");
    const kernels = onAccelerator.reduce((sum, step) => sum + step.kernels.length, 0);
    append(part, [element("p", {}, model.cycles === null ? "It did not run: " + model.problem : [element("strong", {}, `${number(model.cycles)} cycles`),
      ` on ${model.machine}, for inputs of ${JSON.stringify(model.sizes)}: ${kernels} kernels in ${onAccelerator.length} segments, ${model.steps.length - onAccelerator.length} operators on the host.`])]);
    if (model.cycles) {
      const bar = element("div", { class: "stack", role: "img", "aria-label": "Share of each segment: " +
        onAccelerator.map(step => `${step.node} ${percent((step.cycles || 0) / model.cycles)}`).join(", ") },
        onAccelerator.map((step, index) => {
          const piece = element("span", { class: `part layer-${index % 8}`, title: `${step.node}: ${percent((step.cycles || 0) / model.cycles)}` });
          piece.style.flexGrow = step.cycles || 0;
          return piece;
        }));
      part.append(bar);
    }
    const rows = model.steps.map((step, index) => ({ ...step, index }));
    append(part, [atalla.table([
      { name: "Step", numeric: true, value: row => row.index, cell: row => row.index + 1 },
      { name: "What", value: row => row.node, cell: row => row.node },
      { name: "Runs on", value: row => row.on, cell: row => row.on },
      { name: "Operator or kernels", optional: true, cell: row => row.on === "host" ? row.target :
        row.kernels.map((call, place) => [place ? element("br") : null, call.kernel]) },
      { name: "Cycles", numeric: true, value: row => row.on === "host" ? null : row.cycles, cell: row => row.on === "host" || row.cycles === undefined ? "–" : number(row.cycles) },
      { name: "Share", numeric: true, value: row => row.cycles || null, cell: row => row.cycles && model.cycles ? percent(row.cycles / model.cycles) : "–" },
    ], rows, { caption: `Steps of ${model.name}`, sort: { column: 0, descending: false } }).node, memoryPlan(model)]);
    const host = model.operators.filter(finding => finding.on === "host");
    if (host.length)
      part.append(element("h3", {}, "On the host, and why"), atalla.table([
        { name: "Operator", value: row => row.target, cell: row => row.target },
        { name: "Calls", numeric: true, value: row => row.calls, cell: row => number(row.calls) },
        { name: "Reason", value: row => row.reason, cell: row => row.reason },
      ], host, { caption: `Operators of ${model.name} on the host` }).node);
    return part;
  }

  atalla.ready(() => {
    const summary = atalla.data("summary"), { networks: models, compiled: loadables } = atalla.data("models") || { networks: [], compiled: [] };
    const main = atalla.frame("Models");
    main.append(...loadables.map(compiled));
    if (!summary || models.length + loadables.length === 0) {
      main.append(atalla.notice("No networks were given to this dashboard; --model names compiled ones, --shapes lists of layers."));
    } else if (models.length) {
      const count = machine => summary.kernels.filter(kernel => kernel.machine === machine.fingerprint).length;
      const machines = [...summary.machines].sort((one, other) => count(other) - count(one));
      const body = element("div");
      const draw = fingerprint => {
        const machine = machines.find(one => one.fingerprint === fingerprint) || machines[0] || { fingerprint: "", name: "any machine" };
        // Those with something to see first.
        const order = models.map(model => [costs(model, machine.fingerprint, summary.kernels).known, model]).sort(([one], [other]) => (other > 0) - (one > 0));
        body.replaceChildren(...order.map(([, model]) => section(model, machine, summary.kernels)));
      };
      const chosen = state.get().get("machine");
      main.append(element("h2", {}, "Networks as lists of layers"));
      if (machines.length > 1) main.append(element("label", {}, "Machine ", element("select", { id: "machine", onchange: event => {
        state.set({ machine: event.target.value });
        draw(event.target.value);
      } }, machines.map(machine => element("option", { value: machine.fingerprint, selected: machine.fingerprint === chosen }, machine.name)))));
      main.append(body);
      draw(chosen);
    }
    document.documentElement.dataset.drawn = "yes";
  });
})();
