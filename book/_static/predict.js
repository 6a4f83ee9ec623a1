/* Predict, then reveal. What follows a "Predict" box, up to the next box or heading, stays behind a
   button until the reader asks. A box that ends its section hides the next section's text. Whoever
   follows a link into hidden text, searches for it, prints, or has no scripts sees it. */
"use strict";
(() => {
  const ALWAYS = "causalrag-always-reveal", PAGE = `causalrag-predict:${location.pathname}`;
  const kept = (key, otherwise) => {
    try { return JSON.parse(localStorage.getItem(key)) ?? otherwise; } catch { return otherwise; }
  };
  const keep = (key, value) => {
    try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* private windows */ }
  };
  const isBox = node => node.matches?.(".admonition")
    && node.querySelector(":scope > .admonition-title")?.textContent.trim() === "Predict";
  const ends = node => node.tagName === "SECTION" || /^H[1-6]$/.test(node.tagName) || isBox(node);

  const following = box => {
    const found = [];
    for (let node = box.nextElementSibling; node && !ends(node); node = node.nextElementSibling) found.push(node);
    return found;
  };
  const answers = box => {
    const here = following(box);
    if (here.length) return here;
    const next = box.nextElementSibling ?? box.closest("section").nextElementSibling;
    if (next?.tagName !== "SECTION") return [];
    return following(next.querySelector(":scope > h1, :scope > h2, :scope > h3, :scope > h4"));
  };
  const make = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };

  const boxes = [...document.querySelectorAll("main article .admonition")].filter(isBox);
  const state = kept(PAGE, {});
  const curtains = [];

  boxes.forEach((box, place) => {
    const hidden = answers(box);
    if (!hidden.length) return;
    const id = `predict-${place + 1}`;
    const mine = state[id] ?? (state[id] = {});
    const curtain = make("div", {class: "predict-curtain", id: `${id}-result`});
    hidden[0].before(curtain);
    curtain.append(...hidden);

    const note = make("textarea", {id: `${id}-note`, rows: "2", class: "predict-note"});
    note.value = mine.note ?? "";
    note.addEventListener("change", () => { mine.note = note.value; keep(PAGE, state); });
    const button = make("button", {type: "button", class: "predict-reveal", "aria-controls": curtain.id});
    const set = open => {
      if (open) curtain.removeAttribute("hidden");
      else curtain.setAttribute("hidden", "until-found");
      button.setAttribute("aria-expanded", String(open));
      button.textContent = open ? "Hide the result" : "Reveal the result";
      document.dispatchEvent(new Event("curtain"));
    };
    button.addEventListener("click", () => {
      mine.open = button.getAttribute("aria-expanded") !== "true";
      keep(PAGE, state);
      set(mine.open);
    });
    curtain.addEventListener("beforematch", () => set(true));
    box.append(make("div", {class: "predict-answer"},
      make("label", {for: note.id}, "Your prediction (stays in this browser)"), note,
      make("p", {class: "predict-buttons"}, button)));
    curtains.push({curtain, set, mine});
    set(Boolean(mine.open) || kept(ALWAYS, false));
  });
  if (!curtains.length) return;

  const always = make("input", {type: "checkbox", id: "predict-always"});
  always.checked = kept(ALWAYS, false);
  always.addEventListener("change", () => {
    keep(ALWAYS, always.checked);
    for (const {set, mine} of curtains) set(always.checked || Boolean(mine.open));
  });
  boxes[0].querySelector(".predict-buttons").append(
    make("label", {for: always.id, class: "predict-always"}, always, " always show results, in every chapter"));

  const openTarget = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const within = target && curtains.find(({curtain}) => curtain.contains(target));
    if (!within) return;
    within.set(true);
    target.scrollIntoView();
  };
  addEventListener("hashchange", openTarget);
  try { openTarget(); } catch { /* a hash that is no text */ }
})();
