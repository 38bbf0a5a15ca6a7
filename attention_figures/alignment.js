// Shows a translator's cross-attention: which source words each written word attends to, as the text is written word by
// word or with one source word hidden from cross-attention. All numbers are stored, in per cent.
// data: {source, target: words, the last one the end; models: [{name, looks: {hidden: a row for each target word},
//        says: {hidden: for each target word [[three words], [%], % of the right one]}}], writes: whether it writes
//        word by word, hides: whether source words can be hidden, chosen: a target word}
// `hidden` is "" or the index of the source word that cross-attention cannot see.
live.define("alignment", ({ stage, data, tell, numbers }) => {
  const { el, svg, written, shade } = live;
  const { source, target, models, writes = false, hides = false } = data;
  const n = target.length;
  const at = { model: 0, chosen: data.chosen ?? (writes ? 0 : n - 1), hidden: "" };
  const asker = (t) => (t ? target[t - 1] : "<start>");
  const looks = () => models[at.model].looks[at.hidden].map((row) => row.map((share) => share / 100));
  const says = () => models[at.model].says[at.hidden];

  // ---- the controls
  const controls = el("div", { class: "controls" });
  if (models.length > 1) {
    const names = Object.fromEntries(models.map((model, m) => [m, model.name]));
    controls.append(live.choice("translator", names, 0, (m) => to({ model: Number(m) })));
  }
  const slider = live.slider("step t", { min: 0, max: n - 1, step: 1, value: at.chosen }, (t) => sentence.choose(t));
  const [back, on] = [live.button("back", () => sentence.choose(at.chosen - 1)), live.button("write a word", () => sentence.choose(at.chosen + 1))];
  if (writes) controls.append(slider, back, on);

  // ---- both sentences, and lines from each written word to those it attends to
  const words = source.map((word, j) => (hides
    ? el("button", { type: "button", class: "source", "aria-pressed": "false", onclick: () => hide(j) }, word)
    : el("span", { class: "source" }, word)));
  const expected = target.map(() => el("small"));
  const sentence = live.picks("Which written word?", target.map((word, t) => el("span", {}, word, ...(writes ? [] : [" ", expected[t]]))), at.chosen, (t) => to({ chosen: t }));
  sentence.classList.add("expects");
  const lines = target.map(() => source.map(() => svg("path", { fill: "none", stroke: "var(--query)", "stroke-linecap": "round" })));
  const both = el("div", { class: "rows" }, svg("svg", { "aria-hidden": "true" }, ...lines.flat()),
    el("div", { class: "line", role: "group", "aria-label": hides ? "Source words: press one to hide it" : "Source words" }, ...words),
    el("div", { class: "line" }, el("span", { class: "note" }, "<start>"), sentence));

  function drawLines() {
    const box = both.getBoundingClientRect();
    if (!box.width) return;
    const place = (element, side) => {
      const at = element.getBoundingClientRect();
      return [at.left + at.width / 2 - box.left, at[side] - box.top];
    };
    looks().forEach((row, t) => row.forEach((share, j) => {
      const [x, y] = place(sentence.buttons[t], "top"), [to, end] = place(words[j], "bottom");
      const line = lines[t][j], chosen = t === at.chosen, there = share >= 0.02 && (!writes || t <= at.chosen);
      line.setAttribute("d", `M${x} ${y} C${x} ${(y + end) / 2} ${to} ${(y + end) / 2} ${to} ${end}`);
      line.style.strokeWidth = chosen ? 1 + 8 * share : 3 * share;
      line.style.opacity = there ? (chosen ? 0.35 + 0.65 * share : 0.35) : 0;
    }));
  }
  new ResizeObserver(drawLines).observe(both);

  // ---- the result
  const told = el("p", { style: "margin: 0" });
  const best = live.guesses("");
  const hint = el("p", { class: "note" }, hides
    ? "Press a source word, and cross-attention cannot see it any more; the encoder still could. Small, below each written word: what the model says there, after the right words; the greener, the more it gives to the right one."
    : "Dashed: not written yet. The word that was written last asks, and the word that it is given comes next.");
  const all = live.matrix({ label: "All weights: a row for each written word", rows: target, columns: source, pick: (t) => sentence.choose(t) });
  stage.append(...(controls.childNodes.length ? [controls] : []), live.wide("Both sentences", both), hint, told,
    el("div", { class: "side" }, best, live.wide("All weights", all)));

  function hide(j) {
    to({ hidden: at.hidden === String(j) ? "" : String(j) });
  }

  function to(change) {
    Object.assign(at, change);
    show(true);
  }

  function show(telling = false) {
    const t = at.chosen, weights = looks(), row = weights[t], most = row.indexOf(Math.max(...row));
    slider.set(t);
    back.disabled = t === 0;
    on.disabled = t === n - 1;
    words.forEach((word, j) => hides && word.setAttribute("aria-pressed", String(at.hidden === String(j))));
    says().forEach(([three, , right], k) => {
      const later = writes && k > t;
      expected[k].textContent = three[0];
      expected[k].style.background = shade("value", right / 100);
      sentence.buttons[k].classList.toggle("later", later);
      sentence.buttons[k].setAttribute("aria-description", later ? "not yet written" : `the model says ${three[0]}`);
    });
    drawLines();
    const [three, shares, right] = says()[t];
    told.replaceChildren(el("strong", {}, asker(t)), ` asks, and looks most at `, el("strong", {}, source[most]), ` (${written(row[most])}). The model says `,
      el("strong", {}, three[0]), writes ? ", and that is appended." : three[0] === target[t] ? ", which is right." : `; right is ${target[t]}.`);
    best.caption.textContent = `after ${asker(t)}`;
    best.set(three.map((word, k) => [word, shares[k] / 100, word === target[t]]));
    all.set(weights, {
      colour: (i, j, x) => (at.hidden === String(j) ? "" : shade("query", x)),
      mark: (i, j) => (at.hidden === String(j) ? "no" : "") + (i === t ? " chosen" : ""),
    });
    numbers({ ...at, weights, row, says: three, shares, right });
    if (telling) tell(`${asker(t)} asks and looks most at ${source[most]}, ${written(row[most])}. The model says ${three[0]}.`);
  }
  show();
});
