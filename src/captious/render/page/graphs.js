// Why a metric gave its score: the scene graph of a caption, and its tuples by what became of them.

const LISTS = {
  matched: "Matched: said by the references too", wrong: "Wrong: not said by the references",
  missed: "Missed: said by the references alone", said: "Tuples",
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
  return h("div", { class: "graph" }, shapes.length ? h("div", { class: "scroll" }, drawn) : h("p", { class: "quiet" }, "The caption says nothing that is an object."), h("div", { class: "lists" }, tuples));
}

// Closed until someone asks; only then it is drawn.
function explanations({ graphs, values }) {
  return graphs.map(({ metric, graphs: drawn }) => {
    const number = (mark) => drawn.reduce((sum, { counts }) => sum + (counts[mark] || 0), 0);
    const said = `${count(number("matched"))} of ${plural(number("matched") + number("wrong"), "tuple")} matched, ${count(number("missed"))} missed`;
    const body = h("div", {});
    const draw = (event) => event.target.open && !body.firstChild && body.append(...drawn.map(drawGraph));
    return h("details", { class: "why", ontoggle: draw }, h("summary", {}, `Why ${metrics[metric].label} `, h("b", {}, show(values[metric], 3)), h("span", { class: "quiet" }, ` ${said}`)), body);
  });
}
