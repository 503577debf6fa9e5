// The numbers of a selection on a page without a server: means over items, from the values that the page holds.

const FLIPS = 2000;

// Student's t at 97.5 %, from its expansion about the normal (Abramowitz and Stegun 26.7.5).
function tPoint(degrees) {
  const z = 1.959964, z3 = z ** 3, z5 = z ** 5;
  return degrees === 1 ? 12.706 : degrees === 2 ? 4.303 : z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees ** 2);
}
function meanOf(values) {
  if (!values.length) return { value: null, low: null, high: null };
  const value = mean(values), number = values.length;
  if (number < 2) return { value, low: null, high: null };
  const error = Math.sqrt(values.reduce((sum, one) => sum + (one - value) ** 2, 0) / (number - 1) / number), width = tPoint(number - 1) * error;
  return { value, low: value - width, high: value + width };
}

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

source.summary = () => {
  const chosen = filtered(), metric = state.metric, human = metrics[metric].kind === "rating" ? undefined : humanScore();
  const values = (system, score, items) => finite(items.map((item) => data.values[system][score][item]));
  const own = new Map(considered().map((system) => [system, itemsOf(system, chosen).filter((item) => data.candidates[system][shownAt.get(item)].length)]));
  const whole = (system, score) => (chosen ? meanOf(sortedValues(system, score)).value : null);
  const found = [...own].map(([system, items]) => {
    const record = { system, captions: items.length, ...meanOf(values(system, metric, items)), all: whole(system, metric) };
    if (human === undefined) return record;
    const ratings = values(system, human, items), agreement = rhoOf(system, metric, human, items);
    record.rating = { ...meanOf(ratings), captions: ratings.length, all: whole(system, human) };
    if (agreement !== null) record.rho = { value: agreement, low: null, high: null, all: chosen ? rho(system, metric, human) : null };
    return record;
  });
  const [test, why] = tested(metric, own);
  return { items: chosen ? matching().length : source.total, systems: found, test, notes: [...why, "Means over items: corpus values, intervals of ρ and the filter line need captious view."] };
};

function tested(metric, own) {
  const pair = own.size === 2 ? [...own.keys()] : state.order === "between" && own.size > 2 ? [state.better, state.worse] : [];
  if (new Set(pair).size < 2) return [null, []];
  if (state.lasso || state.low !== null || state.high !== null) return [null, ["The systems are not tested: these captions were selected by their scores."]];
  const there = new Set(own.get(pair[1])), [a, b] = pair.map((system) => data.values[system][metric]);
  const gaps = own.get(pair[0]).filter((item) => there.has(item) && a[item] !== null && b[item] !== null).map((item) => a[item] - b[item]);
  if (gaps.length < 2) return [null, ["The systems are not tested: too few items have a caption of both here."]];
  const p = flipped(gaps), ahead = mean(gaps) > 0 === metrics[metric].higher ? pair[0] : pair[1];
  return [{ pair, better: p < 0.05 ? ahead : null, p, items: gaps.length }, []];
}
