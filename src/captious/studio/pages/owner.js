// The owner's page shows what comes in without reloading: parts that changed are replaced, unless somebody uses them.

const live = document.getElementById("live");
const PAUSE = 1000 * Number(live?.dataset.seconds);

/** The text of an element; of a list of links, a line with name and address for each. @param {Element} source */
const textOf = (source) =>
  source.matches("ul") ? [...source.children].map((one) => `${one.querySelector("strong").textContent} ${one.querySelector("code").textContent}`).join("\n") : source.textContent;

/** Buttons that copy the text of another element; without scripts they are not there. */
for (const button of document.querySelectorAll("[data-copy]")) {
  const source = document.querySelector(button.dataset.copy);
  button.hidden = false;
  button.addEventListener("click", async () => {
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(textOf(source));
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy by hand";
      getSelection().selectAllChildren(source);
    }
    setTimeout(() => (button.textContent = before), 2000);
  });
}

/** Whether a part is in use: a field in it has the focus, or a form in it is unfolded. @param {Element} part */
const inUse = (part) => part.contains(document.activeElement) && document.activeElement !== part || part.querySelector("details[open]") !== null;

/** Put the parts of a fragment in the place of those that differ. @param {string} text */
const update = (text) => {
  const fresh = document.createElement("template");
  fresh.innerHTML = text;
  const parts = [...fresh.content.children];
  const names = parts.map((part) => part.dataset.part);
  for (const old of [...live.children]) if (!names.includes(old.dataset.part)) old.remove();
  let before = null;
  let whole = true;
  for (const part of parts) {
    const old = live.querySelector(`:scope > [data-part="${part.dataset.part}"]`);
    if (old === null) before === null ? live.prepend(part) : before.after(part);
    else if (old.outerHTML !== part.outerHTML) inUse(old) ? (whole = false) : old.replaceWith(part);
    before = live.querySelector(`:scope > [data-part="${part.dataset.part}"]`);
  }
  return whole;
};

/** Ask for what is new. A server that is away is asked again later; the page says so. */
const refresh = async () => {
  const query = new URLSearchParams(location.search);
  query.set("version", live.dataset.version);
  try {
    const answer = await fetch(`/owner/live?${query}`, { headers: { accept: "text/html" } });
    document.body.classList.toggle("away", !answer.ok);
    if (answer.status === 200 && update(await answer.text())) live.dataset.version = answer.headers.get("x-version");
  } catch {
    document.body.classList.add("away");
  }
};

const loop = async () => {
  if (!document.hidden) await refresh();
  setTimeout(loop, PAUSE);
};

if (live !== null) {
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  setTimeout(loop, PAUSE);
}
