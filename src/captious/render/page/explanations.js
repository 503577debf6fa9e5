// Why a metric gave its score: texts, tables and the scene graph of a caption with its tuples by what became of them.

const LISTS = {
  matched: "Matched: said by the references too", wrong: "Wrong: not said by the references",
  missed: "Missed: said only by the references", said: "Tuples",
};

function shape([tag, name, ...rest]) {
  if (tag === "text") return s("text", { class: name, x: rest[0], y: rest[1], "text-anchor": "middle" }, rest[2]);
  if (tag === "rect") return s("rect", { class: name, x: rest[0], y: rest[1], width: rest[2], height: rest[3], rx: rest[4] });
  return s(tag, { class: name, [tag === "path" ? "d" : "points"]: rest[0] });
}

function drawGraph({ width, height, shapes, counts, lists }) {
  const tuples = Object.entries(lists).map(([mark, texts]) => h("div", { class: `tuples ${mark}` },
    h("b", {}, `${LISTS[mark]} (${count(counts[mark])})`), h("p", {}, texts.map((text) => [h("span", {}, text), " "]), counts[mark] > texts.length && "…")));
  const drawn = s("svg", { class: "scene", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Scene graph of the caption" }, shapes.map(shape));
  return h("div", { class: "graph" }, shapes.length ? h("div", { class: "scroll" }, drawn) : h("p", { class: "quiet" }, "The caption names no object."), h("div", { class: "lists" }, tuples));
}

// Parts of an explanation: a graph, paragraphs, or a table with bars.
const spans = (parts) => (typeof parts === "string" ? parts : parts.map(([text, tone, weight]) => (tone ? h("span", { class: `tone-${tone}`, style: { "--weight": `${Math.round(100 * clamp(weight, 0, 1))}%` } }, text) : text)));
function section({ title, paragraphs, graph, columns, rows, note }) {
  const heading = title && h("h4", {}, title);
  if (graph) return h("div", {}, heading, drawGraph(graph));
  if (paragraphs) return h("div", {}, heading, paragraphs.map((parts) => h("p", {}, spans(parts))));
  // What a narrow screen can do without: how much a part adds, where other columns say what it is.
  const kind = ({ number, bars }) => [number && "number", bars && columns.length > 3 && "spare"].filter(Boolean).join(" ") || null;
  const head = (column) => [h("th", { scope: "col", class: kind(column) }, column.name), column.bars && h("td", { class: kind(column) })];
  const cell = (parts, column, row) => [h("td", { class: kind(column) }, spans(parts)), column.bars && h("td", { class: `adds ${kind(column)}` }, bar(column.bars[row]))];
  return h("div", {}, heading, h("div", { class: "scroll" }, h("table", { class: "shown" }, h("thead", {}, h("tr", {}, columns.map(head))),
    h("tbody", {}, rows.map((cells, row) => h("tr", {}, cells.map((parts, column) => cell(parts, columns[column], row))))))), note && h("p", { class: "note" }, note));
}
const bar = (share) => h("i", { class: share < 0 ? "less" : null, style: { width: `${Math.round(100 * Math.abs(share))}%` } });

// Closed until someone asks; only then it is drawn.
function explanations({ whys, values }) {
  return whys.filter(({ sections }) => sections.length).map(({ metric, summary, sections }) => {
    const body = h("div", { class: "because" }), value = values[metric];
    const draw = (event) => event.target.open && !body.firstChild && body.append(...sections.map(section));
    return h("details", { class: "why", ontoggle: draw }, h("summary", {}, "Why ", metrics[metric].label, " ", h("b", {}, value === null ? "has no value" : show(value, 3)), summary && h("span", { class: "quiet brief" }, ` ${summary}`)), body);
  });
}
