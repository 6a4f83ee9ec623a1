/* The page of exercises. Every grade is looked up in the page's data, which the library computed;
   this file reads the forms, shows the grade and keeps the progress in the reader's browser. */
"use strict";
(() => {
  const KEY = "causalrag-exercises";
  const WORDS = {correct: "Correct", close: "Close", wrong: "Wrong"};

  const load = () => {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY));
      return kept && typeof kept === "object" && !Array.isArray(kept) ? kept : {};
    } catch { return {}; }  // no storage here, or not ours
  };
  const save = kept => {
    try { localStorage.setItem(KEY, JSON.stringify(kept)); } catch { /* the page works without */ }
  };
  const make = (name, text, className) =>
    Object.assign(document.createElement(name), {textContent: text, className: className ?? ""});

  const start = part => {
    const data = JSON.parse(part.querySelector(".part-data").textContent);
    let kept = load();
    const sections = [...part.querySelectorAll(".ex-one")];

    const progress = () => {
      const solved = sections.filter(one => kept[one.dataset.exercise]?.solved === true);
      for (const one of sections)
        one.querySelector(".ex-mark").textContent = solved.includes(one) ? "(solved)" : "";
      part.querySelector(".ex-progress").textContent = `${solved.length} of ${sections.length} solved.`;
    };

    const exercise = section => {
      const {kind, accepts, answers, bands, otherwise, grades} = data[section.dataset.exercise];
      const form = section.querySelector(".ex-form");
      const inputs = [...form.querySelectorAll("input")];
      const verdict = section.querySelector(".ex-verdict");

      /* The answer as a number: a mask, a position or the number itself; null if there is none. */
      const read = () => {
        if (kind === "number")
          return inputs[0].value === "" || !Number.isFinite(inputs[0].valueAsNumber) ? null : inputs[0].valueAsNumber;
        if (kind === "choice") {
          const chosen = inputs.findIndex(input => input.checked);
          return chosen < 0 ? null : chosen;
        }
        return inputs.reduce((sum, input, place) => sum + (input.checked ? 2 ** place : 0), 0);
      };
      const write = answer => {
        if (typeof answer !== "number" || !Number.isFinite(answer)) return;
        if (kind === "number") inputs[0].value = answer;
        else inputs.forEach((input, place) => {
          input.checked = kind === "choice" ? place === answer : Math.floor(answer / 2 ** place) % 2 === 1;
        });
      };
      const grade = answer => grades[kind !== "number" ? answers[answer]
        : bands.find(([low, high]) => low <= answer && answer <= high)?.[2] ?? otherwise];

      const draw = () => {
        for (const input of inputs)
          section.querySelector(`.ex-node[data-node="${CSS.escape(input.dataset.option ?? "")}"]`)
            ?.classList.toggle("ex-chosen", input.checked);
      };
      const clear = () => {
        verdict.replaceChildren();
        delete verdict.dataset.verdict;
        section.querySelector(".ex-more")?.remove();
        draw();
      };
      const check = () => {
        clear();
        const answer = read();
        if (answer === null) {
          verdict.append(make("p", `No answer yet: give ${accepts}.`));
          return;
        }
        const [word, message, hint, second] = grade(answer);
        verdict.dataset.verdict = word;
        const line = make("p", "");
        line.append(make("strong", `${WORDS[word]}.`), ` ${message}`);
        verdict.append(line);
        if (hint) verdict.append(make("p", `Hint: ${hint}`, "ex-hint"));
        if (second) {
          const more = make("details", "", "ex-more");
          more.append(make("summary", "One more hint"), make("p", second));
          verdict.after(more);
        }
        const name = section.dataset.exercise;
        kept[name] = {answer, solved: word === "correct" || kept[name]?.solved === true};
        save(kept);
        progress();
      };

      form.addEventListener("submit", event => { event.preventDefault(); check(); });
      form.addEventListener("input", clear);
      return {
        restore: () => { write(kept[section.dataset.exercise]?.answer); draw(); },
        reset: () => {
          form.reset();
          clear();
          section.querySelector(".ex-solution").open = false;
        },
      };
    };

    const all = sections.map(exercise);
    part.querySelector(".ex-over").addEventListener("click", () => {
      kept = {};
      try { localStorage.removeItem(KEY); } catch { /* nothing was kept */ }
      for (const one of all) one.reset();
      progress();
    });
    for (const one of all) one.restore();
    progress();
    part.classList.add("part-ready");
  };

  document.querySelectorAll(".part-exercises").forEach(start);
})();
