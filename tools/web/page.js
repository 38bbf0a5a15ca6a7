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
