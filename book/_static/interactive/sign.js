/* The sign explorer. Every number is looked up in the page's data, which the library computed; this
   file draws the points and keeps the view in the address. */
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const SIZE = 320, LEFT = 46, BOTTOM = 40, TOP = 10, RIGHT = 10;

  const make = (name, attributes, parent, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  const scale = (from, to, start, end) => value => start + (value - from) / (to - from) * (end - start);

  const start = part => {
    const data = JSON.parse(part.querySelector(".part-data").textContent);
    const find = name => part.querySelector(`.sign-${name}`);
    const last = data.facts.tables.length - 1;
    const view = {world: "facts", pair: "A|B", rule: "d1", step: 0, share: "0.1"};

    const rules = () => data[view.world].rules;
    const asHash = () => "#" + new URLSearchParams(view.world === "facts"
      ? {world: "facts", pair: view.pair.replace("|", "-"), rule: view.rule, step: view.step}
      : {world: "numbers", pair: view.pair.replace("|", "-"), rule: view.rule, share: view.share});
    const fromHash = () => {
      const asked = new URLSearchParams(location.hash.slice(1));
      const world = asked.get("world");
      if (world !== "facts" && world !== "numbers") return false;
      const rule = asked.get("rule") ?? "none";
      const pair = (asked.get("pair") ?? "A-B").replace("-", "|");
      if (!Object.hasOwn(data[world].rules, rule) || !["A|B", "q|B"].includes(pair)) return false;
      const step = Number(asked.get("step") ?? 0), share = asked.get("share") ?? "0.1";
      Object.assign(view, {world, rule, pair,
        step: Number.isInteger(step) && step >= 0 && step <= last ? step : 0,
        share: data.numbers.shares.some(([name]) => name === share) ? share : "0.1"});
      return true;
    };
    const remember = () => {
      try { history.replaceState(null, "", asHash()); } catch { /* some browsers, on file:// */ }
    };

    const axes = (svg, xs, ys, xLabel, yLabel) => {
      svg.replaceChildren();
      make("line", {class: "sign-axis", x1: LEFT, x2: SIZE - RIGHT, y1: SIZE - BOTTOM, y2: SIZE - BOTTOM}, svg);
      make("line", {class: "sign-axis", x1: LEFT, x2: LEFT, y1: TOP, y2: SIZE - BOTTOM}, svg);
      for (const [place, text] of xs)
        make("text", {x: place, y: SIZE - BOTTOM + 15, "text-anchor": "middle"}, svg, text);
      for (const [place, text] of ys)
        make("text", {x: LEFT - 6, y: place + 4, "text-anchor": "end"}, svg, text);
      make("text", {x: (LEFT + SIZE - RIGHT) / 2, y: SIZE - 5, "text-anchor": "middle"}, svg, xLabel);
      make("text", {x: 12, y: (TOP + SIZE - BOTTOM) / 2, "text-anchor": "middle",
                    transform: `rotate(-90 12 ${(TOP + SIZE - BOTTOM) / 2})`}, svg, yLabel);
    };

    const scatter = (name, kept, words) => {
      const figure = find(name), svg = figure.querySelector("svg");
      const [x, y] = view.pair.split("|");
      const facts = view.world === "facts";
      const reach = facts ? [-0.5, 1.5] : [-4.2, 4.2];
      const across = scale(...reach, LEFT, SIZE - RIGHT), up = scale(...reach, SIZE - BOTTOM, TOP);
      const ticks = facts ? [0, 1] : [-4, -2, 0, 2, 4];
      const said = value => String(value).replace("-", "−");
      const unit = facts ? "1: present" : "standard deviations of the noise";
      axes(svg, ticks.map(value => [across(value), said(value)]),
           ticks.map(value => [up(value), said(value)]), `${x} (${unit})`, `${y} (${unit})`);
      const points = data[view.world].points;
      let shown = 0;
      for (let place = 0; place < points[x].length; place++) {
        if (kept && kept[place] !== "1") continue;
        shown += 1;
        const [dx, dy] = facts ? data.facts.jitter[place] : [0, 0];
        const at = facts ? [Number(points[x][place]) + dx / 100, Number(points[y][place]) + dy / 100]
          : [points[x][place] / 100, points[y][place] / 100];
        make("circle", {class: kept ? "sign-kept" : "sign-all", cx: across(at[0]).toFixed(1),
                        cy: up(at[1]).toFixed(1), r: facts ? 2.6 : 2}, svg);
      }
      const caption = words(shown);
      figure.querySelector("figcaption").textContent = caption;
      svg.setAttribute("aria-label", `Points: ${x} against ${y}. ${caption}`);
    };

    /* How the association changes along the slider, or with the share kept. */
    const curve = () => {
      const figure = find("curve"), svg = figure.querySelector("svg");
      if (view.world === "facts") {
        const odds = data.facts.odds[view.rule][view.pair];
        const across = scale(0, last, LEFT + 8, SIZE - RIGHT - 8);
        const up = scale(Math.log(0.05), Math.log(20), SIZE - BOTTOM, TOP);
        axes(svg, [[across(0) + 12, "noisy OR"], [across(last) - 18, "leaky AND"]],
             [0.1, 0.3, 1, 3, 10].map(value => [up(Math.log(value)), String(value)]),
             "mechanism of d", "odds ratio (log scale)");
        make("line", {class: "sign-null", x1: LEFT, x2: SIZE - RIGHT, y1: up(0), y2: up(0)}, svg);
        make("polyline", {class: "sign-line",
          points: odds.map(([value], step) => `${across(step)},${up(Math.log(value))}`).join(" ")}, svg);
        make("circle", {class: "sign-here", cx: across(view.step), cy: up(Math.log(odds[view.step][0])), r: 6}, svg);
        figure.querySelector("figcaption").textContent =
          "The odds ratio along the slider. Below the dashed line the association is negative, above it positive.";
      } else {
        const found = data.numbers.estimates[view.rule], shares = data.numbers.shares;
        const across = scale(-0.5, shares.length - 0.5, LEFT, SIZE - RIGHT), up = scale(-1, 1, SIZE - BOTTOM, TOP);
        axes(svg, shares.map(([, text], place) => [across(place), text]),
             [-1, -0.5, 0, 0.5, 1].map(value => [up(value), String(value).replace("-", "−")]),
             "share kept", "correlation r");
        make("line", {class: "sign-null", x1: LEFT, x2: SIZE - RIGHT, y1: up(0), y2: up(0)}, svg);
        shares.forEach(([share], place) => {
          const [value, low, high] = found[share][view.pair];
          make("line", {class: "sign-line", x1: across(place), x2: across(place), y1: up(low), y2: up(high)}, svg);
          make("circle", {class: share === view.share ? "sign-here" : "sign-dot",
                          cx: across(place), cy: up(value), r: share === view.share ? 6 : 4}, svg);
        });
        figure.querySelector("figcaption").textContent =
          "The correlation by share kept, with 95% intervals (narrower than the dots where they cannot be seen).";
      }
      svg.setAttribute("aria-label", figure.querySelector("figcaption").textContent);
    };

    const show = () => {
      const facts = view.world === "facts";
      const [x, y] = view.pair.split("|");
      const rule = find("rule");
      rule.replaceChildren(...Object.entries(rules()).map(([key, label]) => new Option(label, key)));
      rule.value = view.rule;
      find("world").value = view.world;
      find("pair").value = view.pair;
      find("slider").value = view.step;
      find("share").value = view.share;
      find("mechanism").hidden = !facts;
      find("share-label").hidden = facts;
      const table = data.facts.tables[view.step];
      find("table").textContent = `P(d = 1): neither ${table[0]}, B only ${table[1]}, A only ${table[2]}, A and B ${table[3]}.`;
      find("slider").setAttribute("aria-valuetext", `step ${view.step} of ${last}; ${find("table").textContent}`);

      const share = data.numbers.shares.find(([name]) => name === view.share)[1];
      const [text, word, kept] = facts
        ? [`odds ratio ${data.facts.odds[view.rule][view.pair][view.step][1]}, exact`,
           data.facts.odds[view.rule][view.pair][view.step][2], data.facts.kept[view.rule][view.step]]
        : [...data.numbers.estimates[view.rule][view.share][view.pair].slice(4), data.numbers.kept[view.rule][view.share]];
      const among = view.rule === "none" ? "Among all pairs"
        : facts ? `Among the ${rules()[view.rule].replace(/^the /, "")}`
        : `Among the pairs kept (${rules()[view.rule].replace("the top", `the top ${share}`)})`;
      const verdict = find("verdict");
      verdict.dataset.sign = word;
      verdict.replaceChildren(`${among}, the association of ${x} and ${y} is `,
        Object.assign(document.createElement("strong"), {textContent: word}), `: ${text}.`);
      scatter("before", null, shown => `Before: ${shown.toLocaleString("en")} ` + (facts
        ? "query–document pairs." : `of the ${data.numbers.counted.toLocaleString("en")} pairs counted.`));
      scatter("after", kept, shown => `After: ${shown.toLocaleString("en")} of them are kept.`);
      curve();
      remember();
    };

    find("share").replaceChildren(...data.numbers.shares.map(([key, label]) => new Option(label, key)));
    find("world").addEventListener("change", event => {
      view.world = event.target.value;
      view.rule = view.world === "facts" ? "d1" : "d";
      show();
    });
    for (const name of ["pair", "rule", "share"])
      find(name).addEventListener("change", event => { view[name] = event.target.value; show(); });
    find("slider").addEventListener("input", event => { view.step = Number(event.target.value); show(); });
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
    fromHash();
    show();
    part.classList.add("part-ready");
  };

  document.querySelectorAll(".part-sign").forEach(start);
})();
