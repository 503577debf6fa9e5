// Tables that a click on a heading sorts: best known first, then the other way round, then as given.

const numberIn = (text) => {
  const found = text.replaceAll("−", "-").replaceAll(",", "").match(/[-+]?\d*\.?\d+(?:e[-+]?\d+)?|∞/i);
  return found ? (found[0] === "∞" ? Infinity : Number(found[0])) : null;
};
function sortBy(table, column, way, numeric) {
  const body = table.tBodies[0], rows = [...body.rows];
  const keyed = rows.map((row) => {
    const text = row.cells[column].textContent.trim();
    return { row, key: numeric ? numberIn(text) : text || null, place: Number(row.dataset.place) };
  });
  const order = (a, b) => (numeric ? a - b : a.localeCompare(b, "en", { numeric: true }));
  keyed.sort((a, b) => (way ? (a.key === null) - (b.key === null) || (a.key === null ? 0 : way * order(a.key, b.key)) : 0) || a.place - b.place);
  body.append(...keyed.map(({ row }) => row));
  // Lines between groups mean nothing in another order.
  for (const { row } of keyed) row.classList.toggle("open", way === 0 && row.dataset.group === "");
}
function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  [...table.tBodies[0].rows].forEach((row, place) => {
    row.dataset.place = place;
    if (row.classList.contains("open")) row.dataset.group = "";
  });
  heads.forEach((head, column) => {
    if (head.tagName !== "TH" || head.querySelector("a")) return;
    const numeric = head.classList.contains("number"), ways = numeric ? [-1, 1, 0] : [1, -1, 0];
    let turn = -1;
    const button = h("button", { type: "button", class: "sort", title: "Sort by this column", onclick: () => {
      const next = (head.hasAttribute("aria-sort") ? turn + 1 : 0) % 3;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      turn = next;
      if (ways[turn]) head.setAttribute("aria-sort", ways[turn] > 0 ? "ascending" : "descending");
      sortBy(table, column, ways[turn], numeric);
    } });
    button.append(...head.childNodes);
    head.append(button);
  });
}
document.querySelectorAll("table.sorts").forEach(sortable);
