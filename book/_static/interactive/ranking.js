/* The ranking explorer. Orders, scores, A, B and the places of words are looked up in the page's data,
   which the library computed; this file shows them and keeps the view in the address. */
"use strict";
(() => {
  const DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz";
  const NAMES = ["corpus", "theme", "doc", "tau", "method"];

  const make = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const number = thousandths => (thousandths / 1000).toFixed(3).replace("-", "−");
  const table = (caption, heads, rows) => make("div", {class: "rank-wide"}, make("table", {},
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...heads.map(head => make("th", {scope: "col"}, head)))),
    make("tbody", {}, ...rows)));
  const row = (head, ...cells) => make("tr", {}, make("th", {scope: "row"}, head),
    ...cells.map(cell => make("td", {}, cell)));

  const start = part => {
    const data = JSON.parse(part.querySelector(".part-data").textContent);
    const find = name => part.querySelector(`.rank-${name}`);
    const taus = Object.keys(data.taus);
    const view = {...data.first};

    const theme = () => data.themes[view.corpus][view.theme];
    const doc = () => theme().documents.find(one => one.id === view.doc);
    const firstDoc = () => theme().documents.find(one => one.role === "stuffed").id;
    const lang = () => ({lang: theme().lang});
    const word = term => make("span", lang(), theme().terms[term]);
    const split = one => one.splits[one.at[taus.indexOf(view.tau)]];
    const order = method => {
      const found = theme().order[method];
      const told = typeof found === "string" ? found : found[taus.indexOf(view.tau)];
      return [...told].map(digit => theme().documents[DIGITS.indexOf(digit)]);
    };
    const ranks = method => new Map(order(method).map((one, place) => [one.id, place + 1]));
    const score = one => {
      if (view.method === "similarity") return one.base;
      if (view.method === "causal") return split(one).causal;
      if (view.method === "causal_fallback") return split(one).shared.includes("0") ? split(one).causal : one.base;
      return theme().score[view.method][taus.indexOf(view.tau)][theme().documents.indexOf(one)];
    };
    const moved = (before, after) => before === after ? "stays"
      : `${before > after ? `▲ up ${before - after}` : `▼ down ${after - before}`}, from ${before}`;

    const asHash = () => "#" + new URLSearchParams(NAMES.map(name => [name, view[name]]));
    const fromHash = () => {
      const asked = new URLSearchParams(location.hash.slice(1));
      if (!NAMES.some(name => asked.has(name))) return false;
      const next = {...data.first, ...Object.fromEntries(NAMES.filter(name => asked.has(name)).map(name => [name, asked.get(name)]))};
      if (!Object.hasOwn(data.themes, next.corpus)) return false;
      const themes = data.themes[next.corpus];
      if (!asked.has("theme")) next.theme = Object.keys(themes)[0];
      if (!Object.hasOwn(themes, next.theme) || !Object.hasOwn(data.taus, next.tau)
          || !Object.hasOwn(data.methods, next.method)) return false;
      Object.assign(view, next);
      if (!doc()) view.doc = firstDoc();
      return true;
    };
    const remember = () => {
      try { history.replaceState(null, "", asHash()); } catch { /* some browsers, on file:// */ }
    };

    /* The text in pieces; a keyword's piece is a mark of A or of B. */
    const marked = (one, from, to) => {
      const shared = split(one).shared, characters = [...one.text], pieces = [];
      let place = 0;
      const add = (begin, end, index) => {
        begin = Math.max(begin, from);
        end = Math.min(end, to);
        if (begin >= end) return;
        const piece = characters.slice(begin, end).join("");
        const set = index === undefined ? "" : shared[index] === "1" ? "a" : "b";
        pieces.push(set ? make("mark", {class: `rank-${set}`, "data-word": index, title: told(one, index)}, piece) : piece);
      };
      for (let at = 0; at < one.marks.length; at += 3) {
        const begin = place + one.marks[at], end = begin + one.marks[at + 1];
        add(place, begin);
        add(begin, end, one.marks[at + 2]);
        place = end;
      }
      add(place, characters.length);
      return pieces;
    };
    const absorbed = (one, index) => {
      const [by, cosine] = one.reasons[index];
      return by === one.words[index] ? "itself" : `${theme().terms[by]} (cosine ${number(cosine)})`;
    };
    const told = (one, index) => split(one).shared[index] === "1"
      ? `A: absorbed by ${absorbed(one, index)}`
      : `B: ${number(split(one).parts[index])} of the causal score`;

    const options = (name, pairs) => {
      find(name).replaceChildren(...pairs.map(([value, label]) => new Option(label, value)));
      find(name).value = view[name];
    };
    const showControls = () => {
      options("corpus", Object.entries(data.corpora));
      options("theme", Object.entries(data.themes[view.corpus]).map(([key, one]) => [key, `${key}: ${one.subject}`]));
      options("doc", theme().documents.map(one => [one.id, `${one.id}, ${one.role}`]));
      options("tau", Object.entries(data.taus).map(([key, label]) => [key, key === "auto" ? `auto: ${theme().auto}` : label]));
      options("method", Object.entries(data.methods));
    };
    const showDocument = () => {
      const one = doc(), length = [...one.text].length;
      find("gloss").textContent = one.gloss ? `In English: ${one.gloss}` : "";
      find("gloss").hidden = !one.gloss;
      find("title").hidden = !one.title;
      for (const [name, from, to] of [["title", 0, one.title], ["text", one.title && one.title + 1, length]]) {
        find(name).lang = theme().lang;
        find(name).replaceChildren(...marked(one, from, to));
      }
      const {shared, parts} = split(one);
      find("words").querySelector("div").replaceChildren(table("Heaviest first",
        ["keyword", "set", "weight", "absorbed by", "part of the causal score"],
        one.words.map((term, index) => {
          const inA = shared[index] === "1";
          const line = row(word(term), inA ? "A" : "B", number(one.weights[index]),
            inA ? make("span", lang(), absorbed(one, index)) : "", inA ? "" : number(parts[index]));
          line.dataset.set = inA ? "A" : "B";
          return line;
        })));
    };
    const showNumbers = () => {
      const one = doc(), {shared, causal, near} = split(one), size = {A: 0, B: 0};
      for (const bit of shared) size[bit === "1" ? "A" : "B"] += 1;
      const place = ranks(view.method).get(one.id);
      const lines = [row("similarity (Eq. 1)", number(one.base)), row("causal score (Eq. 5)", number(causal))];
      if (["hybrid", "adjusted"].includes(view.method)) lines.push(row(`score of ${data.methods[view.method]}`, number(score(one))));
      lines.push(row("keywords in A", String(size.A)), row("keywords in B", String(size.B)));
      find("scores").replaceChildren(table(`${one.id}, at place ${place}`, ["what", "value"], lines));

      const origin = term => {
        const index = one.words.indexOf(term);
        if (index >= 0) return shared[index] === "1" ? "in A" : "in B";
        return theme().asked.includes(term) ? "of the query" : "of another document";
      };
      find("near").replaceChildren(near.length
        ? table("The terms of this theme nearest to B’s centroid", ["term", "cosine", "where"],
                near.map(([term, cosine]) => row(word(term), number(cosine), origin(term))))
        : make("p", {}, "B has no centroid here: it is empty, or its vectors cancel."));
    };
    const showOrder = () => {
      const before = ranks("similarity");
      const rows = order(view.method).map((one, at) => {
        const button = make("button", {type: "button", "data-doc": one.id}, one.id);
        button.addEventListener("click", () => {
          view.doc = one.id;
          show();
          find("order").querySelector(`button[data-doc="${CSS.escape(one.id)}"]`).focus();
        });
        const line = make("tr", {}, make("td", {}, String(at + 1)),
          make("th", {scope: "row"}, button, ` ${one.role}`),
          make("td", {}, moved(before.get(one.id), at + 1)),
          make("td", {}, number(score(one))));
        line.dataset.role = one.role;
        if (one.id === view.doc) { line.className = "rank-chosen"; button.setAttribute("aria-current", "true"); }
        return line;
      });
      find("order").replaceChildren(table(`The documents of ${view.theme} by ${data.methods[view.method]}; choose one to read it`,
        ["place", "document", "against similarity", "score"], rows));
    };
    const show = () => {
      showControls();
      const {query, gloss, asked, terms} = theme();
      find("query").replaceChildren("Query: ", make("q", lang(), query), gloss ? ` (${gloss})` : "", ". Its keywords: ",
        make("span", lang(), asked.map(term => terms[term]).join(", ")), ".");
      const before = ranks("similarity"), after = ranks(view.method);
      const target = theme().documents.find(one => one.role === "target").id;
      const says = id => `${before.get(id)} → ${after.get(id)}`;
      find("verdict").replaceChildren(`Place by similarity → by ${data.methods[view.method]}: `,
        make("strong", {}, `${view.doc}, ${doc().role}, ${says(view.doc)}`),
        view.doc === target ? "." : `; the target, ${target}, ${says(target)}.`);
      showDocument();
      showNumbers();
      showOrder();
      remember();
    };

    for (const name of NAMES) {
      find(name).addEventListener("change", event => {
        view[name] = event.target.value;
        if (name === "corpus") view.theme = Object.keys(data.themes[view.corpus])[0];
        if (name === "corpus" || name === "theme") view.doc = firstDoc();
        show();
      });
    }
    find("link").addEventListener("click", async () => {
      const link = location.href.split("#")[0] + asHash();
      try {
        await navigator.clipboard.writeText(link);
        find("done").textContent = "Copied: the link opens this view.";
      } catch {
        find("done").textContent = `The browser keeps its clipboard shut. The link: ${link}`;
      }
    });
    addEventListener("hashchange", () => { if (fromHash()) show(); });
    view.doc = firstDoc();
    fromHash();
    show();
    part.classList.add("part-ready");
  };

  document.querySelectorAll(".part-ranking").forEach(start);
})();
