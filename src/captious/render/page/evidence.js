// Cards behind a link: the address #open=KEY shows them in a panel, so that Back closes it and the link can be sent.

const panels = JSON.parse(byId("evidence")?.textContent || "{}");
const openedKey = () => new URLSearchParams(location.hash.slice(1)).get("open");
const panel = h("dialog", { id: "panel", "aria-labelledby": "panel-title", onclick: (event) => event.target === panel && panel.close() });
// The address before the panel was opened; closing the panel restores it without a jump.
let addressBefore = "";
panel.addEventListener("close", () => {
  if (openedKey() === null) return;
  try {
    history.replaceState(null, "", `#${addressBefore}`);
  } catch {
    // A viewer that forbids it only keeps the address.
  }
});

function openPanel() {
  const found = panels[openedKey()];
  if (!found) return panel.close();
  const cards = found.cards.map((number) => byId(`card-${number}`).content.cloneNode(true));
  panel.replaceChildren(
    h("header", {}, h("h2", { id: "panel-title" }, found.title), h("button", { type: "button", class: "toggle", onclick: () => panel.close() }, "Close ", h("kbd", {}, "Esc"))),
    found.note ? h("p", { class: "note" }, found.note) : "", h("div", { class: "cards" }, cards));
  panel.scrollTop = 0;
  if (!panel.open) panel.showModal();
  return undefined;
}

// The dots of a chart are one stop of the Tab key; arrows go from dot to dot.
function stepDots(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key], dot = document.activeElement?.closest?.(".chart a[tabindex]");
  if (!by || !dot) return;
  const dots = [...dot.closest(".chart").querySelectorAll("a[tabindex]")];
  dots[clamp(dots.indexOf(dot) + by, 0, dots.length - 1)].focus();
  event.preventDefault();
}

document.body.append(panel);
addEventListener("keydown", stepDots);
addEventListener("hashchange", (event) => {
  const before = new URL(event.oldURL).hash.slice(1);
  if (!before.startsWith("open=")) addressBefore = before;
  openPanel();
});
openPanel();
