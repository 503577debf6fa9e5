// Draws a study: table, forest plot, tests, scatters, disagreements. Text always becomes a text node.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const svgSpace = "http://www.w3.org/2000/svg";
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(svgSpace, tag), attributes, children);
const unscaled = new Set(["r2", "one_minus_r2", "r2_fitted"]);
const show = (value, name) => value === null ? "—" : unscaled.has(name) ? (Math.abs(value) < 1e4 ? value.toFixed(2) : value.toExponential(1)) : (100 * value).toFixed(2);
const showP = (p) => p === null || p === undefined ? "—" : p < 0.001 ? "< 0.001" : p.toFixed(3);
const label = Object.fromEntries(data.metrics.map((metric) => [metric.metric, metric.label]));

byId("about").textContent = `${data.rows.toLocaleString("en")} rows · ${data.items.toLocaleString("en")} captions · ${data.clustered.toLocaleString("en")} images`;
data.warnings.forEach((warning) => byId("warnings").append(h("p", { class: "warning" }, warning)));
data.protocol.concat([data.signature]).forEach((line) => byId("protocol").append(h("li", {}, line)));

let last = null;
byId("table").append(h("table", { class: "study" },
  h("thead", {}, h("tr", {}, data.table.columns.map((column) => h("th", {}, column)))),
  h("tbody", {}, data.table.rows.map((row) => {
    const opens = last !== null && row[0] !== last;
    last = row[0];
    return h("tr", { class: opens ? "open" : "" }, row.map((cell, place) => h("td", { class: place === 2 ? "head" : "" }, cell)));
  }))));
data.table.notes.forEach((note) => byId("notes").append(h("p", {}, note)));

function pick(target, options, chosen, choose) {
  target.replaceChildren(h("div", { class: "segments", role: "group" }, options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => choose(value) }, text))));
}
function niceStep(span, parts) {
  const raw = span / parts, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw * 0.999);
}

function forest(name) {
  pick(byId("pick"), data.shown.filter((key) => !unscaled.has(key)).map((key) => [key, data.names[key]]), name, forest);
  const rows = data.metrics.filter((metric) => metric.statistics[name].value !== null)
    .sort((a, b) => b.statistics[name].value - a.statistics[name].value);
  const ends = rows.flatMap((row) => [row.statistics[name].value, row.statistics[name].low, row.statistics[name].high]).filter((value) => value !== null);
  let low = Math.min(...ends), high = Math.max(...ends);
  const step = niceStep((high - low) || 0.1, 6);
  low = Math.floor(low / step) * step; high = Math.ceil(high / step) * step;
  const width = 1100, left = 190, right = 210, line = 34, top = 14, height = top + rows.length * line + 34;
  const x = (value) => left + (value - low) / (high - low) * (width - left - right);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart forest", role: "img", "aria-label": `Forest plot of ${data.names[name]}` });
  for (let tick = low; tick <= high + step / 2; tick += step)
    svg.append(s("line", { class: "rule", x1: x(tick), x2: x(tick), y1: top, y2: height - 30 }), s("text", { class: "faint", x: x(tick), y: height - 12, "text-anchor": "middle" }, (100 * tick).toFixed(step < 0.01 ? 1 : 0)));
  const ranked = name === data.headline;
  rows.forEach((row, place) => {
    const y = top + place * line + line / 2, found = row.statistics[name];
    if (ranked && row.rank % 2) svg.append(s("rect", { class: "band", x: 0, y: y - line / 2, width, height: line }));
    svg.append(s("text", { x: left - 14, y: y + 4, "text-anchor": "end" }, row.label));
    if (found.low !== null) svg.append(s("line", { class: "whisker", x1: x(found.low), x2: x(found.high), y1: y, y2: y }));
    svg.append(s("circle", { class: "point", cx: x(found.value), cy: y, r: 5 }));
    svg.append(s("text", { class: "faint", x: width - right + 14, y: y + 4 }, `${show(found.value, name)}${found.low !== null ? `  [${show(found.low, name)}, ${show(found.high, name)}]` : ""}`));
    if (ranked) svg.append(s("text", { class: "faint", x: 8, y: y + 4 }, `rank ${row.rank}`));
  });
  byId("forest-plot").replaceChildren(svg, h("p", { class: "note" }, `${data.names[name]} × 100; whiskers: ${Math.round(100 * data.options.level)} % intervals over images${ranked ? "; shades: rank clusters, whose members cannot be told apart" : ""}`));
}
forest(data.headline);

byId("contests").append(h("table", { class: "study contests" },
  h("thead", {}, h("tr", {}, ["metrics", "difference", "interval", "p permutation", "p bootstrap", "Williams t", "p Williams", `p (Holm, ${data.options.test})`].map((head) => h("th", {}, head)))),
  h("tbody", {}, data.contests.map((row) => h("tr", {}, [
    `${label[row.first]} − ${label[row.second]}`, show(row.difference, row.statistic), row.low === null ? "—" : `${show(row.low, row.statistic)} – ${show(row.high, row.statistic)}`,
    showP(row.p_permutation), showP(row.p_bootstrap), row.williams ? row.williams[0].toFixed(2) : "—", row.williams ? showP(row.williams[2]) : "—", showP(row.p_holm),
  ].map((cell) => h("td", {}, cell)))))));

if (!data.scatter.human) byId("scatter").hidden = true;
else data.metrics.forEach((metric) => {
  const width = 520, height = 300, left = 48, bottom = 40, values = data.scatter.values[metric.metric], human = data.scatter.human;
  const span = (list) => [Math.min(...list), Math.max(...list)];
  const [x0, x1] = span(human), [y0, y1] = span(values);
  const x = (value) => left + (value - x0 + (x1 - x0) * 0.05) / ((x1 - x0) * 1.1 || 1) * (width - left - 10);
  const y = (value) => height - bottom - (value - y0) / ((y1 - y0) || 1) * (height - bottom - 14);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart scatter" });
  const xs = niceStep(x1 - x0 || 1, 5), ys = niceStep(y1 - y0 || 1, 5);
  for (let tick = Math.ceil(x0 / xs) * xs; tick <= x1 + 1e-9; tick += xs) svg.append(s("text", { x: x(tick), y: height - 22, "text-anchor": "middle" }, +tick.toFixed(4)));
  for (let tick = Math.ceil(y0 / ys) * ys; tick <= y1 + 1e-9; tick += ys) svg.append(s("line", { class: "rule", x1: left, x2: width - 10, y1: y(tick), y2: y(tick) }), s("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, +tick.toFixed(4)));
  // Jitter by place, so that equal ratings do not hide each other and the page looks the same each time.
  const nudge = (place) => (((place * 7919) % 101) / 101 - 0.5) * Math.min(14, 0.6 * (x(x0 + (x1 - x0) / 9) - x(x0)));
  human.forEach((rating, place) => svg.append(s("circle", { class: "dot", cx: (x(rating) + nudge(place)).toFixed(1), cy: y(values[place]).toFixed(1), r: 2.2 }, s("title", {}, `${data.scatter.ids[place]}: people ${rating}, ${metric.label} ${values[place]}`))));
  const bins = 8, sums = Array.from({ length: bins }, () => []);
  human.forEach((rating, place) => sums[Math.min(bins - 1, Math.floor((rating - x0) / (x1 - x0 || 1) * bins))].push(place));
  const means = sums.filter((bin) => bin.length > 4).map((bin) => [bin.reduce((sum, place) => sum + human[place], 0) / bin.length, bin.reduce((sum, place) => sum + values[place], 0) / bin.length]);
  svg.append(s("polyline", { class: "level", points: means.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ") }));
  svg.append(s("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, "mean rating"));
  byId("scatters").append(h("figure", {}, h("figcaption", {}, h("h3", {}, metric.label), h("span", { class: "quiet" }, `${data.names[data.headline]} ${show(metric.statistics[data.headline].value, data.headline)}${human.length < data.scatter.of ? ` · ${human.length.toLocaleString("en")} of ${data.scatter.of.toLocaleString("en")} captions drawn` : ""}`)), svg));
});

function cards(key) {
  pick(byId("metric-pick"), data.metrics.map((metric) => [metric.metric, metric.label]), key, cards);
  const meter = (kind, share) => h("div", { class: `meter ${kind}` }, h("i", { style: `width:${(100 * share).toFixed(0)}%` }));
  byId("cards").replaceChildren(...data.worst[key].map((row, place) => {
    const texts = row.items.map((item) => data.texts[item]).filter(Boolean), first = texts[0];
    const said = texts.map((text, side) => h("p", { class: `candidate${row.items.length > 1 && side === 0 ? " preferred" : ""}` },
      row.items.length > 1 ? `${side === 0 ? "people prefer" : "the metric prefers"} (${row.values[side].toFixed(4)}): ` : "", text.candidate));
    return h("article", { class: "card" },
      first && first.picture !== null ? h("img", { src: data.images[first.picture], alt: "", loading: "lazy" }) : null,
      h("div", { class: "body" },
        h("header", {}, h("span", { class: "rank" }, place + 1), h("code", {}, row.items[0]), row.category ? h("span", { class: "field" }, row.category) : null,
          h("span", { class: "quiet" }, row.items.length > 1 ? `gap ${row.gap.toFixed(2)} standard deviations` : row.gap > 0 ? "the metric likes it more than people do" : "people like it more than the metric does")),
        said,
        row.items.length === 1 ? h("div", { class: "meters" }, h("span", {}, "people"), meter("people", row.people), h("span", {}, `mean rating ${+row.human.toFixed(2)}: above ${(100 * row.people).toFixed(0)} %`),
          h("span", {}, label[key]), meter("", row.metric), h("span", {}, `${row.values[0].toFixed(4)}: above ${(100 * row.metric).toFixed(0)} %`)) : null,
        first ? h("ul", { class: "references" }, first.references.map((text) => h("li", {}, text))) : null));
  }));
}
cards(data.metrics[0].metric);
byId("footer").textContent = `captious ${data.captious} · ${data.signature}`;
