// Runs on all pages: boxes that scroll, contents that mark the current section, and printing.
"use strict";

// Code and tables that are wider than the window can be scrolled with the keyboard too.
const mend = () => {
  for (const box of document.querySelectorAll("pre, .table, .katex-display")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
};
addEventListener("resize", mend);
addEventListener("load", mend);
document.addEventListener("toggle", mend, true);

// The contents mark the section in view: the last whose heading has reached the upper third of the window.
const contents = document.querySelector(".contents");
if (contents) {
  const links = [...contents.querySelectorAll("a[href^='#']")];
  const places = links.map((link) => document.getElementById(link.hash.slice(1)));
  const now = contents.querySelector(".now");
  let asked = false;
  const look = () => {
    asked = false;
    const top = innerHeight / 3;
    const reached = (of) => {
      let last = null;
      links.forEach((link, i) => {
        if (of(link) && places[i].getBoundingClientRect().top < top) last = link;
      });
      return last;
    };
    const section = reached((link) => !link.hash.startsWith("#exercise-"));
    const exercise = reached((link) => link.hash.startsWith("#exercise-"));
    const within = exercise && document.getElementById(exercise.hash.slice(1)).getBoundingClientRect().bottom > 0;
    for (const link of links) {
      if (link === section || (within && link === exercise)) link.setAttribute("aria-current", "location");
      else link.removeAttribute("aria-current");
    }
    now.textContent = section ? section.textContent : "";
  };
  const soon = () => {
    if (!asked) requestAnimationFrame(look);
    asked = true;
  };
  addEventListener("scroll", soon, { passive: true });
  addEventListener("resize", soon);
  document.addEventListener("toggle", soon, true);
  addEventListener("load", soon);
  // Where the contents cover the text, following a link folds them.
  contents.addEventListener("click", (event) => {
    const narrow = !matchMedia("(min-width: 62.01rem)").matches;
    if (narrow && event.target.closest("a")) contents.querySelector("details").open = false;
  });
}

// A link may lead to something folded.
const unfold = () => {
  const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = place; part; part = part.parentElement) if (part.localName === "details") part.open = true;
  if (place) place.scrollIntoView();
};
addEventListener("hashchange", unfold);
if (location.hash) unfold();

// Paper cannot be unfolded, so unfold everything for printing, and fold it again afterwards.
let opened = [];
addEventListener("beforeprint", () => {
  document.documentElement.dataset.printing = "";
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const part of opened) part.open = true;
  for (const picture of document.querySelectorAll("img[loading]")) picture.loading = "eager";
});
addEventListener("afterprint", () => {
  for (const part of opened) part.open = false;
  setTimeout(() => delete document.documentElement.dataset.printing); // after the toggle events
});
