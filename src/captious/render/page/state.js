// What is being looked at: kept in the address after #, so that a view can be reopened and sent.

const PAGE = 50;
const start = () => ({
  metric: metrics.length - 1, order: "worst", system: several ? null : 0, query: "", low: null, high: null,
  unscored: false, page: 0, item: null, x: metrics.length > 1 ? metrics.length - 2 : 0, y: metrics.length - 1,
});
const state = start();
const ORDERS = ["worst", "best", "gap", "shortest", "longest", "given"];

const metricNamed = (text) => {
  const wanted = text.toLowerCase();
  const tests = [(m) => m.key === text, (m) => m.label.toLowerCase() === wanted, (m) => m.key.split("(")[0] === wanted];
  const found = tests.map((test) => metrics.findLastIndex(test)).find((place) => place >= 0);
  return found === undefined ? metrics.length - 1 : found;
};

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (![...given.keys()].some((key) => given.get(key))) return;
  Object.assign(state, start());
  const numeric = (key) => (given.get(key) && Number.isFinite(Number(given.get(key))) ? Number(given.get(key)) : null);
  if (given.get("sort")) state.metric = metricNamed(given.get("sort"));
  if (ORDERS.includes(given.get("order")) && (several || given.get("order") !== "gap")) state.order = given.get("order");
  const system = systems.findIndex(({ name }) => name === given.get("system"));
  if (system >= 0) state.system = system;
  state.query = given.get("q") || "";
  [state.low, state.high] = [numeric("min"), numeric("max")];
  state.unscored = given.get("unscored") === "1";
  state.page = Math.max(0, (numeric("page") || 1) - 1);
  if (given.get("x")) state.x = metricNamed(given.get("x"));
  if (given.get("y")) state.y = metricNamed(given.get("y"));
  const item = given.get("item") === null ? -1 : data.ids.indexOf(given.get("item"));
  if (item >= 0) state.item = item;
}

function writeAddress() {
  const first = start(), kept = new URLSearchParams();
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
  keep("item", "item", (item) => data.ids[item]);
  try {
    history.replaceState(null, "", `#${kept}`);
  } catch {
    // A viewer that forbids it only loses the address.
  }
}

const considered = () => (state.system === null ? systems.map((_, system) => system) : [state.system]);

function scoreOf(item, metric = state.metric) {
  const values = finite(considered().map((system) => data.values[system][metric][item]));
  return values.length ? mean(values) : null;
}
function gapOf(item, metric = state.metric) {
  const values = finite(data.values.map((columns) => columns[metric][item]));
  return values.length > 1 ? Math.max(...values) - Math.min(...values) : null;
}
function lengthOf(item) {
  const values = finite(considered().map((system) => data.lengths[system][item]));
  return values.length ? mean(values) : null;
}
const unscoredAnywhere = (item) =>
  considered().some((system) => metrics.some((_, metric) => data.values[system][metric][item] === null));

const haystacks = data.shown.map((item, place) =>
  [data.ids[item], ...data.candidates.flatMap((texts) => texts[place]), ...data.references[place]].join("\n").toLowerCase());

function passes(item, place, terms) {
  if (terms.some((term) => !haystacks[place].includes(term))) return false;
  if (state.unscored && !unscoredAnywhere(item)) return false;
  if (state.low === null && state.high === null) return true;
  const [low, high] = [state.low ?? -Infinity, state.high ?? Infinity];
  return considered().some((system) => {
    const value = data.values[system][state.metric][item];
    return value !== null && value >= low && value <= high;
  });
}

// The items to list, in order; those without the value that sorts them come last.
function selection() {
  const terms = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = data.shown.filter((item, place) => passes(item, place, terms));
  const better = metrics[state.metric].higher ? 1 : -1;
  const keys = {
    worst: (item) => scoreOf(item, state.metric), best: (item) => scoreOf(item, state.metric),
    gap: (item) => gapOf(item), shortest: lengthOf, longest: lengthOf, given: (item) => item,
  };
  const sign = { worst: better, best: -better, gap: -1, shortest: 1, longest: -1, given: 1 }[state.order];
  const keyed = kept.map((item) => [keys[state.order](item), item]);
  keyed.sort(([a, i], [b, j]) => (a === null) - (b === null) || (a === null ? 0 : sign * (a - b)) || i - j);
  return keyed.map(([, item]) => item);
}
