// Draws the charts and the items, and redraws the parts that a change touches.

const CHARTED = ["metric", "system", "x", "y", "low", "high", "lasso", ...(exploring ? ["query", "where", "unscored"] : [])];

function drawLens() {
  const parts = [segments("Metric", metrics.map((metric, place) => [place, metric.label]), state.metric, (metric) => update(changedMetric(metric)))];
  if (several) parts.push(segments("System", [[null, "all"], ...systems.map((system, place) => [place, system.name, swatch(place)])], state.system, (system) => update({ system, page: 0 })));
  byId("lens").replaceChildren(...parts);
}

// While someone types, the tools stay as they are, so that the field keeps its cursor; all that is typed is one step.
let typed = false;
function update(change, typing = false) {
  const charted = CHARTED.some((key) => key in change && change[key] !== state[key]);
  Object.assign(state, change);
  if (charted) {
    drawLens();
    drawCharts();
  }
  if (!typing) drawTools();
  if (exploring) drawQuestions();
  if (exploring && (charted || "order" in change || "better" in change || "worse" in change)) drawSummary();
  const drawn = drawItems();
  writeAddress(!(typing && typed));
  typed = typing;
  return drawn;
}

function keys(event) {
  const typing = document.activeElement?.matches("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && typing) return document.activeElement.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const acts = {
    "/": () => { byId("search").focus(); byId("items").scrollIntoView(); }, j: () => step(1), k: () => step(-1),
    w: () => update({ order: "worst", page: 0 }), ...(exploring ? { ...EXPLORER_KEYS, ...clipKeys() } : {}),
  };
  if (!acts[event.key]) return undefined;
  event.preventDefault();
  return acts[event.key]();
}

function redraw() {
  if (exploring) drawQuestions();
  drawLens();
  drawCharts();
  drawTools();
  if (exploring) drawSummary();
  return drawItems();
}
// An address may name an item; where it stands is known when the items are listed.
function openNamed(drawn) {
  const item = state.item;
  if (item !== null) return drawn instanceof Promise ? drawn.then(() => openItem(item)) : openItem(item);
  return undefined;
}

// A link of a table, such as #sort=cider&unscored=1, opens the items that it names; so do Back and Forward.
function follow() {
  if (!exploring && (!location.hash.includes("=") || openedKey() !== null)) return;
  readAddress();
  if (exploring && fullItem === null && byId("full").open) byId("full").close();
  openNamed(redraw());
  if (!exploring && state.item === null) byId(location.hash.includes("unscored=") ? "items" : "lens").scrollIntoView();
}

readAddress();
openNamed(redraw());
byId("worst-captions")?.addEventListener("click", () => { update({ order: "worst", ...UNFILTERED, page: 0 }); byId("items").scrollIntoView(); });
byId("search").closest("main").addEventListener("focusout", (event) => event.target.id === "search" && drawTools());
addEventListener("keydown", keys);
addEventListener("hashchange", follow);
let width = innerWidth, waiting = 0;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => { if (width !== innerWidth) { width = innerWidth; drawCharts(); } }, 120); });
