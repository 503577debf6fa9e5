// Draws the page, and redraws the parts a change touches.

const CHARTED = ["metric", "system", "x", "y", "low", "high"];

function drawLens() {
  const change = (metric) => update({ metric, low: null, high: null, page: 0 });
  const parts = [segments("Metric", metrics.map((metric, place) => [place, metric.label]), state.metric, change)];
  if (several) parts.push(segments("System", [[null, "all"], ...systems.map((system, place) => [place, system.name, swatch(place)])], state.system, (system) => update({ system, page: 0 })));
  byId("lens").replaceChildren(...parts);
}

// While someone types, the tools stay as they are, so that the field keeps its cursor.
function update(change, typing = false) {
  const charted = CHARTED.some((key) => key in change && change[key] !== state[key]);
  Object.assign(state, change);
  if (charted) {
    drawLens();
    drawCharts();
  }
  if (!typing) drawTools();
  drawItems();
  writeAddress();
}

function drawFooter() {
  const signatures = systems.map((system, place) => h("div", {}, several && h("h4", {}, swatch(place), system.name),
    h("ul", {}, system.metrics.map((found) => h("li", {}, copyButton(found.signature, `Copy the signature of ${found.label}`), h("code", {}, found.signature))))));
  const citations = [...new Set(metrics.map((metric) => metric.citation).filter(Boolean))];
  const all = systems.flatMap((system) => system.metrics.map((found) => `${several ? `${system.name}\t` : ""}${found.label}\t${show(found.value)}\t${found.signature}`)).join("\n");
  byId("footer").append(h("div", { class: "inner" },
    h("p", {}, "Made by ", h("strong", {}, `captious ${data.captious}`), ". Per-item values are rounded to six decimals here; the run's JSONL and Parquet files hold them in full."),
    data.unreadable ? h("p", {}, `${plural(data.unreadable, "image")} could not be read and ${data.unreadable === 1 ? "is" : "are"} not shown.`) : null,
    h("details", {}, h("summary", {}, "Signatures of all numbers"), h("p", {}, copyButton(all, "Copy all values and signatures"), " copy all values with their signatures"), signatures),
    h("details", { open: true }, h("summary", {}, "How to cite"), h("p", {}, "Give the value, its interval and its signature; name captious with its version, and cite the metrics themselves:"), h("ul", {}, citations.map((text) => h("li", {}, text))))));
}

function keys(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName || "");
  if (event.key === "Escape" && typing) return document.activeElement.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const acts = {
    "/": () => { byId("search").focus(); byId("items").scrollIntoView(); }, j: () => step(1), k: () => step(-1),
    w: () => update({ order: "worst", page: 0 }),
  };
  if (!acts[event.key]) return undefined;
  event.preventDefault();
  return acts[event.key]();
}

function redraw() {
  drawLens();
  drawCharts();
  drawTools();
  drawItems();
}

readAddress();
drawHeader();
drawScores();
drawDifferences();
drawFooter();
const opened = state.item;
redraw();
if (opened !== null) openItem(opened);
byId("worst-captions").addEventListener("click", () => { update({ order: "worst", query: "", low: null, high: null, unscored: false, page: 0 }); byId("items").scrollIntoView(); });
byId("search").closest("main").addEventListener("focusout", (event) => event.target.id === "search" && drawTools());
addEventListener("keydown", keys);
addEventListener("hashchange", () => { if (location.hash.includes("=")) { readAddress(); redraw(); if (state.item !== null) openItem(state.item); } });
let width = innerWidth, waiting = 0;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => { if (width !== innerWidth) { width = innerWidth; drawCharts(); } }, 120); });
