// Tables that sort by their headings, show long lists in steps, and scroll sideways on narrow screens.
"use strict";
(() => {
  const { element, append, number } = atalla;
  const step = 200;

  // columns: {name, value: row => sortable, cell: row => node or text, numeric, optional: left out on narrow screens}.
  // Options: caption, sort: {column, descending}, onsort, empty: what to say without rows.
  function table(columns, rows, options) {
    let sort = options.sort || null, shown = step, current = rows;
    const body = element("tbody");
    const more = element("button", { type: "button", class: "more", onclick: () => { shown += step * 5; fill(); } });
    const heads = columns.map((column, index) => element("th", { scope: "col", class: classes(column) },
      column.value ? element("button", { type: "button", onclick: () => sortBy(index) }, column.name) : column.name));
    const caption = element("caption", {}, options.caption);
    const grid = element("table", {}, caption, element("thead", {}, element("tr", {}, heads)), body);
    const region = element("div", { class: "scroll", role: "region", "aria-label": options.caption, tabindex: "0" }, grid);

    function classes(column) { return [column.numeric ? "number" : "", column.optional ? "optional" : ""].join(" ").trim() || null; }
    function sortBy(index) {
      sort = sort && sort.column === index ? { column: index, descending: !sort.descending } : { column: index, descending: false };
      if (options.onsort) options.onsort(sort);
      fill();
    }
    function sorted() {
      if (!sort || !columns[sort.column] || !columns[sort.column].value) return current;
      const value = columns[sort.column].value;
      const keyed = current.map(row => [value(row), row]);
      // Rows without a value come last whichever way it is sorted.
      keyed.sort(([one], [other]) => {
        if (one === null || other === null) return (one === null) - (other === null);
        const order = typeof one === "string" ? one.localeCompare(other, "en", { numeric: true }) : one - other;
        return sort.descending ? -order : order;
      });
      return keyed.map(([, row]) => row);
    }
    function fill() {
      heads.forEach((head, index) => {
        if (!columns[index].value) return;
        head.setAttribute("aria-sort", sort && sort.column === index ? (sort.descending ? "descending" : "ascending") : "none");
      });
      const visible = sorted().slice(0, shown);
      body.replaceChildren(...visible.map(row => element("tr", {}, columns.map((column, index) =>
        append(element(index === 0 ? "th" : "td", { class: classes(column), scope: index === 0 ? "row" : null }), [column.cell(row)])))));
      if (current.length === 0)
        body.append(element("tr", {}, element("td", { colspan: columns.length, class: "muted" }, options.empty || "nothing")));
      more.hidden = current.length <= shown;
      more.textContent = `Show more of the ${number(current.length)} rows`;
    }
    fill();
    return { node: element("div", { class: "table" }, region, more), update(next) { current = next; shown = step; fill(); } };
  }

  atalla.table = table;
})();
