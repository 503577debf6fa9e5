// The four charts: distribution, metric against metric, length, and how well metrics agree.

const withMetric = (metric, text) => `${metrics[metric].label}${text || ""}`;

function drawDistribution() {
  const figure = byId("distribution"), metric = state.metric, domain = extent(metric);
  const bins = data.ids.length < 150 ? 20 : 40, width = (domain[1] - domain[0]) / bins;
  const counts = systems.map((_, system) => {
    const tally = new Array(bins).fill(0);
    data.values[system][metric].forEach((value) => { if (value !== null) tally[clamp(Math.floor((value - domain[0]) / width + 1e-9), 0, bins - 1)] += 1; });
    return tally;
  });
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
    const values = sortedValues(system, metric);
    if (values.length) {
      const center = place.x(mean(values));
      svg.append(s("line", { class: "mean", x1: center, x2: center, y1: box.top, y2: box.bottom, style: { stroke: considered().length > 1 ? color(system) : "var(--ink)" } }));
    }
  }
  brush(svg, box, place, domain, (event, value) => {
    const bin = clamp(Math.floor((value - domain[0]) / width), 0, bins - 1);
    tell(event, h("strong", {}, `${show(domain[0] + bin * width, 3)} – ${show(domain[0] + (bin + 1) * width, 3)}`),
      considered().map((system) => h("div", {}, several && swatch(system), several && `${systems[system].name}: `, plural(counts[system][bin], "item"))));
  }, width);
  figure.replaceChildren(caption("Distribution", legend()), svg, h("p", { class: "note" }, "Dashed: mean over items. Drag across the chart to keep the items in a range, click for one bar, double-click to clear."));
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
  const figure = byId("scatter"), { x, y } = state;
  const { svg, place } = frame(figure, { x: { domain: extent(x), title: metrics[x].label }, y: { domain: extent(y), title: metrics[y].label }, label: `${metrics[y].label} against ${metrics[x].label} per item` });
  const points = [];
  for (const system of considered()) {
    const [a, b] = [data.values[system][x], data.values[system][y]];
    const own = thin(everyItem).filter((item) => a[item] !== null && b[item] !== null).map((item) => ({ item, system, px: place.x(a[item]), py: place.y(b[item]) }));
    svg.append(dots(own, system));
    points.push(...own);
  }
  const current = points.filter((point) => point.item === state.item);
  svg.append(...current.map((point) => s("circle", { cx: point.px, cy: point.py, r: 6, class: "ring" })));
  listen(svg, points, (point) => [x, y].map((metric) => `${metrics[metric].label} ${show(data.values[point.system][metric][point.item], 3)}`));
  const pick = (axis) => {
    const select = h("select", { "aria-label": `${axis} axis`, onchange: () => update({ [axis]: select.selectedIndex }) }, metrics.map((metric, place) => h("option", { selected: place === state[axis] }, metric.label)));
    return h("label", {}, `${axis} `, select);
  };
  const found = rhoShown(x, y);
  figure.replaceChildren(caption("Metric against metric", h("div", { class: "picks" }, pick("x"), pick("y"))), svg,
    h("p", { class: "note" }, found === null ? "" : `Spearman ρ = ${show(found, 2)}${several && state.system === null ? ", mean over systems" : ""}. `, `Point at a dot to read its caption, click to open the item.${sampled}`));
}

const lengthLimit = remember(() => {
  const sorted = data.lengths.flatMap(finite).sort((a, b) => a - b);
  if (!sorted.length) return [0, 1];
  const most = sorted[sorted.length - 1], usual = quantile(sorted, 0.995);
  return [Math.max(0, Math.floor(sorted[0]) - 1), Math.ceil(most > 1.5 * usual ? usual : most) + 1];
});
const jitter = (item) => ((Math.imul(item + 1, 2654435761) >>> 0) / 2 ** 32 - 0.5) * 0.6;

function drawLengths() {
  const figure = byId("lengths"), metric = state.metric, domain = lengthLimit();
  const { svg, place } = frame(figure, { x: { domain, title: "words in the candidate", whole: true }, y: { domain: extent(metric), title: metrics[metric].label }, label: `${metrics[metric].label} by candidate length` });
  const size = Math.max(1, Math.ceil((domain[1] - domain[0]) / 18)), points = [], lines = [];
  let beyond = 0;
  for (const system of considered()) {
    const [lengths, values] = [data.lengths[system], data.values[system][metric]], bins = new Map();
    for (const item of everyItem) {
      if (lengths[item] === null || values[item] === null) continue;
      if (lengths[item] > domain[1] - 1) { beyond += 1; continue; }
      const bin = Math.floor(lengths[item] / size);
      if (!bins.has(bin)) bins.set(bin, []);
      bins.get(bin).push(values[item]);
    }
    const own = thin(everyItem).filter((item) => lengths[item] !== null && values[item] !== null && lengths[item] <= domain[1] - 1)
      .map((item) => ({ item, system, px: place.x(lengths[item] + jitter(item)), py: place.y(values[item]) }));
    svg.append(dots(own, system, true));
    points.push(...own);
    const steps = [...bins].sort(([a], [b]) => a - b).map(([bin, found]) => {
      found.sort((a, b) => a - b);
      return { px: place.x(Math.min(bin * size + (size - 1) / 2, domain[1])), found, center: mean(found), low: quantile(found, 0.25), high: quantile(found, 0.75) };
    });
    const firm = steps.filter(({ found }) => found.length > 2);
    const band = [...firm.map(({ px, high }) => `${px},${place.y(high)}`), ...firm.slice().reverse().map(({ px, low }) => `${px},${place.y(low)}`)].join(" ");
    lines.push(s("polygon", { points: band, style: { fill: color(system), opacity: state.system === null && several ? 0.08 : 0.18 } }),
      s("polyline", { points: firm.map(({ px, center }) => `${px},${place.y(center)}`).join(" "), class: "line halo" }),
      s("polyline", { points: firm.map(({ px, center }) => `${px},${place.y(center)}`).join(" "), class: "line", style: { stroke: color(system) } }),
      ...steps.map(({ px, center, found }) => s("circle", { cx: px, cy: place.y(center), r: found.length > 2 ? 3.5 : 2, style: { fill: found.length > 2 ? color(system) : "var(--paper)", stroke: color(system) }, class: "knot" })));
  }
  svg.append(...lines);
  listen(svg, points, (point) => `${plural(data.lengths[point.system][point.item], "word")}, ${metrics[metric].label} ${show(data.values[point.system][metric][point.item], 3)}`);
  figure.replaceChildren(caption("Length", legend()), svg, h("p", { class: "note" }, `Line: mean by length; band: middle half of the items; hollow: fewer than three items.${beyond ? ` ${count(beyond)} longer captions are off the chart.` : ""}${sampled}`));
}

function drawAgreement() {
  const figure = byId("agreement");
  const cell = (row, column) => {
    const value = row === column ? 1 : rhoShown(column, row);
    const chosen = (row === state.y && column === state.x) || (row === state.x && column === state.y);
    return h("td", { class: chosen ? "chosen" : null, style: { background: value === null || row === column ? "transparent" : `color-mix(in srgb, ${value < 0 ? "var(--bad)" : "var(--s0)"} ${Math.round(75 * Math.abs(value))}%, transparent)` } },
      row === column ? h("span", { class: "quiet" }, "·") : h("button", { type: "button", title: `Show ${metrics[row].label} against ${metrics[column].label}`, onclick: () => update({ x: column, y: row }) }, show(value, 2)));
  };
  const table = h("table", { class: metrics.length > 7 ? "matrix many" : "matrix" }, h("thead", {}, h("tr", {}, h("td", {}), metrics.map((metric) => h("th", { scope: "col" }, metric.label)))),
    h("tbody", {}, metrics.map((metric, row) => h("tr", {}, h("th", { scope: "row" }, metric.label), metrics.map((_, column) => cell(row, column))))));
  figure.replaceChildren(caption("Agreement between metrics"), h("div", { class: "scroll" }, table),
    h("p", { class: "note" }, `Spearman ρ between per-item values${several && state.system === null ? ", mean over systems" : ""}. Click a pair to see it as dots.`));
  figure.hidden = metrics.length < 2;
  byId("scatter").hidden = metrics.length < 2;
}

function drawCharts() {
  drawAgreement();
  drawDistribution();
  if (metrics.length > 1) drawScatter();
  drawLengths();
}
