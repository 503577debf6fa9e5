// The source of a page that holds its data itself: every answer is here at once.

const data = JSON.parse(byId("data").textContent);
const images = JSON.parse(byId("images").textContent);
const language = data.language || null;
const { systems, metrics } = data;
const several = systems.length > 1;
const everyItem = data.ids.map((_, item) => item);
const shownAt = new Map(data.shown.map((item, place) => [item, place]));
const sortedValues = remember((system, metric) => finite(data.values[system][metric]).sort((a, b) => a - b));

// The systems whose captions sort an item: those that pass the filters.
const sorting = (item) => considered().filter((system) => passes(system, item));
function scoreOf(item, metric = state.metric) {
  const values = finite(sorting(item).map((system) => data.values[system][metric][item]));
  return values.length ? mean(values) : null;
}
function gapOf(item, metric = state.metric) {
  const values = finite(data.values.map((columns) => columns[metric][item]));
  return values.length > 1 ? Math.max(...values) - Math.min(...values) : null;
}
function lengthOf(item) {
  const values = finite(sorting(item).map((system) => data.lengths[system][item]));
  return values.length ? mean(values) : null;
}
function betweenOf(item) {
  const [right, wrong] = [state.better, state.worse].map((system) => data.values[system][state.metric][item]);
  return right === null || wrong === null ? null : (metrics[state.metric].higher ? 1 : -1) * (right - wrong);
}
const rankGaps = remember((system, x, y) => {
  const [a, b] = [x, y].map((metric) => data.values[system][metric].map((value) => (value === null || metrics[metric].higher ? value : -value)));
  const both = everyItem.filter((item) => a[item] !== null && b[item] !== null);
  const [p, q] = [a, b].map((values) => ranks(both.map((item) => values[item])));
  return new Map(both.map((item, place) => [item, Math.abs(p[place] - q[place]) / Math.max(1, both.length - 1)]));
});
function disagreementOf(item) {
  const values = sorting(item).map((system) => rankGaps(system, state.x, state.y).get(item)).filter((value) => value !== undefined);
  return values.length ? mean(values) : null;
}
function ratersOf(item) {
  const values = finite(sorting(item).map((system) => data.gaps?.[system][item] ?? null));
  return values.length ? Math.max(...values) : null;
}
const unscoredBy = (system, item) => metrics.some(({ kind }, metric) => kind !== "rating" && data.values[system][metric][item] === null);

const haystacks = data.shown.map((item, place) =>
  [data.ids[item], ...data.candidates.flatMap((texts) => texts[place]), ...data.references[place]].join("\n").toLowerCase());

// A ray from a point crosses the edges of a polygon around it an odd number of times.
function inside(x, y, corners) {
  let within = false;
  corners.forEach(([x1, y1], place) => {
    const [x2, y2] = corners[(place + 1) % corners.length];
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) within = !within;
  });
  return within;
}

// Whether the caption of a system passes the filters; an item is listed for any caption that does.
function passes(system, item) {
  const [x, y, value] = [state.x, state.y, state.metric].map((metric) => data.values[system][metric][item]);
  if (state.unscored && !unscoredBy(system, item)) return false;
  if (state.lasso && (x === null || y === null || !inside(x, y, state.lasso))) return false;
  if (state.low === null && state.high === null) return true;
  return value !== null && value >= (state.low ?? -Infinity) && value <= (state.high ?? Infinity);
}

// The items to list with the value that sorts them, in order; those without one come last.
function matching() {
  const terms = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  return data.shown.filter((item, place) => terms.every((term) => haystacks[place].includes(term)) && considered().some((system) => passes(system, item)));
}
// The items whose caption by a system a chart is about.
const itemsOf = (system, chosen) => (chosen ? matching().filter((item) => passes(system, item)) : everyItem);
function sortedSelection() {
  const kept = matching();
  const better = metrics[state.metric].higher ? 1 : -1;
  const keys = {
    worst: (item) => scoreOf(item, state.metric), best: (item) => scoreOf(item, state.metric), gap: (item) => gapOf(item),
    between: betweenOf, disagree: disagreementOf, raters: ratersOf, shortest: lengthOf, longest: lengthOf, given: (item) => item,
  };
  const sign = { worst: better, best: -better, shortest: 1, given: 1 }[state.order] ?? -1;
  const keyed = kept.map((item) => [keys[state.order](item), item]);
  keyed.sort(([a, i], [b, j]) => (a === null) - (b === null) || (a === null ? 0 : sign * (a - b)) || i - j);
  return keyed;
}
const selection = () => sortedSelection().map(([, item]) => item);

function systemRecord(system, item, place) {
  const id = data.ids[item];
  return {
    texts: data.candidates[system][place], events: data.events?.[system][place] ?? [], matches: data.matches?.[system][place] ?? [], meteors: data.meteors?.[system][place] ?? [], words: data.lengths[system][item],
    values: metrics.map((_, metric) => data.values[system][metric][item]),
    shares: metrics.map((_, metric) => {
      const value = data.values[system][metric][item], sorted = sortedValues(system, metric);
      return value === null ? null : (100 * countBelow(sorted, value)) / sorted.length;
    }),
    reasons: metrics.map((_, metric) => data.reasons[system][metric][id]),
    whys: data.explanations.filter((own) => own.systems[system][item]).map((own) => ({ metric: own.metric, ...own.systems[system][item] })),
    ratings: data.ratings?.[system][item] || [], passes: !considered().includes(system) || passes(system, item),
  };
}
function record(item) {
  const place = shownAt.get(item), picture = data.pictures[place];
  return {
    item, id: data.ids[item], references: data.references[place], fields: data.fields[place],
    picture: picture === null ? null : images[picture], large: data.large && picture !== null ? data.large[picture] : null, sound: data.sounds?.[place] ?? null,
    video: data.videos?.[place] ?? null, poster: data.posters?.[place] ?? null, strip: data.strips?.[place] ?? null, has_video: Boolean(data.has_video?.[place]), part: data.part?.[place] ?? null, duration: data.duration?.[place] ?? null,
    events: data.reference_events?.[place] ?? [],
    systems: systems.map((_, system) => systemRecord(system, item, place)),
  };
}

// Spearman's rho over the items both metrics scored.
const rho = remember((system, x, y) => rhoOf(system, x, y, everyItem));
function rhoOf(system, x, y, items) {
  const [a, b] = [data.values[system][x], data.values[system][y]];
  const both = items.filter((item) => a[item] !== null && b[item] !== null);
  const [p, q] = [a, b].map((values) => ranks(both.map((item) => values[item])));
  const center = (both.length - 1) / 2;
  let cross = 0, left = 0, right = 0;
  for (let place = 0; place < both.length; place += 1) {
    cross += (p[place] - center) * (q[place] - center);
    left += (p[place] - center) ** 2;
    right += (q[place] - center) ** 2;
  }
  return left && right ? cross / Math.sqrt(left * right) : null;
}
function ranks(values) {
  const order = values.map((_, place) => place).sort((a, b) => values[a] - values[b]), found = new Float64Array(values.length);
  for (let first = 0; first < order.length;) {
    let end = first;
    while (end < order.length && values[order[end]] === values[order[first]]) end += 1;
    for (let place = first; place < end; place += 1) found[order[place]] = (first + end - 1) / 2;
    first = end;
  }
  return found;
}

const DOTS = 20000;
const thin = (items) => {
  if (items.length <= DOTS) return items;
  const stride = items.length / DOTS;
  return Array.from({ length: DOTS }, (_, place) => items[Math.floor(place * stride)]);
};

const lengthLimit = remember(() => {
  const sorted = data.lengths.flatMap(finite).sort((a, b) => a - b);
  if (!sorted.length) return [0, 1];
  const most = sorted[sorted.length - 1], usual = quantile(sorted, 0.995);
  return [Math.max(0, Math.floor(sorted[0]) - 1), Math.ceil(most > 1.5 * usual ? usual : most) + 1];
});

function lengthsOf(system, metric, domain, size, items) {
  const [words, values] = [data.lengths[system], data.values[system][metric]], bins = new Map();
  const drawable = (item) => words[item] !== null && values[item] !== null && words[item] <= domain[1] - 1;
  let beyond = 0;
  for (const item of items) {
    if (words[item] === null || values[item] === null) continue;
    if (!drawable(item)) { beyond += 1; continue; }
    const bin = Math.floor(words[item] / size);
    if (!bins.has(bin)) bins.set(bin, []);
    bins.get(bin).push(values[item]);
  }
  const steps = [...bins].sort(([a], [b]) => a - b).map(([bin, found]) => {
    found.sort((a, b) => a - b);
    return { bin, number: found.length, center: mean(found), low: quantile(found, 0.25), high: quantile(found, 0.75) };
  });
  return { beyond, steps, dots: thin(items.filter(drawable)).map((item) => [item, words[item], values[item]]) };
}

const source = {
  total: data.ids.length, listable: data.shown.length, whole: data.whole, unreadable: data.unreadable, explanations: data.explanations, rated: Boolean(data.gaps), dots: DOTS,
  idOf: (item) => data.ids[item],
  itemOf: (id) => { const item = data.ids.indexOf(id); return item < 0 ? null : item; },
  bounds(metric) {
    const ends = systems.flatMap((_, system) => { const sorted = sortedValues(system, metric); return sorted.length ? [sorted[0], sorted[sorted.length - 1]] : []; });
    return ends.length ? [Math.min(...ends), Math.max(...ends)] : null;
  },
  distribution(metric, domain, bins, chosen) {
    const width = (domain[1] - domain[0]) / bins;
    return systems.map((_, system) => {
      const tally = new Array(bins).fill(0), values = chosen ? finite(itemsOf(system, true).map((item) => data.values[system][metric][item])) : sortedValues(system, metric);
      values.forEach((value) => { tally[clamp(Math.floor((value - domain[0]) / width + 1e-9), 0, bins - 1)] += 1; });
      return { counts: tally, mean: values.length ? mean(values) : null };
    });
  },
  points: (x, y, chosen) => systems.map((_, system) => {
    const [a, b] = [data.values[system][x], data.values[system][y]], items = itemsOf(system, chosen);
    return { rho: chosen ? rhoOf(system, x, y, items) : rho(system, x, y), dots: thin(items.filter((item) => a[item] !== null && b[item] !== null)).map((item) => [item, a[item], b[item]]) };
  }),
  agreement: (chosen) => systems.map((_, system) => {
    const items = itemsOf(system, chosen), pair = remember((x, y) => (chosen ? rhoOf(system, x, y, items) : rho(system, x, y)));
    return metrics.map((_, x) => metrics.map((_, y) => (x === y ? 1 : pair(Math.min(x, y), Math.max(x, y)))));
  }),
  lengths(metric, chosen) {
    const domain = lengthLimit(), size = Math.max(1, Math.ceil((domain[1] - domain[0]) / 18));
    return { domain, size, systems: systems.map((_, system) => lengthsOf(system, metric, domain, size, itemsOf(system, chosen))) };
  },
  unscored: () => data.shown.filter((item) => considered().some((system) => unscoredBy(system, item))).length,
  list(first, number) {
    const listed = sortedSelection();
    const start = clamp(first, 0, Math.max(0, Math.floor((listed.length - 1) / number) * number));
    return { total: listed.length, first: start, records: listed.slice(start, start + number).map(([value, item]) => ({ ...record(item), sorted_by: value })) };
  },
  place: (item) => selection().indexOf(item),
  openable: (item) => shownAt.has(item),
  caption: (system, item) => (shownAt.has(item) ? data.candidates[system][shownAt.get(item)] : null),
  item: record,
};
