// The four charts: distribution, metric against metric, length, and how well metrics agree.

const withMetric = (metric, text) => `${metrics[metric].label}${text || ""}`;

function drawDistribution() {
  const metric = state.metric, domain = extent(metric), bins = source.total < 150 ? 20 : 40;
  whenHere("distribution", source.distribution(metric, domain, bins), (found) => drawBars(metric, domain, bins, found));
}

function drawBars(metric, domain, bins, found) {
  const figure = byId("distribution"), width = (domain[1] - domain[0]) / bins, counts = found.map((one) => one.counts);
  const top = Math.max(1, ...considered().flatMap((system) => counts[system]));
  const step = Math.max(1, niceStep(top, 5));
  // One crowded bar, often that of zero, would flatten all the others.
  const tall = considered().flatMap((system) => counts[system]).filter(Boolean).sort((a, b) => a - b);
  const root = top > 20 && top > 6 * quantile(tall, 0.8);
  const { svg, box, place } = frame(figure, {
    x: { domain, title: withMetric(metric, several ? "" : " per item") }, y: { domain: [0, Math.ceil(top / step) * step], title: root ? "items (square-root scale)" : "items", root, format: (value) => (Number.isInteger(value) ? count(value) : "") },
    label: `Distribution of ${metrics[metric].label} over items`,
  });
  for (const system of considered()) {
    if (several && state.system === null) {
      const edge = counts[system].map((number, bin) => `H${place.x(domain[0] + bin * width).toFixed(1)}V${place.y(number).toFixed(1)}`).join("");
      const d = `M${box.left} ${box.bottom}${edge}H${box.right}V${box.bottom}`;
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
  figure.replaceChildren(caption("Distribution", legend()), svg, h("p", { class: "note" }, "Dashed: mean. Drag to keep a range, click for one bar, double-click to clear."));
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
  svg.addEventListener("pointerdown", (event) => { from = valueAt(event); svg.setPointerCapture(event.pointerId); event.preventDefault(); });
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
  whenHere("scatter", source.points(x, y), (found) => drawPoints(x, y, found));
}

function drawPoints(x, y, found) {
  const figure = byId("scatter");
  const { svg, box, place } = frame(figure, { x: { domain: extent(x), title: metrics[x].label }, y: { domain: extent(y), title: metrics[y].label }, label: `${metrics[y].label} against ${metrics[x].label} per item` });
  const points = considered().flatMap((system) => {
    const own = found[system].dots.map(([item, a, b]) => ({ item, system, a, b, px: place.x(a), py: place.y(b) + spread(y, item) }));
    svg.append(dots(own, system));
    return own;
  });
  const current = points.filter((point) => point.item === state.item);
  svg.append(...current.map((point) => s("circle", { cx: point.px, cy: point.py, r: 6, class: "ring" })));
  listen(svg, points, (point) => [[x, point.a], [y, point.b]].map(([metric, value]) => `${metrics[metric].label} ${show(value, 3)}`));
  if (exploring) lasso(svg, box, { x: extent(x), y: extent(y) });
  const pick = (axis) => {
    const select = h("select", { "aria-label": `${axis} axis`, onchange: () => update({ [axis]: select.selectedIndex, lasso: null, page: 0 }) }, metrics.map((metric, place) => h("option", { selected: place === state[axis] }, metric.label)));
    return h("label", {}, `${axis} `, select);
  };
  const agreement = averaged(considered().map((system) => found[system].rho)), drawn = Math.max(...found.map((one) => one.dots.length));
  figure.replaceChildren(caption(`${kindOf(x)} against ${kindOf(y).toLowerCase()}`, h("div", { class: "picks" }, pick("x"), pick("y"))), svg,
    h("p", { class: "note" }, agreement === null ? "" : `Spearman ρ = ${show(agreement, 2)}${several && state.system === null ? ", mean over systems" : ""}. `,
      exploring ? "Draw around dots to list them, click one to open it." : "Point at a dot to read its caption, click to open the item.", sampled(drawn)));
}
const kindOf = (metric) => (metrics[metric].kind === "rating" ? "Human rating" : "Metric");
const averaged = (values) => (finite(values).length ? mean(finite(values)) : null);
// Means of few ratings fall on a few lines: dots beside each other are told apart by a small shift.
const spread = (metric, item) => (metrics[metric].kind === "rating" ? jitter(item) * 8 : 0);

const numberOf = (item) => (typeof item === "number" ? item : [...item].reduce((sum, letter) => (Math.imul(sum, 31) + letter.codePointAt(0)) | 0, 7));
const jitter = (item) => ((Math.imul(numberOf(item) + 1, 2654435761) >>> 0) / 2 ** 32 - 0.5) * 0.6;

function drawLengths() {
  const metric = state.metric;
  whenHere("lengths", source.lengths(metric), (found) => drawByLength(metric, found));
}

function drawByLength(metric, { domain, size, systems: found }) {
  const figure = byId("lengths");
  const { svg, place } = frame(figure, { x: { domain, title: "words in the candidate", whole: true }, y: { domain: extent(metric), title: metrics[metric].label }, label: `${metrics[metric].label} by candidate length` });
  const points = [], lines = [];
  let beyond = 0, drawn = 0;
  for (const system of considered()) {
    beyond += found[system].beyond;
    drawn = Math.max(drawn, found[system].dots.length + found[system].beyond);
    const own = found[system].dots.map(([item, words, value]) => ({ item, system, words, value, px: place.x(words + jitter(item)), py: place.y(value) }));
    svg.append(dots(own, system, true));
    points.push(...own);
    const steps = found[system].steps.map((step) => ({ ...step, px: place.x(Math.min(step.bin * size + (size - 1) / 2, domain[1])) }));
    const firm = steps.filter(({ number }) => number > 2);
    const band = [...firm.map(({ px, high }) => `${px},${place.y(high)}`), ...firm.slice().reverse().map(({ px, low }) => `${px},${place.y(low)}`)].join(" ");
    lines.push(s("polygon", { points: band, style: { fill: color(system), opacity: state.system === null && several ? 0.08 : 0.18 } }),
      s("polyline", { points: firm.map(({ px, center }) => `${px},${place.y(center)}`).join(" "), class: "line halo" }),
      s("polyline", { points: firm.map(({ px, center }) => `${px},${place.y(center)}`).join(" "), class: "line", style: { stroke: color(system) } }),
      ...steps.map(({ px, center, number }) => s("circle", { cx: px, cy: place.y(center), r: number > 2 ? 3.5 : 2, style: { fill: number > 2 ? color(system) : "var(--paper)", stroke: color(system) }, class: "knot" })));
  }
  svg.append(...lines);
  listen(svg, points, (point) => `${plural(point.words, "word")}, ${metrics[metric].label} ${show(point.value, 3)}`);
  figure.replaceChildren(caption("Length", legend()), svg, h("p", { class: "note" }, `Line: mean by length; band: middle half of the items; hollow: fewer than three items.${beyond ? ` ${count(beyond)} longer captions are off the chart.` : ""}${sampled(drawn)}`));
}

function drawAgreement() {
  byId("agreement").hidden = byId("scatter").hidden = metrics.length < 2;
  if (metrics.length > 1) whenHere("agreement", source.agreement(), drawMatrix);
}

function drawMatrix(found) {
  const figure = byId("agreement");
  const cell = (row, column) => {
    const value = row === column ? 1 : averaged(considered().map((system) => found[system][column][row]));
    const chosen = (row === state.y && column === state.x) || (row === state.x && column === state.y);
    return h("td", { class: chosen ? "chosen" : null, style: { background: value === null || row === column ? "transparent" : `color-mix(in srgb, ${value < 0 ? "var(--bad)" : "var(--s0)"} ${Math.round(75 * Math.abs(value))}%, transparent)` } },
      row === column ? h("span", { class: "quiet" }, "·") : h("button", { type: "button", title: `Show ${metrics[row].label} against ${metrics[column].label}`, onclick: () => update({ x: column, y: row, lasso: null }) }, show(value, 2)));
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
  drawLengths();
}
