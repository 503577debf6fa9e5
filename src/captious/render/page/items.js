// The items: worst first, searched, filtered, a page at a time.

const WORD = /[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*/gu;
const wordsOf = (texts) => new Set(texts.flatMap((text) => text.toLowerCase().match(WORD) || []));
let listed = [];

// The candidate with its words marked as found in the references or not.
function marked(text, known) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(WORD)) {
    parts.push(text.slice(last, match.index), known.size ? h("span", { class: known.has(match[0].toLowerCase()) ? "hit" : "miss" }, match[0]) : match[0]);
    last = match.index + match[0].length;
  }
  parts.push(text.slice(last));
  return text.trim() ? parts.filter((part) => part !== "") : [h("span", { class: "quiet" }, "(empty caption)")];
}

function scoreCell(system, metric, item) {
  const value = data.values[system][metric][item], { label, higher } = metrics[metric];
  const name = h("span", { class: "label" }, label), chosen = metric === state.metric ? " chosen" : "";
  if (value === null) {
    return h("span", { class: `score missing${chosen}`, title: `${label}: not scored, ${data.reasons[system][metric][data.ids[item]] || "not among this system's items"}` }, name, h("b", {}, "—"), h("i", {}));
  }
  const [low, high] = extent(metric), sorted = sortedValues(system, metric);
  const share = Math.round((100 * countBelow(sorted, value)) / sorted.length);
  return h("span", { class: `score${chosen}`, title: `${label} ${show(value)}: above ${share} % of the items (${higher ? "higher" : "lower"} is better)` },
    name, h("b", {}, show(value, 3)), h("i", {}, h("i", { style: { width: `${(100 * clamp((value - low) / (high - low), 0, 1)).toFixed(1)}%`, background: color(system) } })));
}

function systemRow(system, item, place, known) {
  const texts = data.candidates[system][place];
  const reasons = new Map();
  metrics.forEach((metric, m) => {
    const reason = data.reasons[system][m][data.ids[item]];
    if (reason) reasons.set(reason, [...(reasons.get(reason) || []), metric.label]);
  });
  const spoken = texts.length ? texts.map((text) => h("p", { class: "candidate" }, marked(text, known))) : h("p", { class: "candidate quiet" }, "(no caption)");
  return h("div", { class: state.system === null || state.system === system ? "said" : "said other" },
    several && h("div", { class: "who" }, swatch(system), systems[system].name),
    h("div", { class: "spoken" }, spoken, [...reasons].map(([reason, labels]) => h("p", { class: "reason" }, `not scored by ${labels.join(", ")}: ${reason}`))),
    h("div", { class: metrics.length > 8 ? "values many" : "values", style: { "--columns": Math.min(metrics.length, 8) } }, metrics.map((_, metric) => scoreCell(system, metric, item))),
    explanations(system, item));
}

function references(texts) {
  if (!texts.length) return h("p", { class: "quiet" }, "no references");
  const few = texts.length > 6 ? 5 : texts.length;
  const list = h("ul", { class: "references" }, texts.slice(0, few).map((text) => h("li", {}, text)));
  if (texts.length === few) return list;
  const more = h("button", { type: "button", class: "link", onclick: () => { more.remove(); list.append(...texts.slice(few).map((text) => h("li", {}, text))); } }, `${texts.length - few} more`);
  return h("div", {}, list, more);
}

function card(item, rank) {
  const place = shownAt.get(item), known = wordsOf(data.references[place]), picture = data.pictures[place];
  const gap = several ? gapOf(item) : null, words = considered().map((system) => data.lengths[system][item]).filter((length) => length !== null);
  const facts = [several ? null : words.length && plural(words[0], "word"), gap !== null && `${metrics[state.metric].label} differs by ${show(gap, 3)}`].filter(Boolean);
  const fields = Object.entries(data.fields[place]).map(([name, value]) => h("span", { class: "field", title: name }, h("span", { class: "quiet" }, `${name} `), value));
  return h("article", { class: item === state.item ? "card current" : "card", "data-id": data.ids[item], "data-item": item, onclick: () => mark(item) },
    picture !== null && h("img", { src: images[picture], alt: "", decoding: "async" }),
    h("div", { class: "body" }, h("header", {}, h("span", { class: "rank" }, count(rank)), h("code", {}, data.ids[item]), h("span", { class: "quiet" }, facts.join(" · ")), fields),
      systems.map((_, system) => systemRow(system, item, place, known)), references(data.references[place])));
}

const orderNames = () => [["worst", "Worst first"], ["best", "Best first"], ...(several ? [["gap", "Largest difference"]] : []), ["shortest", "Shortest"], ["longest", "Longest"], ["given", "As given"]];

function drawTools() {
  const typed = (name, value, placeholder, change) => h("input", { type: "number", step: "any", "aria-label": name, placeholder, value: value ?? "", onchange: change });
  const number = (event) => (event.target.value === "" || !Number.isFinite(+event.target.value) ? null : +event.target.value);
  const search = h("input", { type: "search", id: "search", placeholder: "Search id, caption, references   /", value: state.query, "aria-label": "Search items", oninput: (event) => update({ query: event.target.value, page: 0 }, true) });
  const select = h("select", { "aria-label": "Metric to sort by", onchange: () => update({ metric: select.selectedIndex, low: null, high: null, page: 0 }) }, metrics.map((metric, place) => h("option", { selected: place === state.metric }, metric.label)));
  const unscored = data.shown.filter(unscoredAnywhere).length;
  byId("item-tools").replaceChildren(search,
    h("div", { class: "segments", role: "group", "aria-label": "Order" }, orderNames().map(([order, text]) => h("button", { type: "button", "data-order": order, "aria-pressed": String(order === state.order), onclick: () => update({ order, page: 0 }) }, text))),
    h("label", {}, "by ", select),
    h("span", { class: "between" }, typed("Lowest score", state.low, "min", (event) => update({ low: number(event), page: 0 })), " – ", typed("Highest score", state.high, "max", (event) => update({ high: number(event), page: 0 }))),
    unscored || state.unscored ? h("button", { type: "button", class: "toggle", "aria-pressed": String(state.unscored), onclick: () => update({ unscored: !state.unscored, page: 0 }) }, `Unscored (${count(unscored)})`) : "",
    state.query || state.low !== null || state.high !== null || state.unscored ? h("button", { type: "button", class: "link", onclick: () => update({ query: "", low: null, high: null, unscored: false, page: 0 }) }, "Clear filters") : "");
}

function ordering() {
  const { label } = metrics[state.metric];
  return { worst: `worst ${label} first`, best: `best ${label} first`, gap: `largest difference in ${label} first`, shortest: "shortest first", longest: "longest first", given: "in the order given" }[state.order];
}

function drawItems() {
  listed = selection();
  const pages = Math.max(1, Math.ceil(listed.length / PAGE));
  state.page = clamp(state.page, 0, pages - 1);
  const first = state.page * PAGE;
  byId("item-list").replaceChildren(...listed.slice(first, first + PAGE).map((item, place) => card(item, first + place + 1)));
  const whose = several && state.order !== "gap" && state.order !== "given" ? (state.system === null ? " (mean over systems)" : ` (${systems[state.system].name})`) : "";
  const limited = data.shown.length < data.ids.length ? `Captions of ${count(data.shown.length)} of ${count(data.ids.length)} items are on this page: the worst and the best by every metric, and a random remainder. Tables and charts show all items. ` : "";
  const unread = data.unreadable ? `${plural(data.unreadable, "image")} could not be read. ` : "";
  byId("item-note").replaceChildren(limited, unread, `${plural(listed.length, "item")}${listed.length < data.shown.length ? ` of ${count(data.shown.length)}` : ""}, ${ordering()}${whose}. `,
    "Words ", h("span", { class: "hit" }, "found"), " and ", h("span", { class: "miss" }, "not found"), " in the references are marked. ",
    data.graphs.filter(({ whole }) => !whole).map(({ metric, drawn }) => `The ${count(Object.keys(drawn[0]).length)} worst items by ${metrics[metric].label} show why they have their score. `).join(""),
    h("span", { class: "keys" }, "Keys: ", h("kbd", {}, "/"), " search, ", h("kbd", {}, "j"), " ", h("kbd", {}, "k"), " next and previous, ", h("kbd", {}, "w"), " worst first."));
  const turn = (page, text) => h("button", { type: "button", disabled: page < 0 || page >= pages, onclick: () => { update({ page }); byId("items").scrollIntoView(); } }, text);
  byId("pager").replaceChildren(...(pages > 1 ? [turn(0, "« First"), turn(state.page - 1, "‹ Previous"), h("span", {}, `Page ${count(state.page + 1)} of ${count(pages)}`), turn(state.page + 1, "Next ›"), turn(pages - 1, "Last »")] : []));
}

function mark(item) {
  state.item = item;
  document.querySelectorAll(".card").forEach((element) => element.classList.toggle("current", Number(element.dataset.item) === item));
  writeAddress();
}
// Brings an item into view, from a chart or a key, giving up the filters that hide it.
function openItem(item) {
  if (!shownAt.has(item)) return;
  const cleared = listed.includes(item) ? {} : { query: "", low: null, high: null, unscored: false };
  if (Object.keys(cleared).length) update(cleared);
  const page = Math.floor(listed.indexOf(item) / PAGE);
  if (page !== state.page) update({ page });
  mark(item);
  const opened = document.querySelector(`.card[data-item="${item}"]`);
  opened?.querySelectorAll(".why").forEach((element) => (element.open = true));
  opened?.scrollIntoView({ block: "center" });
}
function step(by) {
  const at = listed.indexOf(state.item);
  const next = at < 0 ? state.page * PAGE : clamp(at + by, 0, listed.length - 1);
  if (listed.length) openItem(listed[next]);
}
