// The parts charts are made of: a frame with axes, dots drawn as one path, the nearest dot to the pointer.

function frame(figure, { x, y, label }) {
  const height = exploring ? 230 : 280, width = Math.max(300, figure.clientWidth - 34);
  const box = { left: 62, right: width - 12, top: 10, bottom: height - 42 };
  const bend = y.root ? Math.sqrt : (share) => share;
  const place = {
    x: (value) => box.left + ((value - x.domain[0]) / (x.domain[1] - x.domain[0])) * (box.right - box.left),
    y: (value) => box.bottom - bend((value - y.domain[0]) / (y.domain[1] - y.domain[0])) * (box.bottom - box.top),
  };
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "chart" });
  for (const value of y.root ? rootTicks(y.domain[1]) : ticks(y.domain, 5)) {
    svg.append(s("line", { class: "rule", x1: box.left, x2: box.right, y1: place.y(value), y2: place.y(value) }),
      s("text", { class: "tick", x: box.left - 8, y: place.y(value) + 4, "text-anchor": "end" }, y.format ? y.format(value) : tickText(value)));
  }
  for (const value of ticks(x.domain, Math.floor(width / 80), x.whole)) {
    svg.append(s("line", { class: "axis", x1: place.x(value), x2: place.x(value), y1: box.bottom, y2: box.bottom + 4 }),
      s("text", { class: "tick", x: place.x(value), y: box.bottom + 17, "text-anchor": "middle" }, tickText(value)));
  }
  const middle = (box.top + box.bottom) / 2;
  svg.append(s("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    s("text", { class: "title", x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle" }, x.title),
    s("text", { class: "title", x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, y.title));
  return { svg, box, place };
}
function ticks([low, high], parts, whole) {
  const nice = niceStep(high - low, parts), step = whole ? Math.max(1, Math.floor(nice)) : nice, first = Math.ceil(low / step - 1e-9), found = [];
  for (let place = first; place * step <= high + step * 1e-6; place += 1) found.push(place * step || 0);
  return found;
}
// On a square-root scale round numbers serve best: 1, 2 and 5 times powers of ten, as far apart as they can be read.
function rootTicks(high) {
  const found = [high];
  for (let power = 10 ** Math.floor(Math.log10(high)); power >= 1; power /= 10) {
    for (const value of [5 * power, 2 * power, power]) if (Math.sqrt(found[found.length - 1] / high) - Math.sqrt(value / high) > 0.11) found.push(value);
  }
  return [...found.filter((value) => Math.sqrt(value / high) > 0.1), 0];
}
const tickText = (value) => String(+value.toFixed(6)).replace("-", "−");

// Thousands of dots are a few paths of round, zero-length strokes: quick to make and to draw, darker where paths overlap.
function dots(points, system, small, faint) {
  const many = points.length > 800, layers = many ? 30 : 4;
  const size = (points.length > 200 ? 4 : 5) - (small ? 1 : 0) - (many ? 0.8 : 0);
  const parts = Array.from({ length: layers }, () => []);
  points.forEach(({ px, py }, place) => parts[place % layers].push(`M${px.toFixed(1)} ${py.toFixed(1)}h0`));
  return s("g", { class: faint ? "dots faint" : "dots", style: { stroke: faint ? "var(--quiet)" : color(system), "stroke-width": size, "stroke-opacity": faint ? (many ? 0.1 : 0.25) : many ? 0.28 : points.length > 200 ? 0.5 : 0.65 } },
    parts.map((part) => s("path", { d: part.join("") })));
}
// A chart has at most as many dots as its source gives; a chart with fewer leaves none out.
const sampled = (drawn) => (drawn >= source.dots && drawn < source.total ? ` ${count(drawn)} items are drawn as dots, all are counted.` : "");

function nearest(points, event, svg, reach = 14) {
  const box = svg.getBoundingClientRect(), mx = event.clientX - box.left, my = event.clientY - box.top;
  let best = null, least = reach * reach;
  for (const point of points) {
    const distance = (point.px - mx) ** 2 + (point.py - my) ** 2;
    if (distance < least) [best, least] = [point, distance];
  }
  return best;
}
function describe(point) {
  const texts = source.caption(point.system, point.item), id = source.idOf(point.item);
  const caption = texts === null ? h("div", { class: "quiet" }, "caption not on this page") : h("div", { class: "quote" }, texts === undefined ? "…" : texts.join(" / ") || "(empty)");
  return [h("div", {}, several && swatch(point.system), h("strong", {}, id), several && ` ${systems[point.system].name}`), caption];
}
// Pointing names the nearest dot, clicking opens its item.
function listen(svg, points, lines) {
  const ring = s("circle", { r: 6, class: "ring", visibility: "hidden" });
  let current = null;
  svg.append(ring);
  svg.addEventListener("pointermove", (event) => {
    const point = nearest(points, event, svg);
    current = point;
    svg.style.cursor = point ? "pointer" : "";
    ring.setAttribute("visibility", point ? "visible" : "hidden");
    if (!point) return hush();
    ring.setAttribute("cx", point.px);
    ring.setAttribute("cy", point.py);
    tell(event, describe(point), lines(point));
    return source.learn?.(point.item)?.then(() => current === point && tell(event, describe(point), lines(point)));
  });
  svg.addEventListener("pointerleave", () => { current = null; hush(); ring.setAttribute("visibility", "hidden"); });
  svg.addEventListener("click", (event) => {
    const point = nearest(points, event, svg);
    if (point) openItem(point.item);
  });
}
function legend() {
  if (!several) return null;
  return h("div", { class: "legend" }, systems.map((system, place) => h("button", {
    type: "button", class: state.system === null || state.system === place ? "key" : "key off", title: state.system === place ? "Show all systems" : `Show only ${system.name}`,
    onclick: () => update({ system: state.system === place ? null : place, page: 0 }) }, swatch(place), system.name)));
}
const caption = (title, ...rest) => h("figcaption", {}, h("h3", {}, title), ...rest);
