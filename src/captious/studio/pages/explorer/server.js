// The source of a page with a server behind it: the page asks for what it shows, and for no more.

const told = JSON.parse(byId("about").textContent);
const language = told.language || null;
const { systems, metrics } = told;
const several = systems.length > 1;

async function ask(path, parameters = {}, body = undefined) {
  const query = new URLSearchParams(parameters).toString();
  const sending = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Form-Token": told.token } };
  const answer = await fetch(query ? `${path}?${query}` : path, { ...sending, headers: { Accept: "application/json", ...sending.headers } })
    .catch(() => { throw new Error("The server does not respond. Is it still running?"); });
  const content = await answer.json().catch(() => ({ error: `The server answered ${answer.status}.` }));
  if (!answer.ok) throw new Error(content.error);
  return content;
}
// What does not change is asked for once; an answer that failed is asked for again.
const askOnce = (() => {
  const known = new Map();
  return (path, parameters = {}) => {
    const name = `${path}?${new URLSearchParams(parameters)}`;
    if (!known.has(name)) known.set(name, ask(path, parameters).catch((error) => { known.delete(name); throw error; }));
    return known.get(name);
  };
})();

const captionsOf = new Map();
const keyOf = (metric) => metrics[metric].key;
const view = () => {
  const words = address();
  for (const word of ["page", "item", "layout", "pick"]) words.delete(word);
  return Object.fromEntries(words);
};
// A chart of all captions is asked for once; one of those that pass has the words of the view.
const chart = (path, words, chosen) => (chosen ? ask(path, { ...view(), ...words }) : askOnce(path, words));

const source = {
  total: told.total, listable: told.total, unreadable: 0, explanations: [], rated: told.rated, dots: told.dots, server: true,
  idOf: (item) => item,
  itemOf: (id) => id,
  bounds: (metric) => metrics[metric].bounds,
  distribution: (metric, domain, bins, chosen) => chart("api/distribution", { score: keyOf(metric), low: domain[0], high: domain[1], bins }, chosen),
  points: (x, y, chosen) => chart("api/points", { x: keyOf(x), y: keyOf(y) }, chosen),
  agreement: (chosen) => chart("api/agreement", {}, chosen),
  lengths: (metric, chosen) => chart("api/lengths", { score: keyOf(metric) }, chosen),
  summary: () => ask("api/summary", view()),
  unscored: () => (state.system === null ? told.unscored.all : told.unscored.systems[state.system]),
  list: (first, number) => ask("api/list", { ...view(), first, number }).then((found) => {
    for (const { item, systems: own } of found.records) captionsOf.set(item, own.map(({ texts }) => texts));
    return found;
  }),
  place: (item) => ask("api/place", { ...view(), id: item }).then(({ place }) => place),
  openable: () => true,
  caption: (system, item) => captionsOf.get(item)?.[system],
  learn: (item) => (captionsOf.has(item) ? null : askOnce("api/captions", { id: item }).then(({ captions }) => captionsOf.set(item, captions))),
  item: (item) => ask("api/item", { id: item }),
  meteor: (item) => askOnce("api/meteor", { id: item }),
  times: (item) => askOnce("api/times", { id: item }),
  explain: (system, metric, item) => askOnce("api/explain", { system: systems[system].name, score: keyOf(metric), id: item }),
};
