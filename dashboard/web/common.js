// What every page uses: receiving data, building elements, numbers as text, the frame around the page.
"use strict";
(() => {
  const received = new Map();

  // Text only ever becomes text: names from the database are never parsed as HTML.
  function element(name, attributes, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (key === "class") node.className = value;
      else node.setAttribute(key, value === true ? "" : value);
    }
    append(node, children);
    return node;
  }
  function append(node, children) {
    for (const child of children.flat(Infinity)) {
      if (child === undefined || child === null || child === false) continue;
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return node;
  }
  function svg(name, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const number = value => whole.format(value);
  function compact(value) {
    const size = Math.abs(value);
    for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (size >= limit) return Number((value / limit).toPrecision(3)) + unit;
    return String(Number(value.toPrecision(3)));
  }
  const percent = (value, digits = 1) => (100 * value).toFixed(digits) + " %";
  const signed = value => (value > 0 ? "+" : value < 0 ? "−" : "±") + number(Math.abs(value));
  function seconds(value) {
    for (const [limit, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]])
      if (value >= limit) return Number((value / limit).toPrecision(3)) + " " + unit;
    return Number((value / 1e-9).toPrecision(3)) + " ns";
  }
  function date(milliseconds, withTime = true) {
    if (!milliseconds) return "unknown";
    const iso = new Date(milliseconds).toISOString();
    return withTime ? iso.slice(0, 16).replace("T", " ") + " UTC" : iso.slice(0, 10);
  }
  const share = (bound, cycles) => (bound > 0 && cycles > 0 ? bound / cycles : null);

  // "512x512x512, bias": what the compiler calls the workload, or else its description.
  function title(kernel) {
    if (kernel.title) return kernel.title;
    if (kernel.workload === null || typeof kernel.workload !== "object") return String(kernel.workload);
    return Object.entries(kernel.workload)
      .map(([key, value]) => `${key}=${typeof value === "object" ? JSON.stringify(value) : value}`)
      .join(", ");
  }
  const sameWorkload = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  const kernelLink = (kernel, text) => element("a", { href: "kernel.html#id=" + encodeURIComponent(kernel.id) }, text);

  // A share of the bound as a number with a bar behind it.
  function shareBar(value) {
    if (value === null) return element("span", { class: "muted" }, "unknown");
    const bar = element("span", { class: "share" }, element("span", { class: "share-text" }, percent(value)));
    bar.style.setProperty("--share", Math.min(1, value));
    return bar;
  }

  // The state of a page lives in the part of its address behind #, so that a link can be passed on.
  const state = {
    get: () => new URLSearchParams(location.hash.slice(1)),
    set(values) {
      const parameters = state.get();
      for (const [key, value] of Object.entries(values)) value ? parameters.set(key, value) : parameters.delete(key);
      const text = parameters.toString();
      history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
    },
  };

  // Loads data/NAME.js, unless it was loaded; a script element works from the disk, where fetching does not.
  function load(name, key) {
    if (received.has(key)) return Promise.resolve(received.get(key));
    return new Promise((resolve, reject) => {
      const script = element("script", { src: `data/${encodeURIComponent(name)}.js` });
      script.onload = () => resolve(received.get(key));
      script.onerror = () => reject(new Error(`data/${name}.js is not there`));
      document.head.append(script);
    });
  }

  // Light, dark, or as the system has it.
  const themes = ["auto", "light", "dark"];
  const stored = { get() { try { return localStorage.getItem("atalla-theme"); } catch { return null; } },
                   set(value) { try { localStorage.setItem("atalla-theme", value); } catch { /* not kept */ } } };
  const darkSystem = matchMedia("(prefers-color-scheme: dark)");
  function setTheme(theme) {
    document.documentElement.dataset.theme = theme === "auto" ? (darkSystem.matches ? "dark" : "light") : theme;
    document.dispatchEvent(new Event("themechange"));
  }
  const wanted = () => (themes.includes(stored.get()) ? stored.get() : "auto");
  function themeChoice() {
    const current = wanted();
    return element("label", { class: "theme" }, "Colours ",
      element("select", { id: "theme", onchange: event => { stored.set(event.target.value); setTheme(event.target.value); } },
        themes.map(theme => element("option", { value: theme, selected: theme === current }, theme))));
  }
  setTheme(wanted());
  darkSystem.addEventListener("change", () => setTheme(wanted()));

  const places = [["index.html", "Kernels", "index"], ["models.html", "Models", "models"], ["machines.html", "Machines", "machines"],
                  ["changes.html", "Changes", "changes"]];
  // Puts the frame round what the page shows and returns the element to fill.
  function frame(heading) {
    const summary = received.get("summary");
    const page = document.body.dataset.page;
    document.title = summary ? `${heading} · ${summary.title}` : heading;
    const main = element("main", { id: "main", tabindex: "-1" });
    document.body.replaceChildren(
      element("a", { class: "skip", href: "#main", onclick: event => { event.preventDefault(); main.focus(); } }, "Skip to the content"),
      element("header", {}, element("span", { class: "site" }, summary ? summary.title : "Atalla kernels"),
        element("nav", { "aria-label": "Pages" }, element("ul", {}, places.map(([file, text, name]) =>
          element("li", {}, element("a", { href: file, "aria-current": name === page ? "page" : null }, text))))),
        themeChoice()),
      main,
      element("footer", {}, summary ? `Written ${date(summary.generated)} from ${summary.database}: ${number(summary.kernels.length)} kernels, ` +
        `${number(summary.trials)} trials. Simulated cycles are exact.` : ""));
    append(main, [element("h1", {}, heading)]);
    return main;
  }
  function notice(text) { return element("p", { class: "notice" }, text); }

  // The last two runs of a kernel that measured something; null if there was one only.
  function lastChange(kernel) {
    const history = kernel.history;
    if (history.length < 2) return null;
    const [before, after] = history.slice(-2);
    return { before, after, difference: after.cycles - before.cycles, sameCompiler: before.compiler === after.compiler };
  }
  function changeMark(difference) {
    if (difference === 0) return element("span", { class: "muted" }, "equal");
    const slower = difference > 0;
    return element("span", { class: slower ? "bad" : "good" }, `${slower ? "▲" : "▼"} ${signed(difference)}`,
      element("span", { class: "unseen" }, slower ? " cycles, slower" : " cycles, faster"));
  }

  // Values over the runs, null where a run has none; the text beside the line says the same.
  function sparkline(values, text) {
    const known = values.filter(value => value !== null);
    if (known.length < 2) return element("span", { class: "muted" }, "1 run");
    const low = Math.min(...known), high = Math.max(...known);
    const points = values.flatMap((value, index) => value === null ? [] :
      [`${(2 + 76 * index / (values.length - 1)).toFixed(1)},${(high === low ? 10 : 18 - 16 * (value - low) / (high - low)).toFixed(1)}`]);
    return element("span", { class: "spark" },
      svg("svg", { viewBox: "0 0 80 20", width: 80, height: 20, "aria-hidden": "true" }, svg("polyline", { points: points.join(" ") })),
      element("span", { class: "unseen" }, `${known.length} runs, ${text(known[0])} first, ${text(known.at(-1))} last`));
  }

  window.atalla = {
    receive: (name, value) => received.set(name, value),
    data: name => received.get(name),
    ready: draw => document.addEventListener("DOMContentLoaded", draw),
    element, append, svg, number, compact, percent, signed, seconds, date, share, title, sameWorkload, kernelLink, shareBar, state, load,
    frame, notice, lastChange, changeMark, sparkline,
  };
})();
