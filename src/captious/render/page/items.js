// The items: worst first, searched, filtered, a page at a time.

// A word between spaces with the marks of its letters; where a script has no spaces, one letter.
const ALONE = "[\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}\\p{sc=Tibetan}]";
const LETTERS = `(?:(?!${ALONE})[\\p{L}\\p{N}]\\p{M}*)+`;
const WORD = new RegExp(`${ALONE}\\p{M}*|${LETTERS}(?:['’-]${LETTERS})*`, "gu");
const wordsOf = (texts) => new Set(texts.flatMap((text) => text.toLowerCase().match(WORD) || []));
let listed = { total: 0, first: 0, records: [] };
// Items on paper; page.css hides the others.
const PRINTED = 10;

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

function scoreCell(system, metric, { values, shares, reasons }) {
  const value = values[metric], { label, higher } = metrics[metric];
  const name = h("span", { class: "label" }, label), chosen = metric === state.metric ? " chosen" : "";
  if (value === null) {
    const why = metrics[metric].kind === "rating" ? "nobody rated it" : `not scored, ${reasons[metric] || "not among this system's items"}`;
    return h("span", { class: `score missing${chosen}`, title: `${label}: ${why}` }, name, h("b", {}, "—"), h("i", {}));
  }
  const [low, high] = extent(metric);
  return h("span", { class: `score${chosen}`, title: `${label} ${show(value)}: above ${Math.round(shares[metric])} % of the items (${higher ? "higher" : "lower"} is better)` },
    name, h("b", {}, show(value, 3)), h("i", {}, h("i", { style: { width: `${(100 * clamp((value - low) / (high - low), 0, 1)).toFixed(1)}%`, background: color(system) } })));
}

const spokenBy = ({ texts }, known) => (texts.length ? texts.map((text) => h("p", { class: "candidate", dir: "auto", lang: language }, marked(text, known))) : h("p", { class: "candidate quiet" }, "(no caption)"));

function systemRow(system, own, known) {
  const reasons = new Map();
  metrics.forEach((metric, m) => {
    const reason = own.reasons[m];
    if (reason) reasons.set(reason, [...(reasons.get(reason) || []), metric.label]);
  });
  return h("div", { class: (state.system === null || state.system === system) && own.passes !== false ? "said" : "said other" },
    several && h("div", { class: "who" }, swatch(system), systems[system].name),
    h("div", { class: "spoken" }, spokenBy(own, known), [...reasons].map(([reason, labels]) => h("p", { class: "reason" }, `not scored by ${labels.join(", ")}: ${reason}`))),
    h("div", { class: metrics.length > 8 ? "values many" : "values", style: { "--columns": Math.min(metrics.length, 8) } }, metrics.map((_, metric) => scoreCell(system, metric, own))),
    explanations(own));
}

function references(texts) {
  if (!texts.length) return h("p", { class: "quiet" }, "no references");
  const few = texts.length > 6 ? 5 : texts.length;
  const list = h("ul", { class: "references" }, texts.slice(0, few).map((text) => h("li", { dir: "auto", lang: language }, text)));
  if (texts.length === few) return list;
  const more = h("button", { type: "button", class: "link", onclick: () => { more.remove(); list.append(...texts.slice(few).map((text) => h("li", { dir: "auto", lang: language }, text))); } }, `${texts.length - few} more`);
  return h("div", {}, list, more);
}

function factsOf(record) {
  const scored = finite(record.systems.map(({ values }) => values[state.metric]));
  const words = considered().map((system) => record.systems[system].words).filter((length) => length !== null);
  const facts = [several ? null : words.length && plural(words[0], "word"), exploring && sortedBy(record), state.order !== "between" && scored.length > 1 && `${metrics[state.metric].label} differs by ${show(Math.max(...scored) - Math.min(...scored), 3)}`].filter(Boolean);
  const fields = Object.entries(record.fields).map(([name, value]) => h("span", { class: "field", title: name }, h("span", { class: "quiet" }, `${name} `), value));
  return [h("span", { class: "quiet" }, facts.join(" · ")), fields];
}
const attributesOf = ({ item, id }, name) => ({ class: item === state.item ? `${name} current` : name, "data-id": id, "data-item": item, onclick: () => mark(item) });

function card(record, rank) {
  const known = wordsOf(record.references);
  return h("article", attributesOf(record, "card"),
    exploring ? picture(record) || clip(record) : record.picture !== null && h("img", { src: record.picture, alt: "", decoding: "async" }),
    h("div", { class: "body" }, h("header", {}, h("span", { class: "rank" }, count(rank)), h("code", {}, record.id), factsOf(record), exploring && fullButton(record)),
      exploring && sound(record), record.systems.map((own, system) => systemRow(system, own, known)), references(record.references)));
}

const ORDER_NAMES = {
  worst: "Worst first", best: "Best first", gap: "Largest difference", between: "One right, one wrong", disagree: "Metrics disagree", raters: "Raters disagree",
  shortest: "Shortest", longest: "Longest", given: "As given",
};
const orderNames = () => Object.entries(ORDER_NAMES).filter(([order]) => possible(order) && (exploring || !["between", "disagree", "raters"].includes(order)));
const UNFILTERED = { query: "", low: null, high: null, unscored: false, where: "", lasso: null };
const filtered = () => Object.entries(UNFILTERED).some(([key, value]) => state[key] !== value);

// A server is asked when the typing pauses.
let pause = 0;
function searchFor(query) {
  const apply = () => update({ query, page: 0 }, document.activeElement?.id === "search");
  clearTimeout(pause);
  if (source.server) pause = setTimeout(apply, 200);
  else apply();
}

function drawTools() {
  const typed = (name, value, placeholder, change) => h("input", { type: "number", step: "any", "aria-label": name, placeholder, value: value ?? "", onchange: change });
  const number = (event) => (event.target.value === "" || !Number.isFinite(+event.target.value) ? null : +event.target.value);
  const search = h("input", { type: "search", id: "search", placeholder: "Search id, caption, references   /", value: state.query, "aria-label": "Search items", oninput: (event) => searchFor(event.target.value) });
  const select = h("select", { "aria-label": "Metric to sort by", onchange: () => update(changedMetric(select.selectedIndex)) }, metrics.map((metric, place) => h("option", { selected: place === state.metric }, metric.label)));
  whenHere("tools", source.unscored(), (unscored) => byId("item-tools").replaceChildren(search,
    exploring ? "" : h("div", { class: "segments", role: "group", "aria-label": "Order" }, orderNames().map(([order, text]) => h("button", { type: "button", "data-order": order, "aria-pressed": String(order === state.order), onclick: () => update({ order, page: 0 }) }, text))),
    exploring ? "" : h("label", {}, "by ", select),
    h("span", { class: "between" }, exploring && `${metrics[state.metric].label} from `, typed("Lowest score", state.low, "min", (event) => update({ low: number(event), page: 0 })), exploring ? " to " : " – ", typed("Highest score", state.high, "max", (event) => update({ high: number(event), page: 0 }))),
    unscored || state.unscored ? h("button", { type: "button", class: "toggle", "aria-pressed": String(state.unscored), onclick: () => update({ unscored: !state.unscored, page: 0 }) }, `Unscored (${count(unscored)})`) : "",
    filtered() ? h("button", { type: "button", class: "link", onclick: () => update({ ...UNFILTERED, page: 0 }) }, "Clear filters") : ""));
}

function ordering() {
  const { label } = metrics[state.metric];
  return { worst: `worst ${label} first`, best: `best ${label} first`, gap: `largest difference in ${label} first`,
    between: `${systems[state.better]?.name} right and ${systems[state.worse]?.name} wrong by ${label} first`, disagree: `largest difference in rank between ${metrics[state.x].label} and ${metrics[state.y].label} first`,
    raters: "largest difference between raters first", shortest: "shortest first", longest: "longest first", given: "in the order given" }[state.order];
}

// Which items show why they have their score, where not all of them do.
function explainedNote() {
  const some = source.explanations.filter(({ whole }) => !whole);
  if (!some.length) return "";
  const labels = some.map(({ metric }) => metrics[metric].label).join(", ");
  return `This page explains the scores of ${count(some[0].number)} items by ${labels}${some.length > 1 ? " each" : ""}: those without a score and the worst. `;
}

function drawItems() {
  return whenHere("item-list", source.list(state.page * PAGE, PAGE), (found) => {
    listed = found;
    complain(state.where && !source.server ? "The filter in the address needs the explorer's server (captious view): all items are listed." : "");
    drawList();
  }, (error) => {
    if (!ofFilter(error.message)) return;
    listed = { total: 0, first: 0, records: [] };
    drawList();
  });
}

function drawList() {
  const { total, first, records } = listed, pages = Math.max(1, Math.ceil(total / PAGE));
  state.page = first / PAGE;
  const draw = exploring ? DRAWN_AS[state.layout] : card;
  byId("item-list").className = `as-${state.layout}`;
  byId("item-list").replaceChildren(...(records.length || !exploring ? records.map((record, place) => draw(record, first + place + 1)) : [h("p", { class: "none" }, nothingPasses())]));
  const whose = several && !["gap", "given", "between"].includes(state.order) ? (state.system === null ? (exploring && filtered() ? " (mean over the captions that pass)" : " (mean over systems)") : ` (${systems[state.system].name})`) : "";
  const choice = "the worst and the best by every metric, and a random remainder";
  const limited = source.whole > source.total
    ? `This page contains ${count(source.total)} of ${count(source.whole)} items, and captions of ${count(source.listable)}: ${choice}. Charts show what it contains; tables count all items, and captious view shows all of them. `
    : source.listable < source.total ? `Captions of ${count(source.listable)} of ${count(source.total)} items are on this page: ${choice}. Tables and charts show all items. ` : "";
  const unread = source.unreadable ? `${plural(source.unreadable, "image")} could not be read. ` : "";
  byId("item-note").replaceChildren(limited, unread, `${plural(total, "item")}${total < source.listable ? ` of ${count(source.listable)}` : ""}, ${ordering()}${whose}. `,
    "Words ", h("span", { class: "hit" }, "found"), " and ", h("span", { class: "miss" }, "not found"), " in the references are marked. ",
    explainedNote(),
    h("span", { class: "keys" }, exploring ? ["Press ", h("kbd", {}, "?"), " for keys."]
      : ["Keys: ", h("kbd", {}, "/"), " search, ", h("kbd", {}, "j"), " ", h("kbd", {}, "k"), " next and previous, ", h("kbd", {}, "w"), " worst first."]));
  if (byId("printed")) byId("printed").textContent = total > PRINTED ? `Printed: ${PRINTED} of ${plural(total, "item")}. The page on a screen lists all of them.` : "";
  const turn = (page, text) => h("button", { type: "button", disabled: page < 0 || page >= pages, onclick: () => { update({ page }); byId("items").scrollIntoView(); } }, text);
  byId("pager").replaceChildren(...(pages > 1 ? [turn(0, "« First"), turn(state.page - 1, "‹ Previous"), h("span", {}, `Page ${count(state.page + 1)} of ${count(pages)}`), turn(state.page + 1, "Next ›"), turn(pages - 1, "Last »")] : []));
}

function mark(item) {
  state.item = item;
  document.querySelectorAll("[data-item]").forEach((element) => element.classList.toggle("current", element.dataset.item === String(item)));
  if (!exploring) writeAddress();
}
const cardOf = (item) => [...document.querySelectorAll("[data-item]")].find((element) => element.dataset.item === String(item));

// Brings an item into view, from a chart or a key, giving up the filters that hide it.
function openItem(item) {
  if (!source.openable(item)) return undefined;
  if (exploring) return openFull(item);
  if (source.place(item) < 0) update(UNFILTERED);
  const page = Math.floor(source.place(item) / PAGE);
  if (page !== state.page) update({ page });
  return bring(item);
}
function bring(item) {
  mark(item);
  const opened = cardOf(item);
  opened?.querySelectorAll(".why").forEach((element) => (element.open = true));
  opened?.scrollIntoView({ block: "center" });
}
// The next or the previous item; at the end of a page that of another page.
function step(by) {
  const { records, total, first } = listed, at = records.findIndex(({ item }) => item === state.item);
  if (!records.length) return undefined;
  if (at < 0 || records[at + by]) return bring(records[at < 0 ? 0 : at + by].item);
  if (first + at + by < 0 || first + at + by >= total) return undefined;
  const drawn = update({ page: state.page + by });
  const end = () => bring(listed.records[by > 0 ? 0 : listed.records.length - 1].item);
  return drawn instanceof Promise ? drawn.then(end) : end();
}
