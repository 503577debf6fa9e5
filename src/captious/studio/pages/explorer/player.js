// Videos of items: a player with a poster, the track of events, and the keys of both.

const CONVERT = "ffmpeg -i x -c:v libx264 -pix_fmt yuv420p y.mp4";
// A frame of a clip whose rate is not known.
const FRAME = 1 / 25;
const still = matchMedia("(prefers-reduced-motion: reduce)");
// The video in the whole item: its player, its track, and what its keys have chosen.
let watched = null;

// Instead of a player: why it does not play, and frames of the video.
function unplayable({ strip, id }) {
  const frames = strip && h("img", { class: "strip", src: strip, alt: `Frames of the video of item ${id}`, onerror: () => frames.remove() });
  return h("div", { class: "unplayable" }, h("p", { role: "status" }, "Your browser may not play this kind of video; convert it with ", h("code", {}, CONVERT)), frames);
}

function clip(record, whole = false) {
  const { video: address, poster, part, id } = record;
  if (!address) return record.has_video ? unplayable(record) : null;
  const player = h("video", { class: "clip", controls: true, playsinline: true, preload: poster && !whole ? "none" : "metadata", poster, src: part ? `${address}#t=${part.join()}` : address,
    "aria-label": describe(record), onclick: (event) => event.stopPropagation() });
  player.muted = true;  // the attribute counts only where the parser creates the element
  player.addEventListener("loadedmetadata", () => player.setAttribute("aria-label", describe(record, player)));
  clips.whenUnplayable(player, () => player.replaceWith(unplayable(record)));
  return player;
}

const secondsOf = (record, player) => (Number.isFinite(player?.duration) ? player.duration : record.duration);
function describe(record, player, chosen = "") {
  const length = secondsOf(record, player);
  return [`Video of item ${record.id}`, length && plural(Math.round(length), "second"), chosen].filter(Boolean).join(", ");
}

// The lanes of the track: references above, then each system. A caption has the number of the reference that it matches.
function lanesOf(record) {
  const lane = (who, system, events, texts, matched) => ({ who, system, events: events.map((times, place) => times && { times, text: texts[place] ?? "", ...matched(times, place) }).filter(Boolean).sort((one, other) => one.times[0] - other.times[0]) });
  const order = [...record.events.keys()].filter((place) => record.events[place]).sort((one, other) => record.events[one][0] - record.events[other][0] || one - other);
  const number = (place) => order.indexOf(place) + 1;
  const lanes = [lane("references", null, record.events, record.references, (_, place) => ({ number: number(place), reference: place }))];
  record.systems.forEach((own, system) => lanes.push(lane(several ? systems[system].name : "captions", system, own.events || [], own.texts, (times, candidate) => {
    const at = own.matches.findIndex(([one]) => one === candidate), match = own.matches[at];
    return { candidate, at, number: match && number(match[1]), iou: match?.[2], meteor: own.meteors?.[at] ?? undefined };
  })));
  if (!lanes.some(({ events }) => events.length) && record.part && record.has_video) lanes[0] = { who: "this item", system: null, part: true, events: [{ times: record.part, text: "", number: 1 }] };
  return lanes.filter(({ events }) => events.length);
}

// Events that overlap lie in rows below one another.
function rowsOf(events) {
  const ends = [];
  return events.map(({ times: [start, end] }) => {
    const free = ends.findIndex((last) => last <= start), row = free < 0 ? ends.length : free;
    ends[row] = end;
    return row;
  });
}

function track(record, player) {
  const lanes = lanesOf(record), last = Math.max(0, ...lanes.flatMap(({ events }) => events.map(({ times }) => times[1])));
  if (!lanes.length) { watched = { record, player, lanes, lane: null, event: null, loop: false }; return null; }
  const length = () => Math.max(secondsOf(record, player) || 0, last) || 1;
  const time = (seconds) => clips.time(seconds, length());
  const status = h("p", { class: "quiet", role: "status" });
  const bars = [], now = h("i", { class: "now" });
  const place = () => { for (const [bar, { times: [start, end] }] of bars) { bar.style.left = `${(100 * start) / length()}%`; bar.style.width = `max(14px, ${(100 * (end - start)) / length()}%)`; } };
  const name = (lane, event) => `${lane.who}, event ${lane.events.indexOf(event) + 1} of ${lane.events.length}, ${time(event.times[0])} to ${time(event.times[1])}`;
  const facts = (event) => [event.iou !== undefined && `IoU ${show(event.iou, 2)} with reference ${event.number}`, event.meteor !== undefined && `METEOR ${show(event.meteor, 1)}`].filter(Boolean).join(", ");
  const choose = (lane, event, playing = true) => {
    Object.assign(watched, { lane, event });
    for (const [bar, other] of bars) bar.toggleAttribute("data-current", other === event);
    for (const row of byId("full").querySelectorAll(".event")) row.toggleAttribute("data-current", row.dataset.event === keyOfEvent(lane, event));
    const said = name(lane, event);
    player?.setAttribute("aria-label", describe(record, player, `event ${lane.events.indexOf(event) + 1} of ${lane.events.length}`));
    status.textContent = [`${said}`, event.text && `“${event.text}”`, facts(event)].filter(Boolean).join(" · ");
    if (playing && player) clips.playPart(player, ...event.times, () => watched?.player === player && watched.loop && !still.matches);
  };
  const bar = (lane, event, row) => {
    const told = () => [h("b", {}, name(lane, event)), event.text, facts(event)];
    const element = h("a", { class: `bar${event.number ? "" : " alone"}`, href: record.video ? `${record.video}#t=${event.times.join()}` : null, role: "button", tabindex: 0, "aria-label": [name(lane, event), event.number && lane.system !== null ? `matches reference ${event.number}` : "", event.text].filter(Boolean).join(", "),
      onclick: (click) => { if (click.ctrlKey || click.metaKey || click.shiftKey) return; click.preventDefault(); choose(lane, event); },
      onkeydown: (press) => { if (press.key === " " || press.key === "Enter") { press.preventDefault(); press.stopPropagation(); choose(lane, event); } },
      onpointermove: (move) => tell(move, told()), onpointerleave: hush },
    event.number || "");
    element.style.top = `${22 * row}px`;
    if (lane.system !== null) element.style.background = color(lane.system);
    bars.push([element, event]);
    return element;
  };
  const drawn = lanes.map((lane) => {
    const rows = rowsOf(lane.events), body = h("div", { class: "bars" }, lane.events.map((event, at) => bar(lane, event, rows[at])));
    body.style.height = `${22 * (Math.max(...rows) + 1)}px`;
    return h("div", { class: "lane", role: "group", "aria-label": `Events: ${lane.who}` }, h("span", { class: "who" }, lane.system === null ? null : swatch(lane.system), lane.who), body);
  });
  const end = h("span", {}, time(length()));
  const step = (by) => h("button", { type: "button", class: "plain", onclick: () => stepEvent(by), "aria-label": by < 0 ? "Previous event" : "Next event", title: by < 0 ? "Previous event  [" : "Next event  ]" }, by < 0 ? "‹ event" : "event ›");
  const loop = h("button", { type: "button", class: "plain", "aria-pressed": "false", title: "Repeat the event  L", onclick: () => toggleLoop() }, "Loop");
  watched = { record, player, lanes, lane: lanes.find(({ system }) => system !== null) ?? lanes[0], event: null, loop: false, choose, status, button: loop };
  const move = () => { now.style.left = `${(100 * clamp((player?.currentTime || 0) / length(), 0, 1))}%`; };
  for (const kind of ["timeupdate", "seeking"]) player?.addEventListener(kind, move);
  player?.addEventListener("loadedmetadata", () => { place(); end.textContent = time(length()); });
  place();
  move();
  return h("section", { class: "timeline", "aria-label": `Events of item ${record.id}` },
    h("div", { class: "scale" }, h("span", {}, time(0)), end), h("div", { class: "lanes" }, drawn, h("div", { class: "over" }, now)),
    player && h("div", { class: "actions" }, step(-1), step(1), loop), status);
}

const keyOfEvent = (lane, event) => `${lane.system ?? ""}:${event.candidate ?? event.reference ?? 0}`;

// The captions of an item with their times: a click on a time plays the event.
function timed(system, texts, draw) {
  const lane = watched?.lanes.find((one) => one.system === system && !one.part);
  if (!lane || !texts.length) return null;
  const length = secondsOf(watched.record, watched.player) || Math.max(...watched.lanes.flatMap(({ events }) => events.map(({ times }) => times[1])));
  const { choose } = watched;
  return h("ol", { class: "events" }, lane.events.map((event) => h("li", { class: "event", "data-event": keyOfEvent(lane, event) },
    h("span", { class: event.number ? "number" : "number alone", title: event.number && system !== null ? `matches reference ${event.number}` : null }, event.number || "–"),
    h("button", { type: "button", class: "link when", "aria-label": `Play ${clips.time(event.times[0], length)} to ${clips.time(event.times[1], length)}`, onclick: () => choose(lane, event) }, `${clips.time(event.times[0], length)}–${clips.time(event.times[1], length)}`),
    h("span", { class: "what", dir: "auto", lang: language }, draw(event.text)),
    system !== null && h("span", { class: "quiet score-of", title: event.iou === undefined ? null : `IoU ${show(event.iou, 2)} with reference ${event.number}` }, scoreOfMatch(event)))));
}
const scoreOfMatch = ({ iou, meteor }) => (iou === undefined ? "" : meteor === undefined ? `IoU ${show(iou, 2)}` : `METEOR ${show(meteor, 1)}`);

// METEOR of the matches comes later: its tables take a while to load.
function learnMeteor(record) {
  const lanes = watched?.lanes.filter(({ system }) => system !== null && record.systems[system].matches.length) ?? [];
  if (!source.meteor || !lanes.length) return;
  const own = watched;
  source.meteor(record.item).then((meteors) => {
    if (watched !== own) return;
    for (const lane of lanes) for (const event of lane.events) {
      event.meteor = meteors[lane.system][event.at] ?? undefined;
      const cell = [...byId("full").querySelectorAll(".event")].find((row) => row.dataset.event === keyOfEvent(lane, event))?.querySelector(".score-of");
      if (cell) cell.textContent = scoreOfMatch(event);
    }
  }, () => {});
}

function stepEvent(by) {
  if (!watched?.lane) return;
  const { events } = watched.lane, at = events.indexOf(watched.event);
  const next = at < 0 ? (by > 0 ? 0 : events.length - 1) : at + by;
  if (events[next]) watched.choose(watched.lane, events[next]);
}
function toggleLoop() {
  if (!watched?.status) return;
  if (still.matches) { watched.status.textContent = "No loop: this device asks for reduced motion."; return; }
  watched.loop = !watched.loop;
  watched.button.setAttribute("aria-pressed", String(watched.loop));
  if (watched.loop && watched.event) watched.choose(watched.lane, watched.event);
}

// The frame before or after the current one: by the times of the frames if something behind the page knows them.
async function stepFrame(player, by) {
  player.pause();
  const item = player.closest("[data-item]")?.dataset.item ?? fullItem;
  const times = source.times ? await source.times(item).catch(() => null) : null, now = player.currentTime;
  if (!times?.length) { player.currentTime = clamp(now + by * FRAME, 0, player.duration || Infinity); return; }
  const at = times.filter((time) => time <= now + 1e-4).length - 1, wanted = clamp(at + by, 0, times.length - 1);
  const next = times[wanted + 1] ?? times[wanted] + FRAME;
  player.currentTime = times[wanted] + Math.min(0.002, (next - times[wanted]) / 2);  // just behind its start, where rounding shows the frame before
}

const shownPlayer = () => document.querySelector(byId("full").open ? "#full video.clip, #full audio" : `[data-item="${CSS.escape(String(current()))}"] :is(video.clip, audio)`);
function clipKeys() {
  const player = shownPlayer();
  if (!player) return {};
  const jump = (by) => { player.currentTime = clamp(player.currentTime + by, 0, player.duration || Infinity); };
  const keys = { p: () => clips.toggle(player) };
  if (player.tagName !== "VIDEO") return keys;
  return { ...keys, ArrowLeft: () => jump(-1), ArrowRight: () => jump(1), ",": () => stepFrame(player, -1), ".": () => stepFrame(player, 1),
    m: () => { player.muted = !player.muted; }, ...(byId("full").open ? { "[": () => stepEvent(-1), "]": () => stepEvent(1), l: toggleLoop } : {}) };
}
