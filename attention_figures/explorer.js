// Shows one query's scores, weights and output over all words, with switches and with numbers to drag.
// data: {words, Q, K, V, pad: [n], true for padding, chosen, causal, offers: which switches are shown,
//        features: names of the values' axes}
live.define("explorer", ({ stage, data, tell, numbers }) => {
  const { el, dot, softmax, written, shade } = live;
  const { words, offers = ["root", "temperature"], pad = words.map(() => false) } = data;
  const [Q, K, V] = [data.Q, data.K, data.V].map((rows) => rows.map((row) => [...row]));
  const n = words.length, d_k = K[0].length, d_v = V[0].length;
  const on = { root: data.root ?? true, causal: data.causal ?? false, padding: data.padding ?? false, after: false };
  let chosen = data.chosen ?? 0, temperature = 1;

  /** One query's scores, which of them count, its weights and its output. */
  function row(i) {
    const scores = K.map((key) => dot(Q[i], key) / (on.root ? Math.sqrt(d_k) : 1) / temperature);
    const may = words.map((_, j) => !(on.causal && j > i) && !(on.padding && pad[j]));
    const masked = scores.map((score, j) => (may[j] ? score : -Infinity));
    const weights = on.after ? softmax(scores).map((weight, j) => (may[j] ? weight : 0)) : softmax(masked);
    const output = V[0].map((_, c) => weights.reduce((sum, weight, j) => sum + weight * V[j][c], 0));
    return { scores: on.after ? scores : masked, may, weights, output };
  }

  // ---- the controls
  const controls = el("div", { class: "controls" });
  const switches = {
    root: ["divide by √d_k", "root"],
    causal: ["causal mask", "causal"],
    padding: ["padding mask", "padding"],
    after: ["mask after the softmax (a mistake)", "after"],
  };
  for (const [name, [label, key]] of Object.entries(switches)) {
    if (offers.includes(name)) controls.append(live.toggle(label, on[key], (now) => { on[key] = now; show(); }));
  }
  if (offers.includes("temperature")) {
    const words_ = (log) => written(10 ** log, log < 0 ? 2 : 1);
    const scale = { min: -1, max: 1, step: 0.05, value: 0, words: words_ };
    controls.append(live.slider("temperature", scale, (log) => { temperature = 10 ** log; show(); }));
  }

  // ---- the sentence and its arcs
  const sentence = live.picks("The query: which word asks?", words, chosen, (i) => { chosen = i; show(true); });
  const wired = live.wires(sentence, sentence.buttons);

  // ---- the sum of one row, written out
  const drag = (array, i, c, what) => live.handle(`${what} of ${words[i]}, number ${c}`, array[i][c], {}, (x) => {
    array[i][c] = x;
    show();
  });
  const query = Q.map((_, i) => Q[i].map((_, c) => drag(Q, i, c, "query")));
  const keys = K.map((_, j) => K[j].map((_, c) => drag(K, j, c, "key")));
  const values = V.map((_, j) => V[j].map((_, c) => drag(V, j, c, "value")));
  const scores = words.map(() => live.number()), weights = words.map(() => live.number());
  const bars = words.map(() => el("span", { class: "bar" })), sum = live.number();
  const output = V[0].map(() => live.number());
  const scoreCells = scores.map((text) => el("td", {}, text));
  const asking = el("th", { scope: "row" });
  const queryCells = Q[0].map(() => el("td", { class: "is-query" }));
  const features = data.features ?? V[0].map((_, c) => `v${c}`);
  const table = el("table", {},
    el("caption", {}, "One row, step by step: every dashed number can be dragged"),
    el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "colgroup", colspan: d_k }, "key"), el("th", { scope: "col" }, "score"),
      el("th", { scope: "col" }, "weight"), ...features.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {},
      el("tr", {}, asking, ...queryCells, el("td", { colspan: 2 + d_v })),
      ...words.map((word, j) => el("tr", {}, el("th", { scope: "row" }, word),
        ...keys[j].map((cell) => el("td", { class: "is-key" }, cell)), scoreCells[j],
        el("td", { class: "weigh" }, bars[j], weights[j]),
        ...values[j].map((cell) => el("td", { class: "is-value" }, cell)))),
      el("tr", {}, el("th", { scope: "row", class: "strong", colspan: 1 + d_k }, "the mixture"), el("td", {}, "sum"), el("td", { class: "weigh" }, sum),
        ...output.map((text) => el("td", { class: "is-value strong" }, text)))));

  // ---- all rows
  const all = live.matrix({
    label: "All weights: a row for each query", rows: words, columns: words,
    pick: (i) => sentence.choose(i),
  });
  stage.append(controls, wired, el("div", { class: "side" }, live.wide("One row, step by step", table), live.wide("All weights", all)));

  function show(telling = false) {
    const rows = words.map((_, i) => row(i)), now = rows[chosen];
    asking.textContent = `query of “${words[chosen]}”`;
    queryCells.forEach((cell, c) => {
      if (cell.firstChild !== query[chosen][c]) cell.replaceChildren(query[chosen][c]); // an unchanged one keeps the focus
    });
    now.scores.forEach((score, j) => {
      scores[j].to(score);
      scoreCells[j].className = now.may[j] ? "" : "no";
      weights[j].to(now.weights[j]);
      bars[j].style.setProperty("--share", now.weights[j]);
    });
    now.output.forEach((x, c) => output[c].to(x));
    const total = now.weights.reduce((a, b) => a + b, 0);
    sum.to(total);
    wired.draw(chosen, now.weights.map((weight, j) => (now.may[j] ? weight : null)));
    all.set(rows.map((each) => each.weights), {
      colour: (i, j, x) => (rows[i].may[j] ? shade("query", x) : ""),
      mark: (i, j) => (rows[i].may[j] ? "" : "no") + (i === chosen ? " chosen" : ""),
    });
    numbers({ chosen, weights: rows.map((each) => each.weights), outputs: rows.map((each) => each.output), scores: now.scores });
    const most = now.weights.indexOf(Math.max(...now.weights));
    if (telling) tell(`“${words[chosen]}” gives the largest weight, ${written(now.weights[most])}, to “${words[most]}”.`);
  }
  show();
});
