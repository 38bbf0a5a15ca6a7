// Runs before the page is drawn, so that a narrow window starts with folded contents.
document.currentScript.previousElementSibling.open = matchMedia("(min-width: 62.01rem)").matches;
