// The numbers of a page without a server: those that captious computed for all captions, and for a selection means over items,
// from the values that the page holds. A mean has no interval here: one made in another way would contradict captious view.

const FLIPS = 2000;

// Approximate randomization of differences; the same items give the same p.
function flipped(gaps) {
  const observed = Math.abs(gaps.reduce((sum, gap) => sum + gap, 0)) * (1 - 1e-12), rounds = clamp(Math.floor(4e6 / gaps.length), 200, FLIPS);
  let seed = 12345, extreme = 0;
  const bit = () => { seed ^= seed << 13; seed ^= seed >>> 17; seed ^= seed << 5; return seed < 0; };
  for (let round = 0; round < rounds; round += 1) {
    let sum = 0;
    for (const gap of gaps) sum += bit() ? gap : -gap;
    if (Math.abs(sum) >= observed) extreme += 1;
  }
  return (1 + extreme) / (1 + rounds);
}

const meanOf = (values) => ({ value: values.length ? mean(values) : null, low: null, high: null });
source.summary = () => {
  const chosen = filtered(), metric = state.metric, human = metrics[metric].kind === "rating" ? undefined : humanScore();
  const values = (system, score, items) => finite(items.map((item) => data.values[system][score][item]));
  const own = new Map(considered().map((system) => [system, itemsOf(system, chosen).filter((item) => data.candidates[system][shownAt.get(item)].length)]));
  const whole = (system, score) => (chosen ? meanOf(sortedValues(system, score)).value : null);
  const numbers = (system, score, items) => (chosen ? meanOf(values(system, score, items)) : data.whole[score].systems[system]);
  const found = [...own].map(([system, items]) => {
    const record = { system, captions: items.length, ...numbers(system, metric, items), all: whole(system, metric) };
    if (human === undefined) return record;
    const ratings = values(system, human, items), agreement = rhoOf(system, metric, human, items);
    record.rating = { ...numbers(system, human, items), captions: ratings.length, all: whole(system, human) };
    if (agreement !== null) record.rho = { value: agreement, low: null, high: null, all: chosen ? rho(system, metric, human) : null };
    return record;
  });
  const [test, why] = tested(metric, own, chosen), missing = "intervals of ρ and the filter line need captious view.";
  return { items: chosen ? matching().length : source.total, systems: found, test, level: data.level, notes: [...why, chosen ? `Means over items: corpus values, intervals, ${missing}` : `${missing[0].toUpperCase()}${missing.slice(1)}`] };
};

function tested(metric, own, chosen) {
  const pair = own.size === 2 ? [...own.keys()] : state.order === "between" && own.size > 2 ? [state.better, state.worse] : [];
  if (new Set(pair).size < 2) return [null, []];
  const stored = chosen ? undefined : data.whole[metric].tests.find((test) => pair.every((system) => test.pair.includes(system)));
  if (stored) return [{ ...stored, pair }, []];
  if (state.lasso || state.low !== null || state.high !== null) return [null, ["The systems are not tested: these captions were selected by their scores."]];
  const there = new Set(own.get(pair[1])), [a, b] = pair.map((system) => data.values[system][metric]);
  const gaps = own.get(pair[0]).filter((item) => there.has(item) && a[item] !== null && b[item] !== null).map((item) => a[item] - b[item]);
  if (gaps.length < 2) return [null, ["The systems are not tested: too few items have a caption of both here."]];
  const p = flipped(gaps), ahead = mean(gaps) > 0 === metrics[metric].higher ? pair[0] : pair[1];
  return [{ pair, better: p < 0.05 ? ahead : null, p, items: gaps.length }, []];
}
