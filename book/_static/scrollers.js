/* What scrolls sideways can be reached by keyboard: boxes that really overflow become tab stops with
   a name, and stop being ones when the window grows. Formulas in a line scroll only where they do
   not fit. */
"use strict";
(() => {
  const BOXES = [
    ["figure", "Figure, scrolls sideways"],
    [".cell_output .output", "Output, scrolls sideways"],
    [".pst-scrollable-table-container", "Table, scrolls sideways"],
    ["mjx-container[display='true'], div.math", "Formula, scrolls sideways"],
  ];
  const overflows = box => box.scrollWidth > box.clientWidth + 1
    && ["auto", "scroll"].includes(getComputedStyle(box).overflowX);

  const mark = (box, name, scrolls) => {
    if (scrolls && !box.hasAttribute("tabindex")) {
      box.tabIndex = 0;
      box.dataset.scroller = "";
      if (!box.hasAttribute("role") && box.tagName !== "FIGURE") box.setAttribute("role", "group");
      if (!box.hasAttribute("aria-label")) box.setAttribute("aria-label", name);
    } else if (!scrolls && "scroller" in box.dataset) {
      for (const attribute of ["tabindex", "data-scroller", "aria-label"]) box.removeAttribute(attribute);
      if (box.getAttribute("role") === "group") box.removeAttribute("role");
    }
  };

  const markAll = () => {
    const article = document.querySelector("main article");
    if (!article) return;
    for (const [selector, name] of BOXES)
      for (const box of article.querySelectorAll(selector)) mark(box, name, overflows(box));
    for (const formula of article.querySelectorAll("span.math")) {
      const drawn = formula.querySelector("mjx-math, mjx-container");
      if (!drawn) continue;
      const scrolls = drawn.getBoundingClientRect().width > formula.parentElement.clientWidth + 1
        && formula.parentElement.clientWidth > 0;
      formula.classList.toggle("scrolls", scrolls);
      mark(formula, "Formula, scrolls sideways", scrolls);
    }
  };

  let waiting;
  const later = () => { clearTimeout(waiting); waiting = setTimeout(markAll, 100); };
  addEventListener("load", () => {
    Promise.resolve(window.MathJax?.startup?.promise).then(markAll);
    addEventListener("resize", later);
    document.addEventListener("toggle", later, true);
    document.addEventListener("curtain", later);
  });
})();
