// What only an explorer has: questions, a filter expression, a lasso, one item in full, selections, saved views.

const chosen = new Set();
let fullItem = null;
const choice = (label, options, current, choose) => {
  const select = h("select", { "aria-label": label, onchange: () => choose(select.selectedIndex) }, options.map((text, place) => h("option", { selected: place === current }, text)));
  return select;
};
const metricChoice = (label, key) => choice(label, metrics.map((metric) => metric.label), state[key], (metric) => update(key === "metric" ? changedMetric(metric) : { [key]: metric, lasso: null, page: 0 }));
const systemChoice = (label, key) => choice(label, systems.map((system) => system.name), state[key], (system) => update({ [key]: system, page: 0 }));

// Questions people have; each is an order, sometimes with a chart.
function questions() {
  const human = metrics.findIndex(({ kind }) => kind === "rating"), against = state.order === "disagree" && [state.x, state.y].some((metric) => metrics[metric].kind === "rating");
  const people = { order: "disagree", x: state.metric, y: human, page: 0, lasso: null };
  const rivals = metrics.findIndex(({ kind }, metric) => kind !== "rating" && metric !== state.metric);
  return [
    ["Worst captions", state.order === "worst", () => update({ order: "worst", page: 0 })],
    several && ["One right, one wrong", state.order === "between", () => update({ order: "between", page: 0, layout: "pair" })],
    several && ["Systems differ most", state.order === "gap", () => update({ order: "gap", page: 0 })],
    rivals >= 0 && ["Two metrics disagree", state.order === "disagree" && !against, () => update({ order: "disagree", x: rivals, y: state.metric, page: 0, lasso: null })],
    human >= 0 && ["Metric against people", against, () => update(people), () => byId("scatter").scrollIntoView({ block: "nearest" })],
    source.rated && ["Raters disagree", state.order === "raters", () => update({ order: "raters", page: 0 })],
    ["Best captions", state.order === "best", () => update({ order: "best", page: 0 })],
  ].filter(Boolean);
}

// On a small screen the answer may lie below what is seen.
function answerSeen() {
  if (byId("items").getBoundingClientRect().top > innerHeight - 80) byId("items").scrollIntoView();
}

function sentence() {
  const whose = several ? [" of ", choice("System", ["all systems", ...systems.map(({ name }) => name)], state.system === null ? 0 : state.system + 1, (place) => update({ system: place ? place - 1 : null, page: 0 }))] : [];
  return {
    worst: () => ["Worst ", metricChoice("Metric", "metric"), whose], best: () => ["Best ", metricChoice("Metric", "metric"), whose],
    gap: () => ["Largest difference between systems in ", metricChoice("Metric", "metric")],
    between: () => [systemChoice("Right", "better"), " right, ", systemChoice("Wrong", "worse"), " wrong, by ", metricChoice("Metric", "metric")],
    disagree: () => ["Largest difference in rank between ", metricChoice("First score", "x"), " and ", metricChoice("Second score", "y"), whose],
    raters: () => ["Largest difference between raters", whose], shortest: () => ["Shortest captions", whose], longest: () => ["Longest captions", whose],
    given: () => ["In the order of the run"],
  }[state.order]();
}

let typedWhere = null;
function whereLine() {
  if (!source.server) return null;
  const input = h("input", { id: "where", type: "text", spellcheck: "false", autocomplete: "off", "aria-label": "Filter expression", "aria-describedby": "where-trouble", value: typedWhere ?? state.where,
    placeholder: `${told.metrics[state.metric].short} < 0.3 and caption has "dog"`, oninput: () => { typedWhere = input.value; } });
  const apply = (event) => { event.preventDefault(); typedWhere = null; update({ where: input.value.trim(), page: 0 }); };
  return h("form", { class: "where", onsubmit: apply }, h("span", { class: "label" }, "Filter"), input, h("button", { type: "submit", class: "plain" }, "Apply"),
    state.where && h("button", { type: "button", class: "plain", onclick: () => { typedWhere = null; update({ where: "", page: 0 }); } }, "Remove"),
    h("button", { type: "button", class: "link", onclick: openHelp }, "What can I write?"), h("p", { class: "trouble", id: "where-trouble", role: "alert", hidden: true }));
}

function drawQuestions() {
  const focused = document.activeElement?.id === "where";
  byId("questions").replaceChildren(
    h("div", { class: "chips", role: "group", "aria-label": "Questions" }, questions().map(([text, pressed, act, reveal = answerSeen]) => h("button", { type: "button", "aria-pressed": String(pressed), onclick: () => { act(); reveal(); } }, text))),
    h("div", { class: "sentence" }, h("span", {}, sentence()),
      h("label", { class: "quiet" }, "or order by ", choice("Order", orderNames().map(([, text]) => text), orderNames().findIndex(([order]) => order === state.order), (place) => update({ order: orderNames()[place][0], page: 0 })))),
    whereLine() || "");
  if (focused) byId("where")?.focus();
  drawActions();
}

function drawActions() {
  const layouts = [["cards", "Cards"], ["grid", "Grid"], ...(several ? [["pair", "Side by side"]] : [])];
  byId("item-actions").replaceChildren(
    segments("", layouts, state.layout, (layout) => update({ layout })),
    h("span", { class: "actions" },
      chosen.size ? [h("span", { class: "quiet" }, `${plural(chosen.size, "item")} selected`), h("button", { type: "button", class: "link", onclick: () => { chosen.clear(); drawActions(); drawList(); writeAddress(); } }, "Clear")] : null,
      h("button", { type: "button", class: "plain", onclick: downloadIds }, chosen.size ? "Ids of the selection" : "Ids of this list"),
      source.server && h("button", { type: "button", class: "plain", onclick: openStudy }, "Ask people…")));
}
function choose(item, wanted) {
  if (wanted) chosen.add(item);
  else chosen.delete(item);
  drawActions();
  writeAddress();
}

// Which of two scores likes an item more, by the system for which they differ most.
function ranked({ systems: all }) {
  const better = (own, metric) => (metrics[metric].higher ? own.shares[metric] : 100 - own.shares[metric]);
  const known = all.map((own, system) => ({ own, system })).filter(({ own, system }) => considered().includes(system) && own.passes !== false && own.values[state.x] !== null && own.values[state.y] !== null);
  const [most] = known.map(({ own, system }) => ({ system, places: [state.x, state.y].map((metric) => better(own, metric)) })).sort((a, b) => Math.abs(b.places[0] - b.places[1]) - Math.abs(a.places[0] - a.places[1]));
  return most ? ` (${several ? `${systems[most.system].name}: ` : ""}${[state.x, state.y].map((metric, axis) => `${metrics[metric].label} better than ${Math.round(most.places[axis])} %`).join(", ")})` : "";
}

// What an item is sorted by, where the scores beside its captions do not show it.
function sortedBy(record) {
  const { sorted_by: value } = record;
  if (value === null) return null;
  const { label } = metrics[state.metric], averages = several && state.system === null && record.systems.filter(({ passes }) => passes !== false).length > 1;
  return {
    worst: averages && `mean ${label} ${show(value, 3)}`, best: averages && `mean ${label} ${show(value, 3)}`,
    between: `${label} ${value > 0 ? "+" : ""}${show(value, 3)}`, disagree: `ranks differ by ${Math.round(100 * value)} %${state.order === "disagree" ? ranked(record) : ""}`, raters: `raters differ by ${+value.toFixed(2)}`,
  }[state.order] || null;
}

// Cards, a grid of images, and two systems side by side.
const tick = ({ item, id }) => h("input", { type: "checkbox", class: "tick", "aria-label": `Select ${id}`, checked: chosen.has(item), onclick: (event) => { event.stopPropagation(); choose(item, event.target.checked); } });
const fullButton = (record) => [h("span", { class: "far" }, h("button", { type: "button", class: "link", onclick: (event) => { event.stopPropagation(); openFull(record.item); } }, "Whole item"), tick(record))];
const picture = ({ picture: address, item }) => address !== null && h("button", { type: "button", class: "shot", "aria-label": "Open the item", onclick: (event) => { event.stopPropagation(); openFull(item); } }, h("img", { src: address, alt: "", decoding: "async", loading: "lazy" }));
const sound = ({ sound: address, id }) => address && h("audio", { class: "sound", controls: "", preload: "none", src: address, "aria-label": `Sound of item ${id}`, onclick: (event) => event.stopPropagation() });

const TILE_SYSTEMS = 4;
function tile(record, rank) {
  const known = wordsOf(record.references), shown = state.order === "between" ? [state.better, state.worse] : considered();
  const speaking = shown.filter((system) => record.systems[system].texts.length && record.systems[system].passes), most = speaking.slice(0, TILE_SYSTEMS);
  return h("article", attributesOf(record, "tile"), clip(record), picture(record) || (!record.sound && !record.has_video && h("div", { class: "shot none" }, "no image")),
    h("div", { class: "under" }, sound(record), h("header", {}, h("span", { class: "rank" }, count(rank)), h("code", {}, record.id), h("span", { class: "far" }, tick(record))),
      h("p", { class: "note" }, sortedBy(record)),
      most.map((system) => h("p", { class: "line" }, several && swatch(system), h("b", {}, show(record.systems[system].values[state.metric], 2)), " ", marked(record.systems[system].texts[0] || "", known))),
      speaking.length > most.length && h("button", { type: "button", class: "link", onclick: () => openFull(record.item) }, `${plural(speaking.length - most.length, "more system")}`)));
}

function pairCard(record, rank) {
  const known = wordsOf(record.references), sides = [state.better, state.worse], values = sides.map((system) => record.systems[system].values[state.metric]);
  const apart = values.includes(null) ? null : values[0] - values[1];
  const side = (system) => h("div", { class: "side" }, h("div", { class: "who" }, swatch(system), systems[system].name), h("div", { class: "spoken" }, spokenBy(record.systems[system], known)),
    h("div", { class: "values many", style: { "--columns": Math.min(metrics.length, 8) } }, metrics.map((_, metric) => scoreCell(system, metric, record.systems[system]))));
  return h("article", attributesOf(record, "card pair"), picture(record) || clip(record),
    h("div", { class: "body" }, h("header", {}, h("span", { class: "rank" }, count(rank)), h("code", {}, record.id),
      apart !== null && h("span", { class: "apart" }, `${metrics[state.metric].label} ${apart > 0 ? "+" : ""}${show(apart, 3)}`), fullButton(record)),
      sound(record), h("div", { class: "sides" }, sides.map(side)), references(record.references)));
}
const DRAWN_AS = { cards: card, grid: tile, pair: pairCard };

// A lasso over the dots: its corners are kept in the scores' own numbers, so that it is the same on every screen.
function lasso(svg, box, domain) {
  const place = { x: (value) => box.left + ((value - domain.x[0]) / (domain.x[1] - domain.x[0])) * (box.right - box.left), y: (value) => box.bottom - ((value - domain.y[0]) / (domain.y[1] - domain.y[0])) * (box.bottom - box.top) };
  const back = ([px, py]) => [domain.x[0] + ((px - box.left) / (box.right - box.left)) * (domain.x[1] - domain.x[0]), domain.y[0] + ((box.bottom - py) / (box.bottom - box.top)) * (domain.y[1] - domain.y[0])];
  const area = s("polygon", { class: "lasso", points: (state.lasso || []).map(([x, y]) => `${place.x(x).toFixed(1)},${place.y(y).toFixed(1)}`).join(" ") });
  const at = (event) => { const frame = svg.getBoundingClientRect(); return [(event.clientX - frame.left), (event.clientY - frame.top)]; };
  let path = null, dragged = false;
  svg.append(area);
  svg.classList.add("brushable");
  svg.addEventListener("pointerdown", (event) => { path = [at(event)]; dragged = false; hold(svg, event); });
  svg.addEventListener("pointermove", (event) => {
    if (!path) return;
    path.push(at(event));
    if (!dragged) dragged = Math.hypot(path[0][0] - path[path.length - 1][0], path[0][1] - path[path.length - 1][1]) > 8;
    if (dragged) { hush(); area.setAttribute("points", path.map((corner) => corner.map((part) => part.toFixed(1)).join(",")).join(" ")); }
  });
  svg.addEventListener("pointerup", () => {
    const drawn = path;
    path = null;
    if (!dragged || drawn.length < 3) return;
    const stride = Math.ceil(drawn.length / 60), corners = drawn.filter((_, number) => number % stride === 0).map((corner) => back(corner).map((part) => +part.toPrecision(4)));
    if (corners.length > 2) update({ lasso: corners, page: 0 });
  });
  svg.addEventListener("click", (event) => { if (dragged) { event.stopImmediatePropagation(); dragged = false; } }, { capture: true });
  svg.addEventListener("dblclick", () => update({ lasso: null, page: 0 }));
}

// One item in full.
function openFull(item) {
  fullItem = item;
  mark(item);
  writeAddress(!byId("full").open);
  return whenHere("full", source.item(item), (record) => {
    fullItem = item;  // the close event of an earlier dialog may have come while the item was fetched
    mark(item);
    const dialog = byId("full"), pressed = dialog.open ? document.activeElement?.getAttribute("aria-label") : "Close";
    dialog.replaceChildren(fullView(record));
    learnMeteor(record);
    if (!dialog.open) dialog.showModal();
    [...dialog.querySelectorAll(".bar button")].find((button) => button.getAttribute("aria-label") === pressed)?.focus();
    dialog.scrollTop = 0;
  });
}
function closeFull() {
  if (byId("full").open) return;  // the dialog was opened again before its close event came
  fullItem = state.item = watched = null;
  byId("full").replaceChildren();  // a video there would play on
  document.querySelectorAll(".current").forEach((element) => element.classList.remove("current"));
  writeAddress(true);
}
function stepFull(by) {
  const { records, first, total } = listed, at = records.findIndex(({ item }) => item === fullItem);
  if (at >= 0 && records[at + by]) return openFull(records[at + by].item);
  if (at < 0 || first + at + by < 0 || first + at + by >= total) return undefined;
  const end = () => openFull(listed.records[by > 0 ? 0 : listed.records.length - 1].item), drawn = update({ page: state.page + by });
  return drawn instanceof Promise ? drawn.then(end) : end();
}

function fullView(record) {
  const known = wordsOf(record.references), at = listed.records.findIndex(({ item }) => item === record.item);
  const place = at < 0 ? "" : `${count(listed.first + at + 1)} of ${count(listed.total)}`;
  const button = (text, label, act) => h("button", { type: "button", class: "plain", "aria-label": label, onclick: act }, text);
  const image = record.large ?? record.picture, player = clip(record, true), events = track(record, player?.tagName === "VIDEO" ? player : null);
  const described = timed(null, record.references, (text) => text);
  return h("div", { class: "whole" },
    h("header", { class: "bar" }, h("h2", {}, h("code", {}, record.id)), h("span", { class: "quiet" }, place),
      h("span", { class: "far" }, h("label", { class: "quiet select" }, tick(record), " select"), button("‹", "Previous item", () => stepFull(-1)), button("›", "Next item", () => stepFull(1)), button("Close", "Close", () => byId("full").close()))),
    h("div", { class: "columns" },
      h("div", { class: "left" }, player, events, image !== null && h("a", { href: image, target: "_blank", rel: "noopener" }, h("img", { src: image, alt: `Image of item ${record.id}` })), sound(record),
        h("h3", {}, record.references.length ? plural(record.references.length, "reference") : "No references"), described || (record.references.length > 0 && h("ul", { class: "references" }, record.references.map((text) => h("li", { dir: "auto", lang: language }, text)))),
        Object.keys(record.fields).length > 0 && [h("h3", {}, "Columns"), h("dl", {}, Object.entries(record.fields).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))]),
      h("div", { class: "right" }, record.systems.map((own, system) => fullSystem(system, own, known, record.item)))));
}

function fullSystem(system, own, known, item) {
  const missing = metrics.map((metric, m) => own.reasons[m] && h("p", { class: "reason" }, `not scored by ${metric.label}: ${own.reasons[m]}`));
  return h("section", { class: "system" },
    h("div", { class: "speaker" }, several && h("span", { class: "who" }, swatch(system), systems[system].name), own.words !== null && h("span", { class: "quiet" }, plural(own.words, "word"))),
    timed(system, own.texts, (text) => marked(text, known)) || spokenBy(own, known), missing,
    h("div", { class: "ladders" }, metrics.map((_, metric) => ladder(system, metric, own))),
    whys(system, own, item), said(own.ratings));
}

// Where a score stands among those of all items.
function ladder(system, metric, { values, shares }) {
  const { label, higher, kind } = metrics[metric], value = values[metric], share = shares[metric];
  if (value === null) return kind === "rating" ? null : h("div", { class: "ladder" }, h("span", {}, label), h("b", {}, "—"), h("i", { class: "track" }), h("span", { class: "quiet" }, "not scored"));
  const better = Math.round(higher ? share : 100 - share);
  return h("div", { class: metric === state.metric ? "ladder chosen" : "ladder", title: systems[system].signatures?.[metric] || null }, h("span", {}, label), h("b", {}, show(value, 3)),
    h("i", { class: "track", role: "img", "aria-label": `above ${Math.round(share)} % of the items` }, h("i", { style: { width: `${share}%`, background: color(system) } })),
    h("span", { class: "quiet" }, `better than ${better} %`));
}

// A button for every metric that can tell why; one answer at a time is open.
function whys(system, own, item) {
  if (!source.explain || !own.explained?.length) return explanations(own);
  const body = h("div", { class: "because", hidden: true, "aria-live": "polite" });
  let open = null;
  const toggle = (metric) => {
    open = open === metric ? null : metric;
    buttons.forEach((button, place) => button.setAttribute("aria-expanded", String(own.explained[place] === open)));
    body.hidden = open === null;
    if (open === null) return;
    body.replaceChildren(h("p", { class: "quiet" }, `Computing why ${metrics[metric].label} is ${show(own.values[metric], 3)} …`));
    const answer = (...parts) => open === metric && body.replaceChildren(...parts);
    source.explain(system, metric, item).then((sections) => answer(...sections.map(section)), (error) => answer(h("p", { class: "reason" }, error.message)));
  };
  const buttons = own.explained.map((metric) => h("button", { type: "button", class: "plain", "aria-expanded": "false", onclick: () => toggle(metric) }, metrics[metric].label));
  return [h("div", { class: "whybar", role: "group", "aria-label": "Why this score" }, h("span", { class: "quiet" }, "Why this score?"), buttons), body];
}

// Ratings without further words stand in a line, others in a table.
function said(given) {
  if (!given?.length) return null;
  const ratings = given.map((rating) => ({ comment: "", seconds: null, ...rating }));
  if (ratings.every(({ values, comment, seconds }) => !comment && seconds === null && Object.keys(values).length === 1)) {
    return h("p", { class: "people" }, h("span", { class: "quiet" }, plural(ratings.length, "rating")), ratings.map(({ rater, values }) => h("span", { class: "field", title: rater }, String(Object.values(values)[0]))));
  }
  const aspects = [...new Set(ratings.flatMap(({ values }) => Object.keys(values)))];
  const columns = [
    ["rater", null, ({ rater }) => rater],
    ...aspects.map((name) => [name, "number", ({ values }) => values[name] ?? "—"]),
    ratings.some(({ seconds }) => seconds !== null) && ["seconds", "number", ({ seconds }) => seconds ?? "—"],
    ratings.some(({ comment }) => comment) && ["comment", null, ({ comment }) => comment],
  ].filter(Boolean);
  return h("details", { class: "why", open: true }, h("summary", {}, plural(ratings.length, "rating")), h("div", { class: "scroll" }, h("table", { class: "shown ratings" },
    h("thead", {}, h("tr", {}, columns.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)))),
    h("tbody", {}, ratings.map((rating) => h("tr", {}, columns.map(([, kind, cell]) => h("td", { class: kind }, String(cell(rating))))))))));
}

// From looking to asking: ids of a selection, and a study of it.
function downloadIds() {
  const link = h("a", { download: "ids.txt" });
  if (source.server && !chosen.size) link.href = `ids.txt?${new URLSearchParams(view())}`;
  else link.href = URL.createObjectURL(new Blob([`${(chosen.size ? [...chosen] : selection()).map(source.idOf).join("\n")}\n`], { type: "text/plain" }));
  link.click();
}
function openStudy() {
  const dialog = byId("study"), number = chosen.size || listed.total, name = h("input", { id: "study-name", value: "study", maxlength: 60, required: true });
  const trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  const make = (event) => {
    event.preventDefault();
    ask("api/study", {}, { name: name.value, ids: [...chosen], view: chosen.size ? {} : view() }).then(({ folder, items, check, serve }) => {
      form.replaceWith(h("div", {}, h("p", {}, `The study of ${plural(items, "item")} is in `, h("code", {}, folder), ": a file that you can read and change. Then:"),
        h("pre", {}, h("code", {}, `${check}\n${serve}`))));
    }, (error) => { trouble.textContent = error.message; trouble.hidden = false; });
  };
  const form = h("form", { onsubmit: make }, h("p", {}, `A rating study of the ${plural(number, "item")} ${chosen.size ? "you selected" : "of this list"}, with the captions of ${several ? `all ${systems.length} systems` : systems[0].name}.`),
    h("label", {}, "Name of its folder ", name), " ", h("button", { type: "submit", class: "primary" }, "Write the study"), trouble);
  dialog.replaceChildren(h("header", { class: "bar" }, h("h2", {}, "Ask people"), h("span", { class: "far" }, h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close"))), form);
  dialog.showModal();
  name.focus();
}

// Views with names.
function drawViews(views) {
  const name = h("input", { "aria-label": "Name of this view", placeholder: "Name of this view", maxlength: 80, required: true });
  const save = (event) => { event.preventDefault(); keepView(name.value, `${address()}`); };
  const entry = ([title, place]) => h("li", {}, h("a", { href: `#${place}`, onclick: () => { byId("views").firstChild.open = false; } }, title), h("button", { type: "button", class: "link", "aria-label": `Forget ${title}`, onclick: () => keepView(title, "") }, "×"));
  byId("views").replaceChildren(h("details", { class: "menu", open: byId("views").firstChild?.open || null }, h("summary", {}, `Saved views (${Object.keys(views).length})`),
    h("div", { class: "sheet" }, h("ul", {}, Object.entries(views).map(entry)), h("form", { onsubmit: save }, name, h("button", { type: "submit", class: "plain" }, "Save this view")))));
}
const keepView = (name, place) => ask("api/views", {}, { name, address: place }).then(drawViews, (error) => complain(error.message));

function openHelp() {
  const rows = [["cider < 0.3 and system == \"sat\"", "< <= > >= == !=, and, or, not, ( )"], ["caption has \"dog\"", "part of a text, case-insensitive"], ["references matches \"two|three\"", "a regular expression"],
    ["style in (\"happy\", \"sad\")", "one of several"], ["spice is missing", "also: is present"], ["cider@sat > cider@oscar", "the score of one system"]];
  const keysShown = [["/", "search"], ...(source.server ? [["f", "filter"]] : []), ["j k", "next, previous"], ["o", "whole item"], ["x", "select"], ["p", "play or pause"], ["← →", "1 second back, on"], [", .", "one frame back, on"], ["[ ]", "previous, next event"], ["l", "loop the event"], ["m", "sound of the video"], ["g", "cards, grid, side by side"], ["w", "worst first"], ["?", "this page"]];
  const filters = [h("p", {}, "An item is listed if a caption of one of the systems passes the filter."), h("table", { class: "shown" }, h("tbody", {}, rows.map(([text, meaning]) => h("tr", {}, h("td", {}, h("code", {}, text)), h("td", {}, meaning)))))];
  const columns = () => h("p", { class: "quiet" }, "Columns here: ", told.columns.map((name, place) => [place > 0 && ", ", h("code", {}, /^[^\W\d][\w.-]*$/.test(name) ? name : `\`${name}\``)]));
  const dialog = byId("help");
  dialog.replaceChildren(h("header", { class: "bar" }, h("h2", {}, source.server ? "Filters and keys" : "Keys"), h("span", { class: "far" }, h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close"))),
    ...(source.server ? [...filters, columns()] : []),
    h("dl", { class: "keylist" }, keysShown.map(([key, meaning]) => [h("dt", {}, key.split(" ").map((one) => h("kbd", {}, one))), h("dd", {}, meaning)])));
  dialog.showModal();
}

const current = () => state.item ?? listed.records[0]?.item;
const EXPLORER_KEYS = {
  j: () => (byId("full").open ? stepFull(1) : step(1)), k: () => (byId("full").open ? stepFull(-1) : step(-1)), o: () => current() !== undefined && openFull(current()),
  x: () => { const item = current(); if (item !== undefined) { choose(item, !chosen.has(item)); drawList(); } },
  g: () => { const able = several ? LAYOUTS : ["cards", "grid"]; update({ layout: able[(able.indexOf(state.layout) + 1) % able.length] }); },
  f: () => byId("where")?.focus(), "?": openHelp,
};

byId("full").addEventListener("close", closeFull);
byId("more-charts").addEventListener("toggle", () => { if (furtherCharts()) { drawLengths(); drawAgreement(); } });
byId("summary").style.setProperty("--lines", humanScore() === undefined ? 2 : 4);
const shownWarnings = byId("warnings").querySelectorAll(".warning").length;
byId("warnings").hidden = !shownWarnings;
byId("warnings").firstElementChild.textContent = plural(shownWarnings, "warning");
if (source.server) whenHere("views", ask("api/views"), drawViews);
