// What an explorer says of the captions that pass: how they were selected, and their numbers beside those of all.

// The conditions that captions must pass, in words.
function conditions() {
  const { label } = metrics[state.metric], range = [state.low !== null && `from ${state.low}`, state.high !== null && `to ${state.high}`].filter(Boolean);
  return [
    state.query && `search “${state.query}”`, state.where && `filter ${state.where}`, range.length > 0 && `${label} ${range.join(" ")}`,
    state.lasso && `lasso over ${metrics[state.x].label} and ${metrics[state.y].label}`, state.unscored && "unscored",
  ].filter(Boolean);
}
function nothingPasses() {
  if (!byId("where-trouble")?.hidden && byId("where-trouble")) return "Nothing is listed: the filter cannot be read.";
  const all = conditions(), whose = several && state.system !== null ? ` of ${systems[state.system].name}` : "";
  return `No caption${whose} passes${all.length > 1 ? ` all ${all.length} conditions` : ""}: ${all.join("; ")}.`;
}

const pValue = (p) => (p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(p < 0.1 ? 3 : 2)}`);
// A value with as many decimals as the report prints, so that both show the same digits.
const printed = (value, decimals) => value.toFixed(decimals).replace(/^-/, (sign) => (/[1-9]/.test(value.toFixed(decimals)) ? sign : ""));
function spoken({ value, low, high, all }, decimals) {
  if (value === null) return h("b", {}, "—");
  return [h("b", {}, printed(value, decimals)), low === null || high === null ? "" : ` ± ${printed((high - low) / 2, decimals)}`, (all ?? null) !== null && h("span", { class: "quiet" }, ` (all ${printed(all, decimals)})`)];
}
const each = (found, part, decimals) => found.map((own, place) => {
  const number = part(own);
  return number && h("span", { class: "number" }, several && [swatch(own.system), `${systems[own.system].name} `], spoken(number, decimals), place < found.length - 1 ? ";" : "");
});

function verdict(test) {
  if (!test) return null;
  const [first, second] = test.pair.map((system) => systems[system].name);
  const outcome = test.better === null ? `no significant difference between ${first} and ${second}` : `${systems[test.better].name} better`;
  return h("span", { class: "number verdict" }, `${outcome}, ${pValue(test.p)} (${plural(test.items, "item")} with both captions)`);
}

function drawSummary() {
  whenHere("summary", source.summary(), (found) => {
    const { label } = metrics[state.metric], all = conditions(), rated = found.systems.filter(({ rating }) => rating?.captions), agreeing = found.systems.filter(({ rho }) => rho);
    const people = metrics[humanScore()]?.label, counts = new Set(found.systems.map(({ captions }) => captions));
    const lines = [h("p", {}, h("strong", {}, found.items < source.total || all.length ? `${count(found.items)} of ${plural(source.total, "item")}` : plural(found.items, "item")),
      all.length > 0 && ` with ${all.join("; ")}`,
      counts.size > 1 && h("span", { class: "quiet" }, ` (captions that pass: ${found.systems.map(({ system, captions }) => `${systems[system].name} ${count(captions)}`).join(", ")})`))];
    if (found.items) lines.push(h("p", {}, h("span", { class: "label" }, label), each(found.systems.filter(({ captions }) => captions), (own) => own, metrics[state.metric].decimals), verdict(found.test)));
    if (rated.length) lines.push(h("p", {}, h("span", { class: "label" }, people), each(rated, ({ rating }) => rating, metrics[humanScore()].decimals), h("span", { class: "quiet" }, ` (rated captions: ${rated.map(({ rating }) => count(rating.captions)).join(", ")})`)));
    if (agreeing.length) lines.push(h("p", {}, h("span", { class: "label" }, `${label} with people`), "Spearman ρ ", each(agreeing, ({ rho }) => rho, 2)));
    const spread = found.systems.some((own) => [own, own.rho].some((one) => (one?.low ?? null) !== null)), level = found.level ? `${+(100 * found.level).toPrecision(4)} % ` : "";
    const small = [found.items ? spread && `± is half of the ${level}interval.` : nothingPasses(), ...found.notes].filter(Boolean);
    byId("summary").replaceChildren(...lines, h("p", { class: "note" }, small.join(" ")));
  }, () => byId("summary").replaceChildren(h("p", { class: "note" }, "There are no numbers to show.")));
}
// What people said that stands beside the metric: on an axis of the chart, else the first.
const humanScore = () => [state.y, state.x, ...metrics.keys()].find((metric) => metrics[metric].kind === "rating");

// Which way is good, on an axis and in the corners of a chart of a metric against people.
const goodWay = (metric) => `${metrics[metric].label} (${metrics[metric].higher ? "better →" : "← better"})`;
function corners(x, y) {
  const human = [x, y].map((metric) => metrics[metric].kind === "rating");
  if (human[0] === human[1]) return "";
  const good = [metrics[x].higher, metrics[y].higher], liked = human[0] ? [!good[0], good[1]] : [good[0], !good[1]];
  const corner = ([right, top]) => `${top ? "upper" : "lower"} ${right ? "right" : "left"}`, text = `${corner(liked)}: good by the metric, bad by people; ${corner(liked.map((side) => !side))}: the other way round. `;
  return text[0].toUpperCase() + text.slice(1);
}

// Items that were ticked are part of the address, as far as an address should be long.
const PICKED = 200;
function writeChosen(kept) {
  if (chosen.size <= PICKED) for (const item of chosen) kept.append("pick", source.idOf(item));
}
function readChosen(given) {
  chosen.clear();
  for (const id of given.getAll("pick").slice(0, PICKED)) {
    const item = source.itemOf(id);
    if (item !== null) chosen.add(item);
  }
}
