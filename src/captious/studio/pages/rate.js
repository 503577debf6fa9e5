// The rater's page with scripts: keys, time, an outbox that loses nothing, and captions that can be dragged.
// Without this file every page still works: a form is sent, and the next page comes.
// @ts-check

/* global clips */

/** @typedef {{ key: string, page: string, body: string, answer: string }} Entry  An answer on its way to the server. */

/** @type {<T extends HTMLElement>(id: string) => T} */
const byId = (id) => /** @type {any} */ (document.getElementById(id));
const form = /** @type {HTMLFormElement | null} */ (document.getElementById("answer"));
const status = byId("status");
const owner = form?.dataset.session ?? status.dataset.session ?? "";
const page = form?.dataset.page ?? "";
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

// ---- Status, in the words of the page's language

/** @type {Record<string, string>} */
const words = JSON.parse(status.dataset.words ?? "{}");

/** @param {string} name @param {Record<string, string | number>} values */
function word(name, values = {}) {
  return words[name].replace(/{(\w+)}/g, (_, key) => String(values[key]));
}

/** @param {string} text @param {"" | "good" | "bad"} tone */
function say(text, tone = "") {
  status.textContent = text;
  status.dataset.tone = tone;
}

/** Remember in this tab that an answer was saved: the page that follows says it, since this one is left at once. @param {boolean} saved */
function tell(saved) {
  try {
    const told = sessionStorage.getItem("captious saved") !== null;
    if (saved) sessionStorage.setItem("captious saved", "1");
    else sessionStorage.removeItem("captious saved");
    return told;
  } catch {
    return false; // a browser that keeps nothing
  }
}

// ---- What the browser keeps: answers that are not sent yet, a draft and the time of each page

/** @type {<T>(name: string, otherwise: T) => T} */
function recall(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`captious ${owner} ${name}`) ?? "null") ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** @param {string} name @param {unknown} value */
function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(`captious ${owner} ${name}`);
    else localStorage.setItem(`captious ${owner} ${name}`, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing still sends what is on the page.
  }
}

// ---- Time: by a clock that only goes forward, without the time in which the page is hidden

let leaving = false;
let spent = recall(`time ${page}`, 0);
let since = document.hidden ? null : performance.now();

function seconds() {
  return spent + (since === null ? 0 : (performance.now() - since) / 1000);
}

document.addEventListener("visibilitychange", () => {
  spent = seconds();
  since = document.hidden ? null : performance.now();
  if (form && !leaving) keep(`time ${page}`, spent);
});

// ---- The outbox: answers leave in their order, each with the key of its own page, until the server confirms them

/** @type {Entry[]} */
let unsent = recall("outbox", []);
let sending = false;
let pause = 1000;
let timer = 0;

/** @param {Entry} entry */
function post(entry) {
  unsent = [...recall("outbox", unsent).filter((other) => other.key !== entry.key), entry];
  keep("outbox", unsent);
  void send();
}

/** @param {Entry} entry */
function remove(entry) {
  unsent = recall("outbox", unsent).filter((other) => other.key !== entry.key || other.body !== entry.body);
  keep("outbox", unsent.length ? unsent : null);
}

async function send() {
  if (sending) return;
  sending = true;
  clearTimeout(timer);
  let next = "";
  while (unsent.length) {
    const entry = unsent[0];
    say(word("saving"));
    const reply = await deliver(entry);
    if (reply.again) {
      say(reply.message, "bad");
      timer = setTimeout(send, reply.after || pause);
      pause = Math.min(2 * pause, 15000);
      sending = false;
      return;
    }
    pause = 1000;
    remove(entry);
    if (reply.gaps) {
      if (entry.page === page) showGaps(reply.gaps);
      continue;
    }
    if (reply.message) {
      say(reply.message, "bad");
      continue;
    }
    keep(`draft ${entry.page}`, null);
    keep(`time ${entry.page}`, null);
    say(word("saved"), "good");
    if (entry.page === page || !form) next = reply.next;
  }
  sending = false;
  if (!next) return;
  leaving = true;
  tell(true);
  location.assign(next);
}

/** @param {Entry} entry @returns {Promise<{again?: boolean, after?: number, message: string, gaps?: any, next: string}>} */
async function deliver(entry) {
  const lost = { again: true, message: word("will_retry"), next: "" };
  try {
    const reply = await fetch("/task", {
      method: "POST",
      body: entry.body,
      headers: { Accept: "application/json", "Content-Type": "application/x-www-form-urlencoded" },
      signal: AbortSignal.timeout(20000),
    });
    const said = await reply.json();
    if (reply.ok) return { message: "", next: said.next };
    if (said.gaps) return { message: "", gaps: said.gaps, next: "" };
    if (reply.status === 429) return { ...lost, after: 1000 * Number(reply.headers.get("retry-after") ?? 1) };
    if (reply.status >= 500) return lost;
    if (reply.status === 403) return { ...lost, message: word("not_saved_yet_reason", { reason: said.error }) };
    return { message: word("not_saved_reason", { reason: said.error }), next: "" };
  } catch {
    return lost;
  }
}

addEventListener("online", () => {
  pause = 1000;
  void send();
});
// Another tab may have put an answer there, or sent one.
addEventListener("storage", () => {
  unsent = recall("outbox", []);
});
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload(); // a page out of the browser's memory has an old key
});
if (tell(false) && !status.textContent) say(word("saved"), "good");
if (unsent.length) void send();

if (form) enhance(form);

/** @param {HTMLFormElement} form */
function enhance(form) {
  const kind = form.dataset.kind ?? "";
  const own = ["key", "csrf", "seconds"];
  for (const element of document.querySelectorAll(".scripted, .movers, #help-button")) element.removeAttribute("hidden");

  /** The answer alone, without what belongs to the page. */
  const fields = () => [...new FormData(form)].filter(([name]) => !own.includes(name)).map(([name, value]) => [name, String(value)]);
  const groups = () => /** @type {HTMLElement[]} */ ([...form.querySelectorAll("[data-field]")]);
  /** @param {HTMLElement} group */
  const inputs = (group) => /** @type {HTMLInputElement[]} */ ([...group.querySelectorAll("input")]);
  /** @param {HTMLElement} group */
  const answered = (group) => inputs(group).some((input) => input.checked || (input.type === "number" && input.value !== ""));

  // ---- A draft, so that a reload or a closed tab costs nothing

  const draft = recall(`draft ${page}`, /** @type {string[][] | null} */ (null));
  if (draft && byId("gaps").hidden) {
    for (const [name, value] of draft) {
      for (const input of /** @type {NodeListOf<HTMLInputElement>} */ (form.querySelectorAll(`[name="${CSS.escape(name)}"]`))) {
        if (input.type === "radio" || input.type === "checkbox") input.checked = input.value === value;
        else if (input.type !== "hidden") input.value = value;
      }
    }
  }
  form.addEventListener("input", () => keep(`draft ${page}`, fields()));

  // ---- What the rater folds away stays folded; on a phone everything is folded at first, so that the scale is visible

  const phone = window.matchMedia("(max-width: 640px)").matches;
  for (const fold of /** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll("[data-fold]"))) {
    fold.open = recall(`fold ${fold.dataset.fold}`, fold.open && !phone);
    fold.querySelector("summary")?.addEventListener("click", () => keep(`fold ${fold.dataset.fold}`, !fold.open));
  }

  // ---- Sending

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (video?.refuses()) return;
    const gaps = groups().filter((group) => !answered(group)).map((group) => ({ field: group.dataset.field, message: group.dataset.gap }));
    showGaps(gaps);
    if (gaps.length) return;
    const answer = JSON.stringify(fields());
    const key = /** @type {HTMLInputElement} */ (form.elements.namedItem("key")).value;
    if (unsent.some((entry) => entry.key === key && entry.answer === answer)) {
      void send(); // a second click
      return;
    }
    /** @type {HTMLInputElement} */ (form.elements.namedItem("seconds")).value = seconds().toFixed(1);
    const body = new URLSearchParams([...new FormData(form)].map(([name, value]) => [name, String(value)])).toString();
    post({ key, page, body, answer });
  });

  // ---- Keys

  let current = 0;
  form.addEventListener("focusin", (event) => {
    const group = /** @type {HTMLElement} */ (event.target).closest("[data-field]");
    if (group) current = groups().indexOf(/** @type {HTMLElement} */ (group));
  });

  /** @param {number} index */
  function go(index) {
    const all = groups();
    current = Math.max(0, Math.min(index, all.length - 1));
    const choices = inputs(all[current]);
    (choices.find((input) => input.checked) ?? choices[0]).focus({ preventScroll: true });
    reveal(all[current].closest(".card") ?? all[current]);
  }

  /** @param {HTMLInputElement} input */
  function choose(input) {
    if (input.type === "checkbox") input.checked = !input.checked;
    else input.checked = true;
    input.focus({ preventScroll: true });
    input.dispatchEvent(new Event("input", { bubbles: true }));
    input.dispatchEvent(new Event("change", { bubbles: true }));
  }

  /** @type {Record<string, () => void>} */
  const page_keys = {
    Enter: () => form.requestSubmit(),
    "?": () => /** @type {HTMLDialogElement} */ (byId("help")).showModal(),
    u: () => document.getElementById("back")?.click(),
    Backspace: () => document.getElementById("back")?.click(),
    p: play,
  };

  const video = watchable(form);
  function play() {
    const sound = /** @type {HTMLAudioElement | null} */ (document.getElementById("sound"));
    if (video) video.play();
    else if (sound?.paused) void sound.play().catch(() => sound.focus());
    else sound?.pause();
  }

  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const writing = target.matches("textarea, input[type=number]");
    if (target.closest("dialog") || event.isComposing || event.metaKey) return;
    if (target.matches("audio, video") && / |Enter|Arrow|Home|End/.test(event.key)) return; // a player has keys of its own
    if (writing && !(event.key === "Enter" && (event.ctrlKey || target.matches("input")))) return;
    if (event.ctrlKey && event.key !== "Enter") return;
    const pressable = target.matches("summary, a, button");
    const act = pressable && event.key === "Enter" ? undefined : (move(event) ?? pick(event.key) ?? page_keys[event.key]);
    if (!act || event.repeat) return;
    event.preventDefault();
    if (!Object.values(page_keys).includes(act) && video?.refuses()) return;
    act();
  });

  /** @param {KeyboardEvent} event @returns {(() => void) | undefined} */
  function move(event) {
    const steps = { ArrowUp: -1, ArrowDown: 1 };
    const step = steps[/** @type {"ArrowUp"} */ (event.key)];
    if (kind === "pairs") {
      const order = document.dir === "rtl" ? ["ArrowRight", "ArrowLeft"] : ["ArrowLeft", "ArrowRight"];
      const side = order.indexOf(event.key);
      const sides = inputs(groups()[0]);
      return side < 0 ? undefined : () => choose(sides[side]);
    }
    if (!step || kind === "labels") return undefined;
    const button = event.altKey && groups()[current].querySelector(`[data-move="${step}"]`);
    if (button) return () => /** @type {HTMLElement} */ (button).click();
    return event.altKey ? undefined : () => go(document.activeElement?.closest("[data-field]") ? current + step : current);
  }

  /** @param {string} key @returns {(() => void) | undefined} */
  function pick(key) {
    const scope = kind === "pairs" || kind === "labels" ? form : groups()[current];
    const input = /** @type {HTMLInputElement | undefined} */ ([...scope.querySelectorAll("[data-key]")].find((one) => one.getAttribute("data-key") === key));
    if (!input) return undefined;
    return () => {
      choose(input);
      if (kind === "labels") form.requestSubmit();
      else if (kind !== "pairs" && current + 1 < groups().length) go(current + 1);
    };
  }

  byId("help-button").addEventListener("click", page_keys["?"]);
  if (kind === "labels") {
    form.addEventListener("click", (event) => {
      // A tap saves; the arrow keys, which make clicks of their own, only choose.
      if (event.detail > 0 && /** @type {HTMLElement} */ (event.target).matches("input[type=radio]")) form.requestSubmit();
    });
  }
  if (kind === "ranking") rank(form);
  const limit = Number(form.dataset.limit ?? 0);
  if (limit && !("answered" in form.dataset)) watch(limit);
  const first = groups().find((group) => !answered(group)) ?? groups()[0];
  const start = inputs(first).find((input) => input.checked) ?? inputs(first)[0];
  if (video?.closed()) video.focus();
  else if (byId("gaps").hidden && matchMedia("(hover: hover)").matches) start?.focus({ preventScroll: true });
}

// ---- A video: its events, what a browser says that does not play it, and answers that open when it has been watched

/** @param {HTMLFormElement} form */
function watchable(form) {
  const clip = /** @type {HTMLVideoElement | null} */ (document.getElementById("clip"));
  if (!clip) return null;
  const events = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".events button")]);
  const hint = document.getElementById("watch");
  /** @param {HTMLElement} button */
  const times = (button) => [Number(button.dataset.start), Number(button.dataset.end)];
  /** The part that the page is about: one event, or all of the video. */
  const part = () => ("part" in clip.dataset && events.length ? times(events[0]) : [0, clip.duration || 0]);
  let closed = "watch" in form.dataset && !("answered" in form.dataset) && !recall(`watched ${page}`, false);

  function describe() {
    const length = clip.duration || Math.max(0, ...events.map((button) => times(button)[1]));
    clip.setAttribute("aria-label", word("video_length", { seconds: Math.round(length) }));
    events.forEach((button, place) => {
      const [start, end] = times(button);
      const values = { number: place + 1, total: events.length, start: clips.time(start, length), end: clips.time(end, length) };
      button.textContent = `${values.start}–${values.end}`;
      button.setAttribute("aria-label", word("event_of", values));
    });
  }
  events.forEach((button) => button.addEventListener("click", () => {
    const [start, end] = times(button);
    clips.playPart(clip, start, end);
    for (const other of events) other.toggleAttribute("data-current", other === button);
  }));

  /** @param {string} text */
  function open(text) {
    if (!closed) return;
    closed = false;
    keep(`watched ${page}`, true);
    form.toggleAttribute("data-closed", false);
    if (hint) hint.hidden = true;
    say(text, "good");
    if (document.activeElement === clip) form.querySelector("[data-field]")?.querySelector("input")?.focus({ preventScroll: true });
  }
  function check() {
    const [start, end] = part();
    if (closed && end > start && clip.currentTime >= end - 0.3 && clips.wasPlayed(clip, start, end)) open(word("watched"));
  }
  for (const name of ["timeupdate", "pause", "ended"]) clip.addEventListener(name, check);

  clips.whenUnplayable(clip, () => {
    const strip = document.createElement("img");
    strip.alt = word("frames_of_video");
    strip.className = "strip";
    strip.addEventListener("error", () => strip.remove());
    if (clip.dataset.strip) strip.src = clip.dataset.strip;
    const why = document.createElement("p");
    why.className = "hint";
    why.setAttribute("role", "status");
    why.textContent = word("cannot_play");
    clip.replaceWith(why, ...(clip.dataset.strip ? [strip] : []));
    for (const button of events) button.hidden = true;
    open(word("cannot_play"));
  });

  // A click, or a key that the browser understands itself, changes nothing while the answers are closed.
  for (const name of ["click", "beforeinput"]) {
    form.addEventListener(name, (event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (closed && target.closest(".judge") && target.closest("input, textarea, label, button")) {
        event.preventDefault();
        event.stopImmediatePropagation();
        if (event.type === "beforeinput" || target.matches("input, textarea, button")) say(word("watch_first"), "bad");
      }
    }, true);
  }

  clip.addEventListener("loadedmetadata", describe);
  describe();
  if (hint) hint.hidden = !closed;
  form.toggleAttribute("data-closed", closed);

  return {
    play() {
      const [start, end] = part();
      if (clip.paused && "part" in clip.dataset && events.length && (clip.currentTime < start || clip.currentTime >= end - 0.05)) clips.playPart(clip, start, end);
      else clips.toggle(clip);
    },
    closed: () => closed,
    focus: () => clip.focus({ preventScroll: true }),
    /** Whether answers are still closed; then it says so. */
    refuses() {
      if (closed) {
        say(word("watch_first"), "bad");
        clip.focus();
      }
      return closed;
    },
  };
}

/** Say once that the time of a task is over; it is a hint, and the answer is taken.  @param {number} limit */
function watch(limit) {
  const left = limit - seconds();
  if (left > 0) setTimeout(watch, 1000 * Math.min(left + 0.05, 3600), limit);
  else if (status.dataset.tone !== "bad" && !sending) say(word("time_over"));
}

/** @param {Element} element */
function reveal(element) {
  element.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
}

// ---- What is missing is named, and the first of it gets the focus

/** @param {{ field?: string, message?: string }[]} gaps */
function showGaps(gaps) {
  const box = byId("gaps");
  box.hidden = gaps.length === 0;
  for (const group of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-field]"))) {
    const gap = gaps.find((one) => one.field === group.dataset.field);
    group.toggleAttribute("data-missing", gap !== undefined);
    const lack = group.querySelector(".lack");
    if (lack) lack.textContent = gap?.message ?? "";
  }
  const list = /** @type {HTMLElement} */ (box.querySelector("ul"));
  list.replaceChildren(...gaps.map((gap) => {
    const item = document.createElement("li");
    item.textContent = gap.message ?? "";
    return item;
  }));
  const first = /** @type {HTMLElement | null} */ (document.querySelector("[data-missing]"));
  if (!gaps.length) return;
  say(word("not_saved_missing"), "bad");
  first?.querySelector("input")?.focus({ preventScroll: true });
  if (first) reveal(first.closest(".card") ?? first);
}

// ---- Ranking: numbers, buttons and dragging say the same thing; the numbers are what is sent

/** @param {HTMLFormElement} form */
function rank(form) {
  const cards = byId("cards");
  const all = () => /** @type {HTMLElement[]} */ ([...cards.children]);
  /** @param {HTMLElement} card */
  const number = (card) => Number(/** @type {HTMLInputElement | null} */ (card.querySelector("input:checked"))?.value ?? 0);
  const ties = "ties" in cards.dataset;

  /** @param {HTMLElement} card @param {number} place */
  function give(card, place) {
    for (const input of card.querySelectorAll("input")) input.checked = Number(input.value) === place;
  }

  /** Number the captions from top to bottom. */
  function count() {
    all().forEach((card, index) => give(card, index + 1));
    form.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** Bring the captions into the order of their numbers; those without one stay behind. */
  function sort() {
    cards.append(...all().sort((a, b) => (number(a) || Infinity) - (number(b) || Infinity)));
  }

  let before = 0;
  form.addEventListener("pointerdown", (event) => remember(event));
  form.addEventListener("keydown", (event) => remember(event), true);
  /** @param {Event} event */
  function remember(event) {
    const card = /** @type {HTMLElement} */ (event.target).closest(".rank");
    if (card) before = number(/** @type {HTMLElement} */ (card));
  }

  form.addEventListener("change", (event) => {
    const input = /** @type {HTMLInputElement} */ (event.target);
    const card = /** @type {HTMLElement | null} */ (input.closest(".rank"));
    if (!card || ties) return;
    const other = all().find((one) => one !== card && number(one) === Number(input.value));
    if (other) give(other, before); // two captions change places
    before = number(card);
  });

  for (const button of /** @type {NodeListOf<HTMLElement>} */ (cards.querySelectorAll("[data-move]"))) {
    button.addEventListener("click", () => {
      sort();
      const card = /** @type {HTMLElement} */ (button.closest(".rank"));
      const neighbour = all()[all().indexOf(card) + Number(button.dataset.move)];
      if (neighbour && button.dataset.move === "1") neighbour.after(card);
      else if (neighbour) neighbour.before(card);
      count();
      button.focus();
      say(word("moved", { caption: card.querySelector("legend")?.textContent ?? "", place: number(card), total: all().length }));
    });
  }

  for (const handle of /** @type {NodeListOf<HTMLElement>} */ (cards.querySelectorAll(".handle"))) {
    const card = /** @type {HTMLElement} */ (handle.closest(".rank"));
    /** @param {PointerEvent} event */
    const drag = (event) => {
      const middle = (/** @type {HTMLElement} */ one) => one.getBoundingClientRect().top + one.offsetHeight / 2;
      const last = all().filter((one) => one !== card && middle(one) < event.clientY).at(-1);
      if (last && last.nextElementSibling !== card) last.after(card);
      else if (!last && cards.firstElementChild !== card) cards.prepend(card);
    };
    const drop = () => {
      document.removeEventListener("pointermove", drag);
      card.classList.remove("moving");
      count();
    };
    // The document listens, since a card that changes its place would lose the pointer.
    handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      card.classList.add("moving");
      document.addEventListener("pointermove", drag);
      for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, drop, { once: true });
    });
  }
}
