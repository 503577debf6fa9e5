// The few things every part of the page uses: elements, numbers, tooltip, and values that may come later.

const namespace = document.getElementById("mark").namespaceURI;

// A page of many items and runs, with a server behind it or files beside it; a report is a page of its own.
const exploring = document.body.dataset.explore !== undefined;

const byId = (id) => document.getElementById(id);

// Text always becomes a text node: captions are other people's data.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, setting] of Object.entries(value)) element.style.setProperty(key, setting);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(namespace, tag), attributes, children);

const color = (system) => `var(--s${system % 8})`;
const count = (number) => number.toLocaleString("en");
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

function show(value, digits = 4) {
  if (value === null || value === undefined) return "—";
  const size = Math.abs(value);
  if (size >= 10 && Number.isInteger(value)) return count(value);
  const text = value.toFixed(size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? Math.min(2, digits) : digits);
  return text.replace(/^-/, /[1-9]/.test(text) ? "−" : "");
}

const finite = (values) => values.filter((value) => value !== null);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
function quantile(sorted, share) {
  const at = (sorted.length - 1) * share, low = Math.floor(at);
  return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (at - low);
}
function countBelow(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
function remember(make) {
  const known = new Map();
  return (...key) => {
    const name = key.join();
    if (!known.has(name)) known.set(name, make(...key));
    return known.get(name);
  };
}

// A value that is here is used at once; one that a server sends is used when it comes, unless a later one was asked for.
// Until then its part of the page is busy. A part that someone draws on is left as it is until the pointer is lifted.
const asked = new Map(), held = new Map();
const lifted = (part) => held.get(part)?.then(() => lifted(part));
function whenHere(part, value, use, failed = () => {}) {
  const turn = (asked.get(part) || 0) + 1, busy = (is) => byId(part)?.setAttribute("aria-busy", String(is));
  const last = (act) => (given) => {
    if (asked.get(part) !== turn) return undefined;
    busy(false);
    return act(given);
  };
  asked.set(part, turn);
  if (!(value instanceof Promise)) return last(use)(value);
  busy(true);
  return value.finally(() => lifted(part)).then(last(use), last((error) => { complain(error.message); failed(error); }));
}
// A pointer that draws on a chart holds it. It lets go after the click that ends a drag, so that this click meets the same chart.
function hold(svg, event) {
  const part = svg.parentElement.id;
  svg.setPointerCapture(event.pointerId);
  event.preventDefault();
  held.set(part, new Promise((letGo) => addEventListener("lostpointercapture", () => setTimeout(() => { held.delete(part); letGo(); }), { once: true })));
}
// What is wrong with a filter is said below the line that it was typed into, all else above the items.
const ofFilter = (text) => byId("where-trouble") !== null && state.where !== "" && /^(filter\b|it cannot be computed)/.test(text);
function complain(text) {
  const filter = ofFilter(text);
  for (const [id, own] of [["trouble", filter ? "" : text], ["where-trouble", filter ? text : ""]]) {
    const place = byId(id);
    if (!place) continue;
    place.textContent = own;
    place.hidden = !own;
  }
  byId("where")?.setAttribute("aria-invalid", String(filter));
  if (filter) byId("where").scrollIntoView({ block: "nearest" });
}

// Steps of 1, 2, 2.5 or 5 times a power of ten, so that axes read well.
function niceStep(span, parts) {
  const raw = span / parts, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw * 0.999);
}

const tooltip = byId("tooltip");
function tell(event, ...lines) {
  tooltip.replaceChildren(...lines.flat(Infinity).filter(Boolean).map((line) => (line instanceof Node ? line : h("div", {}, line))));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 14 : event.clientX + 14;
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${clamp(event.clientY + 14, 4, innerHeight - box.height - 4)}px`;
}
const hush = () => (tooltip.hidden = true);

const swatch = (system) => h("span", { class: "swatch", style: { background: color(system) } });

function segments(label, options, chosen, choose) {
  const given = options.map(([value, text, mark]) => ({ value, text, mark }));
  if (given.length > 9) {
    const select = h("select", { "aria-label": label, onchange: () => choose(given[select.selectedIndex].value) },
      given.map(({ value, text }) => h("option", { selected: value === chosen }, text)));
    return h("label", { class: "choice" }, h("span", { class: "label" }, label), select);
  }
  return h("div", { class: "choice" }, h("span", { class: "label" }, label), h("div", { class: "segments", role: "group", "aria-label": label },
    given.map(({ value, text, mark }) =>
      h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => choose(value) }, mark, text))));
}
