// What was scored, the corpus values with their intervals, and the paired differences between systems.

const entryOf = systems.map((system) => new Map(system.metrics.map((entry) => [entry.metric, entry])));
const entry = (system, metric) => entryOf[system].get(metrics[metric].key);
const range = ([low, high]) => (low === high ? String(low) : `${low}–${high}`);
const percent = (level) => `${+(100 * level).toFixed(2)} %`;
const level = systems.flatMap((system) => system.metrics.map((found) => found.level)).find((found) => found !== null);

function drawHeader() {
  const low = Math.min(...systems.map(({ references }) => references[0])), high = Math.max(...systems.map(({ references }) => references[1]));
  const names = systems.map((system, place) => h("span", { class: "name" }, several && swatch(place), system.name,
    system.source !== system.name && h("span", { class: "quiet" }, ` ${system.source}`)));
  const facts = [plural(data.ids.length, "item"), high ? `${range([low, high])} reference${high === 1 ? "" : "s"} per item` : "no references",
    several && data.test && `differences by ${data.test}`].filter(Boolean);
  byId("about").append(h("span", { class: "names" }, names), h("span", { class: "facts" }, facts.join(" · ")));
  const warnings = new Map();
  systems.forEach((system) => system.warnings.forEach((text) => warnings.set(text, [...(warnings.get(text) || []), system.name])));
  const skipped = systems.filter((system) => system.skipped);
  skipped.forEach((system) => warnings.set(`${plural(system.skipped, "id")} left out at reading, because one side lacked ${system.skipped === 1 ? "it" : "them"}`, [system.name]));
  if (data.fingerprints > 1) warnings.set(`the systems were scored against different references or items; the references shown are those of ${systems[0].name}`, []);
  const boxes = [...warnings].map(([text, who]) =>
    h("p", { class: "warning" }, h("strong", {}, "Warning"), several && who.length && who.length < systems.length ? `${who.join(", ")}: ${text}` : text));
  const rest = boxes.splice(boxes.length > 5 ? 4 : 5);
  byId("warnings").append(...boxes, ...(rest.length ? [h("details", { class: "more" }, h("summary", {}, `${rest.length} more warnings`), rest)] : []));
}

// A value and its interval on the scale of the metric.
function intervalBar(found, [low, high], tint, zero) {
  const at = (value) => `${(100 * clamp((value - low) / (high - low || 1), 0, 1)).toFixed(2)}%`;
  const bar = h("span", { class: "interval", "aria-hidden": "true" });
  if (zero !== undefined) bar.append(h("i", { class: "zero", style: { left: at(zero) } }));
  if (found.low !== null && found.low !== undefined) {
    bar.append(h("i", { class: "band", style: { left: at(found.low), right: `calc(100% - ${at(found.high)})`, background: tint } }));
  }
  if (found.value !== null) bar.append(h("i", { class: "dot", style: { left: at(found.value), background: tint } }));
  return bar;
}
function scaleOf(metric) {
  const found = systems.flatMap((_, system) => entry(system, metric) || []);
  const values = found.flatMap(({ value, high }) => finite([value, high]));
  const top = metrics[metric].range[1];
  if (top !== null && top <= 1) return [Math.min(0, ...values), top];
  const step = niceStep(Math.max(1e-9, ...values), 4);
  return [0, Math.ceil(Math.max(...values, 1e-9) / step) * step];
}
const direction = (metric) => h("span", { class: "direction", title: metrics[metric].higher ? "higher is better" : "lower is better" },
  metrics[metric].higher ? "↑ higher" : "↓ lower");
const reasonsText = (system, metric) => {
  const tally = new Map();
  Object.values(data.reasons[system][metric]).forEach((reason) => tally.set(reason, (tally.get(reason) || 0) + 1));
  return [...tally].map(([reason, number]) => `${count(number)}: ${reason}`).join("\n");
};
const unscoredButton = (system, metric, number) => h("button", {
  type: "button", class: "link", title: `${reasonsText(system, metric)}\nShow these items`,
  onclick: () => { update({ unscored: true, metric, page: 0 }); byId("items").scrollIntoView(); },
}, `${count(number)} unscored`);
const openMetric = (metric) => h("button", { type: "button", class: "link metric", title: `Show ${metrics[metric].label} in the charts and items below`,
  onclick: () => update({ metric, low: null, high: null, page: 0 }) }, metrics[metric].label);

function drawSingle() {
  const rows = metrics.map((_, metric) => {
    const found = entry(0, metric);
    const spread = found.low === null ? h("span", { class: "quiet" }, "no interval") : `${show(found.low)} – ${show(found.high)}`;
    return h("tr", {}, h("th", { scope: "row" }, openMetric(metric)), h("td", { class: "number value" }, show(found.value)),
      h("td", { class: "number" }, spread), h("td", { class: "wide" }, intervalBar(found, scaleOf(metric), color(0)), scaleLabel(metric)),
      h("td", {}, direction(metric)), h("td", {}, found.unscored ? unscoredButton(0, metric, found.unscored) : h("span", { class: "quiet" }, "none")),
      h("td", { class: "signature" }, h("div", {}, copyButton(found.signature, `Copy the signature of ${metrics[metric].label}`), h("code", { title: found.signature }, found.signature))));
  });
  return h("table", { class: "scores" }, h("thead", {}, h("tr", {}, ["Metric", "Value", level ? `${percent(level)} interval` : "Interval", "", "Better", "Unscored", "Signature"]
    .map((text, place) => h("th", { scope: "col", class: place === 1 || place === 2 ? "number" : null }, text)))), h("tbody", {}, rows));
}
const scaleLabel = (metric) => h("span", { class: "scale" }, ...scaleOf(metric).map((end) => h("span", {}, String(+end.toFixed(3)))));

const againstBaseline = (system, metric) => data.differences.find((row) =>
  row.metric === metrics[metric].key && row.baseline === systems[0].name && row.system === systems[system].name);

function drawSeveral() {
  const rows = metrics.map((_, metric) => {
    const values = systems.map((__, system) => entry(system, metric)?.value ?? null);
    const known = finite(values), top = metrics[metric].higher ? Math.max(...known) : Math.min(...known);
    const cells = systems.map((__, system) => {
      const found = entry(system, metric);
      if (!found) return h("td", { class: "quiet", title: "not measured" }, "—");
      const tested = system > 0 && againstBaseline(system, metric);
      const alike = tested && tested.better === null;
      return h("td", { class: "cell" }, h("div", { class: "number-line" },
        h("span", { class: values[system] === top ? "value best" : "value" }, show(found.value)),
        alike && h("span", { class: "alike", title: `not significantly different from ${systems[0].name}: p = ${showP(tested.p_holm)} after Holm's correction` }, "≈"),
        copyButton(found.signature, `Copy the signature of ${metrics[metric].label} for ${systems[system].name}`)),
      intervalBar(found, scaleOf(metric), color(system)),
      h("div", { class: "ends quiet" }, found.low === null ? "no interval" : `${show(found.low)} – ${show(found.high)}`),
      found.unscored ? unscoredButton(system, metric, found.unscored) : null);
    });
    return h("tr", {}, h("th", { scope: "row" }, openMetric(metric), h("div", {}, direction(metric))), cells);
  });
  return h("table", { class: "scores several", style: { "--systems": systems.length } }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Metric"),
    systems.map((system, place) => h("th", { scope: "col" }, swatch(place), system.name, place === 0 && data.differences.length ? h("span", { class: "tag" }, "baseline") : null)))),
  h("tbody", {}, rows));
}

function drawScores() {
  byId("score-table").append(several ? drawSeveral() : drawSingle());
  const parts = [level ? `Bars show the value and its ${percent(level)} bootstrap interval.` : "", several ? "Best value in bold." : "",
    several && data.differences.length ? `≈ marks a value not significantly different from ${systems[0].name} (Holm-adjusted p ≥ ${+(1 - level).toFixed(6)}).` : "",
    several ? "The button beside a value copies its signature." : "A number means little without its signature: copy it with the number."];
  byId("score-note").textContent = parts.filter(Boolean).join(" ");
}

function drawDifferences() {
  if (!data.differences.length) return;
  const section = byId("differences"), known = metrics.map((metric, place) => place).filter((place) => data.differences.some((row) => row.metric === metrics[place].key));
  let chosen = data.differences.length > 24 ? known[known.length - 1] : null;
  const body = h("div", { class: "scroll" }), tools = h("div", {});
  const draw = () => {
    const options = [[null, "all"], ...known.map((metric) => [metric, metrics[metric].label])];
    tools.replaceChildren(segments("Metric", options, chosen, (metric) => { chosen = metric; draw(); }));
    const groups = known.filter((metric) => chosen === null || metric === chosen).map((metric) => {
      const rows = data.differences.filter((row) => row.metric === metrics[metric].key);
      const reach = Math.max(1e-9, ...rows.flatMap((row) => [Math.abs(row.low), Math.abs(row.high)]));
      return h("tbody", {}, rows.map((row, place) => differenceRow(row, metric, place, rows.length, reach)));
    });
    body.replaceChildren(h("table", { class: "differences" }, h("thead", {}, h("tr", {},
      ["Metric", "System − baseline", "Difference", level ? `${percent(level)} interval` : "Interval", "", "p", "p (Holm)", "Better"]
        .map((text, place) => h("th", { scope: "col", class: [2, 3, 5, 6].includes(place) ? "number" : null }, text)))), groups));
  };
  draw();
  section.append(h("h2", {}, "Differences"), tools, body, h("p", { class: "note" },
    `${data.test}. p-values are two-sided; Holm's correction runs over the systems compared on a metric. “Better” names the winner at the ${percent(1 - level)} level after correction.`));
  section.hidden = false;
}
function differenceRow(row, metric, place, rows, reach) {
  const [one, other] = [row.system, row.baseline].map((name) => systems.findIndex((system) => system.name === name));
  const winner = systems.findIndex((system) => system.name === row.better);
  return h("tr", {}, place === 0 && h("th", { scope: "rowgroup", rowspan: rows }, metrics[metric].label, h("div", {}, direction(metric))),
    h("td", {}, swatch(one), row.system, h("span", { class: "quiet" }, " − "), swatch(other), row.baseline),
    h("td", { class: "number value" }, showSigned(row.difference)), h("td", { class: "number" }, `${showSigned(row.low)} … ${showSigned(row.high)}`),
    h("td", { class: "wide" }, intervalBar({ value: row.difference, low: row.low, high: row.high }, [-reach, reach], row.better ? color(winner) : "var(--quiet)", 0)),
    h("td", { class: "number" }, showP(row.p)), h("td", { class: "number" }, showP(row.p_holm)),
    h("td", {}, row.better ? h("strong", {}, swatch(winner), row.better) : h("span", { class: "quiet" }, "not significant")));
}
