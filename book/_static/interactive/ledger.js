/* The ledger's filters: they hide rows, and keep what was chosen in the address. What a row says stands
   in the page. An address such as #P.obs1.opened opens that row. */
"use strict";
(() => {
  const FILTERS = [
    ["source", "Source"], ["ledgerPart", "Part"], ["kind", "Kind"], ["setting", "Setting"], ["encoder", "Encoder"]];
  const make = (tag, attributes, ...children) => {
    const node = Object.assign(document.createElement(tag), attributes);
    node.append(...children);
    return node;
  };

  const start = ledger => {
    const rows = [...ledger.querySelectorAll(".ledger-row")];
    const sections = [...ledger.querySelectorAll(".ledger-part")];
    const radios = [...ledger.querySelectorAll("input[name=ledger-show]")];
    const titles = Object.fromEntries(sections.map(section =>
      [section.querySelector(".ledger-row").dataset.ledgerPart, section.querySelector("h2").firstChild.textContent]));
    const sources = Object.fromEntries(rows.map(row =>
      [row.dataset.source, row.querySelector("dd").textContent.split(",")[0]]));
    const label = (name, value) => name === "source" ? `${value}: ${sources[value]}`
      : name === "ledgerPart" ? titles[value] : value;

    const selects = {};
    const bar = make("div", {className: "ledger-filters"});
    for (const [name, title] of FILTERS) {
      const values = [...new Set(rows.map(row => row.dataset[name]))].filter(Boolean);
      const select = make("select", {}, new Option("all", ""), ...values.map(v => new Option(label(name, v), v)));
      select.addEventListener("change", () => apply(true));
      selects[name] = select;
      bar.append(make("label", {}, `${title} `, select));
    }
    const words = make("input", {type: "search", placeholder: "id or words"});
    words.addEventListener("input", () => apply(true));
    bar.append(make("label", {}, "Find ", words));

    const said = make("span", {className: "ledger-said"});
    said.setAttribute("aria-live", "polite");
    const all = make("button", {type: "button", textContent: "Show all rows"});
    const unfold = make("button", {type: "button", textContent: "Open the rows shown"});
    const bottom = make("p", {className: "ledger-buttons"}, said, all, unfold);
    ledger.querySelector(".ledger-choices").after(bar, bottom);

    const verdict = () => radios.find(radio => radio.checked).value;
    const shown = () => rows.filter(row => !row.hidden);

    const apply = remember => {
      const wanted = FILTERS.map(([name]) => [name, selects[name].value]).filter(([, value]) => value);
      const tokens = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      const word = verdict();
      for (const row of rows) {
        const text = tokens.length ? row.textContent.toLowerCase() : "";
        row.hidden = !(wanted.every(([name, value]) => row.dataset[name] === value)
          && (word === "all" || row.dataset.verdict === word)
          && tokens.every(token => text.includes(token)));
      }
      for (const section of sections) section.hidden = !section.querySelector(".ledger-row:not([hidden])");
      const number = shown().length;
      const claims = new Set(shown().map(row => row.querySelector("code").textContent)).size;
      said.textContent = number ? `${number} rows of ${claims} claims shown.` : "No row meets all of this.";
      all.hidden = number === rows.length;
      unfold.hidden = !number;
      if (!remember) return;
      const parts = wanted.map(([name, value]) => [name === "ledgerPart" ? "part" : name, value]);
      if (word !== "all") parts.push(["verdict", word]);
      if (words.value.trim()) parts.push(["find", words.value.trim()]);
      const hash = parts.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
      history.replaceState(null, "", hash ? `#${hash}` : location.href.split("#")[0]);
    };

    const clear = () => {
      for (const select of Object.values(selects)) select.value = "";
      words.value = "";
      radios[0].checked = true;
    };
    const fromHash = () => {
      let hash;
      try { hash = decodeURIComponent(location.hash.slice(1)); } catch { return; }
      if (!location.hash.includes("=")) {
        const row = rows.find(one => one.id === hash);
        if (!row) return;
        clear();
        apply(false);
        row.open = true;
        row.scrollIntoView();
        return;
      }
      clear();
      for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
        if (name === "verdict") {
          const radio = radios.find(one => one.value === value);
          if (radio) radio.checked = true;
        } else if (name === "find") words.value = value;
        else {
          const select = selects[name === "part" ? "ledgerPart" : name];
          if (select && [...select.options].some(option => option.value === value)) select.value = value;
        }
      }
      apply(false);
    };

    for (const radio of radios) radio.addEventListener("change", () => apply(true));
    all.addEventListener("click", () => { clear(); apply(true); words.focus(); });
    unfold.addEventListener("click", () => { for (const row of shown()) row.open = true; });
    addEventListener("hashchange", fromHash);
    apply(false);
    fromHash();
    ledger.classList.add("ledger-ready");
  };

  document.querySelectorAll(".ledger").forEach(start);
})();
