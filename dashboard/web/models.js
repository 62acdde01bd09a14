// Networks as lists of kernels: what each layer costs, what is not tuned yet.
"use strict";
(() => {
  const { element, number, percent, share, title, kernelLink, shareBar, sameWorkload, state } = atalla;

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
    const part = element("section", {}, element("h2", {}, model.name), element("p", { class: "muted" }, model.source));
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

  atalla.ready(() => {
    const summary = atalla.data("summary"), models = atalla.data("models") || [];
    const main = atalla.frame("Models");
    if (!summary || models.length === 0) {
      main.append(atalla.notice("No networks were given to this dashboard; --shapes names files of them."));
    } else {
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
