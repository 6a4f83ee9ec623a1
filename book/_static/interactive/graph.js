/* The click-to-condition graph. Every answer is looked up in the page's data, which the library
   computed; this file draws, and keeps the view in the address. */
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const RADIUS = 25, GAP = 5, HEAD = 13;

  const make = (name, attributes, parent, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };

  const start = part => {
    const data = JSON.parse(part.querySelector(".part-data").textContent);
    const find = name => part.querySelector(`.dag-${name}`);
    const view = {graph: data.first.graph, x: data.first.x, y: data.first.y,
                  given: new Set(data.first.given)};
    let edges = [], nodes = {};

    const graph = () => data.graphs[view.graph];
    const listed = () => graph().nodes.filter(node => view.given.has(node));
    const mask = () => graph().nodes.reduce(
      (sum, node, place) => sum + (view.given.has(node) ? 2 ** place : 0), 0);
    const pair = () => graph().pairs[`${view.x}|${view.y}`];

    /* The view in words, for the address: #graph=base&x=q&y=B&given=d */
    const asHash = () => `#graph=${view.graph}&x=${view.x}&y=${view.y}&given=${listed().join(",")}`;
    const fromHash = () => {
      const asked = new URLSearchParams(location.hash.slice(1));
      if (!asked.has("x") && !asked.has("graph")) return false;
      const name = asked.get("graph") ?? data.first.graph;
      if (!(name in data.graphs)) return false;
      const known = data.graphs[name].nodes;
      const [x, y] = [asked.get("x") ?? "q", asked.get("y") ?? "B"];
      if (!known.includes(x) || !known.includes(y) || x === y) return false;
      const given = (asked.get("given") ?? "").split(",")
        .filter(node => known.includes(node) && node !== x && node !== y);
      Object.assign(view, {graph: name, x, y, given: new Set(given)});
      return true;
    };
    const remember = () => {
      try { history.replaceState(null, "", asHash()); } catch { /* some browsers, on file:// */ }
    };

    const say = text => { find("done").textContent = text; };
    const copy = async (text, done) => {
      try {
        await navigator.clipboard.writeText(text);
        say(done);
      } catch {  // no clipboard here: show the text, selected
        const box = find("dagitty");
        box.parentElement.open = true;
        box.textContent = text;
        getSelection().selectAllChildren(box);
        say("The browser keeps its clipboard shut; the text is selected below: copy it with Ctrl+C.");
      }
    };

    const dagitty = () => {
      const {nodes: lines, rest} = graph().dagitty;
      const role = node => node === view.x ? "x" : node === view.y ? "y"
        : view.given.has(node) ? "given" : "none";
      return ["dag {", ...graph().nodes.map(node => lines[node][role(node)]), ...rest].join("\n");
    };

    /* Draw the nodes and arrows of another graph. */
    const draw = () => {
      const {places, edges: pairs} = graph();
      const [ends, buttons] = [find("edges"), find("nodes")];
      ends.replaceChildren();
      buttons.replaceChildren();
      const across = Object.values(places).map(place => place[0]);
      const down = Object.values(places).map(place => place[1]);
      find("svg").setAttribute("viewBox",
        `0 0 ${Math.max(...across) + RADIUS + 34} ${Math.max(...down) + RADIUS + 34}`);
      edges = pairs.map(([from, to]) => {
        const [[x1, y1], [x2, y2]] = [places[from], places[to]];
        const length = Math.hypot(x2 - x1, y2 - y1);
        const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
        const tip = [x2 - ux * (RADIUS + GAP), y2 - uy * (RADIUS + GAP)];
        const base = [tip[0] - ux * HEAD, tip[1] - uy * HEAD];
        const arrow = make("g", {class: "dag-edge"}, ends);
        make("line", {x1: x1 + ux * (RADIUS + GAP), y1: y1 + uy * (RADIUS + GAP),
                      x2: base[0], y2: base[1]}, arrow);
        const side = HEAD * 0.55;
        make("polygon", {points: [tip, [base[0] - uy * side, base[1] + ux * side],
                                  [base[0] + uy * side, base[1] - ux * side]].join(" ")}, arrow);
        return arrow;
      });
      nodes = {};
      for (const name of graph().nodes) {
        const [x, y] = places[name];
        const node = make("g", {class: "dag-node", role: "button", tabindex: 0, "data-node": name},
                          buttons);
        make("title", {}, node, `${name}: ${data.meanings[name]}`);
        make("rect", {x: x - RADIUS, y: y - RADIUS, width: 2 * RADIUS, height: 2 * RADIUS}, node);
        make("circle", {cx: x, cy: y, r: RADIUS}, node);
        make("text", {x, y}, node, name);
        node.addEventListener("click", () => toggle(name));
        node.addEventListener("keydown", event => {
          if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            toggle(name);
          }
        });
        nodes[name] = node;
      }
      for (const which of ["x", "y"])
        find(which).replaceChildren(...graph().nodes.map(name => new Option(name, name)));
      find("note").textContent = graph().note;
      find("graph").value = view.graph;
    };

    const highlight = path => edges.forEach((edge, place) =>
      edge.classList.toggle("dag-shown", !!path && path.edges.includes(place)));

    /* Show the answer to the question in force. */
    const show = () => {
      const {paths, answers} = pair();
      const [separated, ...numbers] = answers[mask()];
      const reasons = numbers.map(number => data.reasons[number]);
      const opened = reasons.filter(([open]) => open).length;
      const given = listed();
      find("x").value = view.x;
      find("y").value = view.y;
      for (const which of ["x", "y"])
        for (const option of find(which).options)
          option.disabled = option.value === view[which === "x" ? "y" : "x"];

      const looks = edges.map(() => "none");
      for (const wanted of [0, 1])
        paths.forEach((path, place) => {
          if (reasons[place][0] === wanted)
            for (const edge of path.edges) looks[edge] = wanted ? "open" : "blocked";
        });
      edges.forEach((edge, place) => edge.setAttribute("class", `dag-edge dag-${looks[place]}`));
      for (const [name, node] of Object.entries(nodes)) {
        const end = name === view.x || name === view.y, held = view.given.has(name);
        node.setAttribute("class",
          `dag-node${end ? " dag-end" : ""}${held ? " dag-given" : ""}`);
        node.setAttribute("aria-pressed", held);
        node.setAttribute("aria-disabled", end);
        node.setAttribute("aria-label", `${name}, ${data.meanings[name]}: ` + (end ? "asked about"
          : held ? "conditioned on" : "not conditioned on"));
      }

      const set = given.length ? `given ${given.join(", ")}` : "given nothing";
      const verdict = find("verdict");
      verdict.dataset.separated = separated;
      verdict.replaceChildren(
        Object.assign(document.createElement("strong"), {textContent: separated ? "Yes. " : "No. "}),
        `${view.x} and ${view.y} are ${separated ? "d-separated" : "d-connected"} ${set}: `
          + (opened ? `${opened} of ${paths.length} ${paths.length === 1 ? "path" : "paths"} open.`
            : paths.length === 1 ? "the one path is blocked." : `all ${paths.length} paths are blocked.`));
      find("paths").replaceChildren(...paths.map((path, place) => {
        const [open, why] = reasons[place];
        const row = document.createElement("li");
        row.className = `dag-path dag-${open ? "open" : "blocked"}`;
        const word = document.createElement("strong");
        word.textContent = open ? "open" : "blocked";
        const text = Object.assign(document.createElement("span"),
                                   {className: "dag-path-text", textContent: path.text});
        const reason = Object.assign(document.createElement("span"),
          {className: "dag-reason", textContent: why.replace(/^(open: |blocked )/, "")});
        row.append(word, " ", text, " ", reason);
        row.addEventListener("mouseenter", () => highlight(path));
        row.addEventListener("mouseleave", () => highlight(null));
        return row;
      }));
      find("dagitty").textContent = dagitty();
      remember();
    };

    const toggle = name => {
      say("");
      if (name === view.x || name === view.y) {
        say(`${name} is asked about, so it cannot be conditioned on: choose another x or y first.`);
        return;
      }
      if (!view.given.delete(name)) view.given.add(name);
      show();
    };

    find("graph").addEventListener("change", event => {
      say("");
      view.graph = event.target.value;
      const known = graph().nodes;
      if (!known.includes(view.x)) view.x = known.find(node => node !== view.y);
      if (!known.includes(view.y)) view.y = known.find(node => node !== view.x);
      view.given = new Set([...view.given].filter(node => known.includes(node)));
      draw();
      show();
    });
    for (const which of ["x", "y"])
      find(which).addEventListener("change", event => {
        view[which] = event.target.value;
        say(view.given.delete(view[which])
          ? `${view[which]} is asked about now, so it is no longer conditioned on.` : "");
        show();
      });
    find("clear").addEventListener("click", () => { say(""); view.given.clear(); show(); });
    find("copy").addEventListener("click", () => copy(dagitty(), "Copied: paste it at dagitty.net."));
    find("link").addEventListener("click", () =>
      copy(location.href.split("#")[0] + asHash(), "Copied: the link opens this view."));
    addEventListener("hashchange", () => { if (fromHash()) { say(""); draw(); show(); } });

    fromHash();
    draw();
    show();
    part.classList.add("part-ready");
  };

  document.querySelectorAll(".part-graph").forEach(start);
})();
