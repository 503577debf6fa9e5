// What is being looked at: kept in the address after #, so that a view can be reopened and sent.

const PAGE = 50;
// What people said stands behind the metrics, and is not what is judged.
const lastMetric = () => metrics.findLastIndex(({ kind }) => kind !== "rating");
// Two metrics against each other, or the metric that sorts against what people said.
function firstPair(metric) {
  const human = metrics.findIndex(({ kind }) => kind === "rating");
  if (human < 0) return { x: Math.max(0, metrics.length - 2), y: metrics.length - 1 };
  return { x: metrics[metric].kind === "rating" ? lastMetric() : metric, y: human };
}
const start = (metric = lastMetric()) => ({
  metric, order: "worst", system: several ? null : 0, query: "", low: null, high: null,
  unscored: false, page: 0, item: null, ...firstPair(metric),
  where: "", lasso: null, better: 0, worse: several ? 1 : 0, layout: "cards",
});
const state = start();
const ORDERS = ["worst", "best", "gap", "between", "disagree", "raters", "shortest", "longest", "given"];
const LAYOUTS = ["cards", "grid", "pair"];
// Orders that need a second system, a second metric, or raters.
const possible = (order) => (several || !["gap", "between"].includes(order)) && (metrics.length > 1 || order !== "disagree") && (source.rated || order !== "raters");

// Another metric has another range; a chart of the metric against people shows the new one.
function changedMetric(metric) {
  const follows = exploring && state.x === state.metric && metrics[state.y].kind === "rating" && metrics[metric].kind !== "rating";
  return { metric, low: null, high: null, page: 0, ...(follows ? { x: metric, lasso: null } : {}) };
}

const metricNamed = (text) => {
  const wanted = text.toLowerCase();
  const tests = [(m) => m.key === text, (m) => m.label.toLowerCase() === wanted, (m) => m.key.split("(")[0] === wanted];
  const found = tests.map((test) => metrics.findLastIndex(test)).find((place) => place >= 0);
  return found === undefined ? metrics.length - 1 : found;
};

// The address of the view that is shown, as `address` writes it.
let written = "";
function readAddress() {
  readView(new URLSearchParams(location.hash.slice(1)));
  if (exploring) fullItem = state.item;
  written = `${address()}`;
}
function readView(given) {
  if (exploring) Object.assign(state, start());
  if (![...given.keys()].some((key) => given.get(key))) return;
  Object.assign(state, start(given.get("sort") ? metricNamed(given.get("sort")) : undefined));
  const numeric = (key) => (given.get(key) && Number.isFinite(Number(given.get(key))) ? Number(given.get(key)) : null);
  if (ORDERS.includes(given.get("order")) && possible(given.get("order"))) state.order = given.get("order");
  for (const key of ["system", "better", "worse"]) {
    const system = systems.findIndex(({ name }) => name === given.get(key));
    if (system >= 0) state[key] = system;
  }
  state.query = given.get("q") || "";
  [state.low, state.high] = [numeric("min"), numeric("max")];
  state.unscored = given.get("unscored") === "1";
  state.page = Math.max(0, (numeric("page") || 1) - 1);
  if (given.get("x")) state.x = metricNamed(given.get("x"));
  if (given.get("y")) state.y = metricNamed(given.get("y"));
  state.where = given.get("where") || "";
  const corners = (given.get("lasso") || "").split(";").map((corner) => corner.split(",").map(Number));
  if (corners.length > 2 && corners.every((corner) => corner.length === 2 && corner.every(Number.isFinite))) state.lasso = corners;
  if (LAYOUTS.includes(given.get("layout"))) state.layout = given.get("layout");
  state.item = given.get("item") === null ? null : source.itemOf(given.get("item"));
  if (exploring) readChosen(given);
}

// The view as an address has it; a server reads the same words.
function address() {
  const first = start(state.metric), kept = new URLSearchParams();
  const keep = (key, name, text) => state[key] !== first[key] && kept.set(name, text(state[key]));
  kept.set("sort", metrics[state.metric].key);
  kept.set("order", state.order);
  keep("system", "system", (system) => systems[system].name);
  keep("query", "q", String);
  keep("low", "min", String);
  keep("high", "max", String);
  keep("unscored", "unscored", () => "1");
  keep("page", "page", (page) => page + 1);
  keep("x", "x", (metric) => metrics[metric].key);
  keep("y", "y", (metric) => metrics[metric].key);
  keep("where", "where", String);
  keep("lasso", "lasso", (corners) => corners.map((corner) => corner.join(",")).join(";"));
  keep("better", "better", (system) => systems[system].name);
  keep("worse", "worse", (system) => systems[system].name);
  keep("layout", "layout", String);
  // An explorer opens the item of its address; a card that is only marked is not in it.
  const item = exploring ? fullItem : state.item;
  if (item !== null) kept.set("item", source.idOf(item));
  if (exploring) writeChosen(kept);
  return kept;
}

// What was clicked is a step for Back and Forward; what only moves within a view takes the place of its address.
function writeAddress(step = false) {
  const now = `${address()}`;
  if (now === written) return;
  written = now;
  try {
    history[step && exploring ? "pushState" : "replaceState"](null, "", `#${now}`);
  } catch {
    // A viewer that forbids it only loses the address.
  }
}

const considered = () => (state.system === null ? systems.map((_, system) => system) : [state.system]);
const extent = remember((metric) => {
  const ends = source.bounds(metric), [least, most] = ends || [0, 1];
  // Ratings are on a scale of their own, metrics begin at 0.
  let [low, high] = metrics[metric].kind === "rating" ? [least, most] : [Math.min(0, least), most];
  if (high <= low) high = low + 1;
  const top = metrics[metric].range[1];
  if (top !== null && top <= 1 && high <= top && high > top / 2) return [low, top];
  const step = niceStep(high - low, 8);
  return [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
});
