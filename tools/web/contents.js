// Runs before the page is drawn: in a narrow window the contents begin folded.
document.currentScript.previousElementSibling.open = matchMedia("(min-width: 62.01rem)").matches;
