// The four charts: distribution, metric against metric, length, and how well metrics agree.

const withMetric = (metric, text) => `${metrics[metric].label}${text || ""}`;

// The captions that pass in front, all of them faintly behind; without a filter all are in front.
const linked = () => exploring && filtered();
function layered(ask) {
  const whole = ask(false), part = linked() ? ask(true) : null;
  if (!(whole instanceof Promise)) return part ? { front: part, back: whole } : { front: whole, back: null };
  if (!part) return whole.then((front) => ({ front, back: null }));
  return Promise.all([part.catch((error) => complain(error.message) ?? null), whole]).then(([front, back]) => ({ front, back }));
}
const oneDot = (points) => (points.length === 1 ? "One dot: one caption has a value, so there is no trend. " : "");
const empty = (text) => exploring && h("p", { class: "note none" }, text);

function drawDistribution() {
  const metric = state.metric, domain = extent(metric), bins = source.total < 150 ? 20 : 40;
  whenHere("distribution", layered((chosen) => source.distribution(metric, domain, bins, chosen)), (layers) => drawBars(metric, domain, bins, layers));
}

// How often values occur among all captions, scaled to the number of those that pass.
function scaledBack(counts, back) {
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0), total = sum(counts), all = sum(back);
  return back.map((number) => (number * total) / (all || 1));
}
const outline = (counts, place, box, domain, width) => `M${box.left} ${box.bottom}${counts.map((number, bin) => `H${place.x(domain[0] + bin * width).toFixed(1)}V${place.y(number).toFixed(1)}`).join("")}H${box.right}V${box.bottom}`;
const meanTexts = (found, back) => considered().filter((system) => found[system].mean !== null).map((system) => `${several ? `${systems[system].name} ` : ""}${show(found[system].mean, 3)}${back ? ` (all ${show(back[system].mean, 3)})` : ""}`).join(", ");

function drawBars(metric, domain, bins, { front, back }) {
  const found = front || systems.map(() => ({ counts: new Array(bins).fill(0), mean: null }));
  const figure = byId("distribution"), width = (domain[1] - domain[0]) / bins, counts = found.map((one) => one.counts);
  const speaking = considered().filter((system) => counts[system].some(Boolean)), nobody = !speaking.length;
  const behind = back && counts.map((own, system) => (nobody ? back[system].counts : scaledBack(own, back[system].counts)));
  const top = Math.max(1, ...considered().flatMap((system) => (behind ? [...counts[system], ...behind[system]] : counts[system])));
  const step = Math.max(1, niceStep(top, 5));
  // One crowded bar, often that of zero, would flatten all the others.
  const tall = considered().flatMap((system) => counts[system]).filter(Boolean).sort((a, b) => a - b);
  const root = top > 20 && top > 6 * quantile(tall, 0.8);
  const { svg, box, place } = frame(figure, {
    x: { domain, title: withMetric(metric, several ? "" : " per item") }, y: { domain: [0, Math.ceil(top / step) * step], title: root ? "items (square-root scale)" : "items", root, format: (value) => (Number.isInteger(value) ? count(value) : "") },
    label: `Distribution of ${metrics[metric].label} over items`,
  });
  for (const system of behind ? (nobody ? considered() : speaking) : []) {
    svg.append(s("path", { class: "behind", d: outline(behind[system], place, box, domain, width), style: { stroke: color(system) } }));
  }
  for (const system of exploring ? speaking : considered()) {
    if (several && state.system === null) {
      const d = outline(counts[system], place, box, domain, width);
      svg.append(s("path", { d: `${d}Z`, style: { fill: color(system), opacity: 0.1 } }), s("path", { d, class: "step", style: { stroke: color(system) } }));
    } else {
      counts[system].forEach((number, bin) => number && svg.append(s("rect", { class: "bar", x: place.x(domain[0] + bin * width) + 0.5, y: place.y(number),
        width: Math.max(1, place.x(width + domain[0]) - box.left - 1), height: box.bottom - place.y(number), style: { fill: color(system) } })));
    }
    if (found[system].mean !== null) {
      const center = place.x(found[system].mean);
      svg.append(s("line", { class: "mean", x1: center, x2: center, y1: box.top, y2: box.bottom, style: { stroke: considered().length > 1 ? color(system) : "var(--ink)" } }));
    }
  }
  brush(svg, box, place, domain, (event, value) => {
    const bin = clamp(Math.floor((value - domain[0]) / width), 0, bins - 1);
    tell(event, h("strong", {}, `${show(domain[0] + bin * width, 3)} – ${show(domain[0] + (bin + 1) * width, 3)}`),
      considered().map((system) => h("div", {}, several && swatch(system), several && `${systems[system].name}: `, plural(counts[system][bin], "item"))));
  }, width);
  const means = exploring && !nobody ? ` ${meanTexts(found, back)}` : "";
  figure.replaceChildren(caption("Distribution", legend()), svg, h("p", { class: "note" }, `Dashed: mean${means}. ${back ? `Faint: all items${nobody ? "" : ", scaled to as many as pass"}. ` : ""}`, h("span", { class: "gestures" }, "Drag to keep a range, click for one bar, double-click to clear.")),
    nobody && empty(back ? nothingPasses() : `No caption has a value of ${metrics[metric].label}.`) || "");
}

// Dragging over the histogram sets the range that filters the items.
function brush(svg, box, place, domain, hover, width) {
  const valueAt = (event) => domain[0] + ((clamp(event.clientX - svg.getBoundingClientRect().left, box.left, box.right) - box.left) / (box.right - box.left)) * (domain[1] - domain[0]);
  const area = s("rect", { class: "brush", y: box.top, height: box.bottom - box.top });
  const draw = (low, high) => { area.setAttribute("x", place.x(low)); area.setAttribute("width", Math.max(1, place.x(high) - place.x(low))); };
  if (state.low !== null || state.high !== null) draw(clamp(state.low ?? domain[0], ...domain), clamp(state.high ?? domain[1], ...domain));
  svg.append(area);
  svg.classList.add("brushable");
  let from = null;
  svg.addEventListener("pointerdown", (event) => { from = valueAt(event); hold(svg, event); });
  svg.addEventListener("pointermove", (event) => {
    const value = valueAt(event);
    if (from === null) return hover(event, value);
    draw(Math.min(from, value), Math.max(from, value));
    tell(event, `${show(Math.min(from, value), 3)} – ${show(Math.max(from, value), 3)}`);
  });
  svg.addEventListener("pointerup", (event) => {
    if (from === null) return;
    let [low, high] = [from, valueAt(event)].sort((a, b) => a - b);
    from = null;
    if (place.x(high) - place.x(low) < 4) {
      low = domain[0] + Math.floor((low - domain[0]) / width) * width;
      high = low + width;
    }
    update({ low: +low.toFixed(4), high: +high.toFixed(4), page: 0 });
  });
  svg.addEventListener("dblclick", () => update({ low: null, high: null, page: 0 }));
  svg.addEventListener("pointerleave", hush);
}

function drawScatter() {
  const { x, y } = state;
  whenHere("scatter", layered((chosen) => source.points(x, y, chosen)), (layers) => drawPoints(x, y, layers));
}

function drawPoints(x, y, { front, back }) {
  const found = front || systems.map(() => ({ rho: null, dots: [] }));
  const figure = byId("scatter"), axis = (metric) => ({ domain: extent(metric), title: exploring ? goodWay(metric) : metrics[metric].label });
  const { svg, box, place } = frame(figure, { x: axis(x), y: axis(y), label: `${metrics[y].label} against ${metrics[x].label} per item` });
  const drawn = (layer, faint) => considered().flatMap((system) => {
    const own = layer[system].dots.map(([item, a, b]) => ({ item, system, a, b, px: place.x(a), py: place.y(b) + spread(y, item) }));
    svg.append(dots(own, system, false, faint));
    return own;
  });
  if (back) drawn(back, true);
  const points = drawn(found, false);
  const current = points.filter((point) => point.item === state.item);
  svg.append(...current.map((point) => s("circle", { cx: point.px, cy: point.py, r: 6, class: "ring" })));
  listen(svg, points, (point) => [[x, point.a], [y, point.b]].map(([metric, value]) => `${metrics[metric].label} ${show(value, 3)}`));
  if (exploring) lasso(svg, box, { x: extent(x), y: extent(y) });
  const pick = (axis) => {
    const select = h("select", { "aria-label": `${axis} axis`, onchange: () => update({ [axis]: select.selectedIndex, lasso: null, page: 0 }) }, metrics.map((metric, place) => h("option", { selected: place === state[axis] }, metric.label)));
    return h("label", {}, `${axis} `, select);
  };
  const agreeing = (layer) => averaged(considered().map((system) => layer[system].rho)), most = Math.max(...(back || found).map((one) => one.dots.length));
  const agreement = agreeing(found), whole = back && agreeing(back);
  figure.replaceChildren(caption(`${kindOf(x)} against ${kindOf(y).toLowerCase()}`, h("div", { class: "picks" }, pick("x"), pick("y"))), svg,
    h("p", { class: "note" }, exploring && corners(x, y), oneDot(points), agreement === null ? "" : `Spearman ρ = ${show(agreement, 2)}${whole === null ? "" : ` (all ${show(whole, 2)})`}${several && state.system === null ? ", mean over systems" : ""}. `,
      exploring ? "Draw around dots to list them, click one to open it." : "Point at a dot to read its caption, click to open the item.", sampled(most)),
    points.length === 0 && empty(back ? nothingPasses() : "No caption has a value of both.") || "");
}
const kindOf = (metric) => (metrics[metric].kind === "rating" ? "Human rating" : "Metric");
const averaged = (values) => (finite(values).length ? mean(finite(values)) : null);
// Means of few ratings fall on a few lines: dots beside each other are told apart by a small shift.
const spread = (metric, item) => (metrics[metric].kind === "rating" ? jitter(item) * 8 : 0);

const numberOf = (item) => (typeof item === "number" ? item : [...item].reduce((sum, letter) => (Math.imul(sum, 31) + letter.codePointAt(0)) | 0, 7));
const jitter = (item) => ((Math.imul(numberOf(item) + 1, 2654435761) >>> 0) / 2 ** 32 - 0.5) * 0.6;

function drawLengths() {
  const metric = state.metric;
  whenHere("lengths", layered((chosen) => source.lengths(metric, chosen)), (layers) => drawByLength(metric, layers));
}

function drawByLength(metric, { front, back }) {
  const { domain, size } = back || front, figure = byId("lengths"), found = front ? front.systems : systems.map(() => ({ beyond: 0, steps: [], dots: [] }));
  const { svg, place } = frame(figure, { x: { domain, title: "words in the candidate", whole: true }, y: { domain: extent(metric), title: metrics[metric].label }, label: `${metrics[metric].label} by candidate length` });
  const points = [], lines = [];
  let beyond = 0, drawn = 0;
  for (const system of considered()) {
    beyond += found[system].beyond;
    drawn = Math.max(drawn, (back?.systems || found)[system].dots.length + (back?.systems || found)[system].beyond);
    const own = found[system].dots.map(([item, words, value]) => ({ item, system, words, value, px: place.x(words + jitter(item)), py: place.y(value) }));
    svg.append(dots(own, system, true));
    points.push(...own);
    const placed = (layer) => layer.steps.map((step) => ({ ...step, px: place.x(Math.min(step.bin * size + (size - 1) / 2, domain[1])) })), steps = placed(found[system]);
    if (back) lines.push(s("polyline", { class: "behind", points: placed(back.systems[system]).filter(({ number }) => number > 2).map(({ px, center }) => `${px},${place.y(center)}`).join(" "), style: { stroke: color(system) } }));
    const firm = steps.filter(({ number }) => number > 2);
    const band = [...firm.map(({ px, high }) => `${px},${place.y(high)}`), ...firm.slice().reverse().map(({ px, low }) => `${px},${place.y(low)}`)].join(" ");
    lines.push(s("polygon", { points: band, style: { fill: color(system), opacity: state.system === null && several ? 0.08 : 0.18 } }),
      s("polyline", { points: firm.map(({ px, center }) => `${px},${place.y(center)}`).join(" "), class: "line halo" }),
      s("polyline", { points: firm.map(({ px, center }) => `${px},${place.y(center)}`).join(" "), class: "line", style: { stroke: color(system) } }),
      ...steps.map(({ px, center, number }) => s("circle", { cx: px, cy: place.y(center), r: number > 2 ? 3.5 : 2, style: { fill: number > 2 ? color(system) : "var(--paper)", stroke: color(system) }, class: "knot" })));
  }
  svg.append(...lines);
  listen(svg, points, (point) => `${plural(point.words, "word")}, ${metrics[metric].label} ${show(point.value, 3)}`);
  figure.replaceChildren(caption("Length", legend()), svg, h("p", { class: "note" }, `${oneDot(points)}Line: mean by length; band: middle half of the items; hollow: fewer than three items.${back ? " Faint: the mean of all items." : ""}${beyond ? ` ${count(beyond)} longer captions are off the chart.` : ""}${sampled(drawn)}`),
    points.length === 0 && empty(back ? nothingPasses() : "No caption has a value.") || "");
}

function drawAgreement() {
  byId("agreement").hidden = byId("scatter").hidden = metrics.length < 2;
  if (metrics.length > 1 && furtherCharts()) whenHere("agreement", layered((chosen) => source.agreement(chosen)), drawMatrix);
}
// What is folded away is not computed.
const furtherCharts = () => !exploring || byId("more-charts").open;

function drawMatrix({ front, back }) {
  const figure = byId("agreement");
  const between = (layer, row, column) => (layer ? averaged(considered().map((system) => layer[system][column][row])) : null);
  const cell = (row, column) => {
    const value = row === column ? 1 : between(front, row, column), whole = between(back, row, column);
    const chosen = (row === state.y && column === state.x) || (row === state.x && column === state.y);
    return h("td", { class: chosen ? "chosen" : null, style: { background: value === null || row === column ? "transparent" : `color-mix(in srgb, ${value < 0 ? "var(--bad)" : "var(--s0)"} ${Math.round(75 * Math.abs(value))}%, transparent)` } },
      row === column ? h("span", { class: "quiet" }, "·") : h("button", { type: "button", title: `Show ${metrics[row].label} against ${metrics[column].label}`, onclick: () => update({ x: column, y: row, lasso: null }) }, show(value, 2), whole !== null && h("small", { class: "whole" }, `all ${show(whole, 2)}`)));
  };
  const table = h("table", { class: metrics.length > 7 ? "matrix many" : "matrix" }, h("thead", {}, h("tr", {}, h("td", {}), metrics.map((metric) => h("th", { scope: "col" }, metric.label)))),
    h("tbody", {}, metrics.map((metric, row) => h("tr", {}, h("th", { scope: "row" }, metric.label), metrics.map((_, column) => cell(row, column))))));
  figure.replaceChildren(caption("Agreement between metrics"), h("div", { class: "scroll" }, table),
    h("p", { class: "note" }, `Spearman ρ between per-item values${several && state.system === null ? ", mean over systems" : ""}. Click a pair to see it as dots.`));
}

function drawCharts() {
  drawAgreement();
  drawDistribution();
  if (metrics.length > 1) drawScatter();
  if (furtherCharts()) drawLengths();
}
