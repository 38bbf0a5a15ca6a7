// Shows what a blank reads from a sentence: keys, scores, weights, values, the output, and the candidates that fit it.
// data: {slots: words, or {ask, words} where one is chosen; keys, values: word -> numbers; query: numbers;
//        questions: short name -> question, one for each number of query and key; features: names of the values' numbers;
//        candidates: word -> numbers, one for each feature; asker: the word whose query it is}
live.define("lookup", ({ stage, data, tell, numbers }) => {
  const { el, dot, softmax, written, shade } = live;
  const { features, candidates, asker } = data;
  const short = Object.keys(data.questions), questions = Object.values(data.questions);
  const words = data.slots.map((slot) => slot.words?.[0] ?? slot);
  let query = [...data.query];

  /** All steps of the blank's attention, from the query to the candidates. */
  function look() {
    const keys = words.map((word) => data.keys[word]), values = words.map((word) => data.values[word]);
    const scores = keys.map((key) => dot(query, key));
    const weights = softmax(scores);
    const mixture = features.map((_, c) => dot(weights, values.map((value) => value[c])));
    const fits = Object.fromEntries(Object.entries(candidates).map(([word, row]) => [word, dot(mixture, row)]));
    return { keys, values, scores, weights, mixture, fits, best: largest(fits) };
  }

  const largest = (table) => Object.keys(table).reduce((a, b) => (table[b] > table[a] ? b : a));

  // ---- the words that can be swapped, and the sentence
  const swaps = el("div", { class: "controls" });
  data.slots.forEach((slot, i) => {
    if (!slot.words) return;
    const options = Object.fromEntries(slot.words.map((word) => [word, word]));
    swaps.append(live.choice(slot.ask, options, words[i], (word) => { words[i] = word; show(true); }));
  });
  const said = words.map(() => el("span"));
  const blank = el("span", { class: "blank" });
  const sentence = el("p", { class: "said" }, ...said.flatMap((word) => [word, " "]), blank);

  // ---- the query, which the reader drags
  const handles = questions.map((question, c) => live.handle(question, query[c], { min: -6, max: 6, step: 0.1 }, (x) => {
    query[c] = x;
    show(true);
  }));
  handles.forEach((handle) => handle.classList.add("is-query"));
  const asks = el("div", { class: "controls" },
    el("span", {}, `The query of “${asker}” asks`),
    ...questions.map((question, c) => el("span", {}, `${question} `, handles[c])),
    live.button("as at first", () => {
      query = [...data.query];
      handles.forEach((handle, c) => handle.set(query[c]));
      show(true);
    }));

  // ---- every word's key, score, weight and value, and the output
  const line = (names, count) => names.map(() => Array.from({ length: count }, () => live.number(0, 1)));
  const keys = line(words, short.length), values = line(words, features.length);
  const scores = words.map(() => live.number(0, 1)), weights = words.map(() => live.number());
  const bars = words.map(() => el("span", { class: "bar" }));
  const cells = (row) => row.map((number) => el("td", {}, number));
  const keyCells = keys.map(cells), valueCells = values.map(cells);
  const names = words.map(() => el("th", { scope: "row" }));
  const mixture = features.map(() => live.number());
  const heads = (list) => list.map((name) => el("th", { scope: "col" }, name));
  const table = el("table", { class: "dense" },
    el("caption", {}, "What each word offers, and its weight"),
    el("thead", {},
      el("tr", {}, el("td"), el("th", { scope: "colgroup", colspan: short.length, class: "is-key" }, "key"), el("td", { colspan: 2 }),
        el("th", { scope: "colgroup", colspan: features.length, class: "is-value" }, "value")),
      el("tr", {}, el("td"), ...heads([...short, "score", "weight", ...features]))),
    el("tbody", {},
      ...words.map((_, j) => el("tr", {}, names[j], ...keyCells[j], el("td", {}, scores[j]),
        el("td", { class: "weigh" }, bars[j], weights[j]), ...valueCells[j])),
      el("tr", {}, el("th", { scope: "row", class: "strong", colspan: short.length + 3 }, "the mixture"),
        ...mixture.map((number) => el("td", { class: "is-value strong" }, number)))));

  // ---- the candidates for the blank
  const fits = Object.fromEntries(Object.keys(candidates).map((word) => [word, live.number()]));
  const lengths = Object.fromEntries(Object.keys(candidates).map((word) => [word, el("span", { class: "bar of-value" })]));
  const rows = Object.fromEntries(Object.entries(candidates).map(([word, row]) => [word, el("tr", {},
    el("th", { scope: "row" }, word), ...row.map((x) => el("td", {}, written(x, 1))),
    el("td", { class: "weigh" }, lengths[word], fits[word]))]));
  const fitting = el("table", { class: "dense" },
    el("caption", {}, "Which word fits the mixture?"),
    el("thead", {}, el("tr", {}, el("td"), ...heads([...features, "mixture · word"]))),
    el("tbody", {}, ...Object.values(rows)));

  const verdict = el("p", { class: "strong note" });
  stage.append(swaps, sentence, verdict, asks,
    el("div", { class: "side" }, live.wide("Keys, weights and values", table), live.wide("Candidates", fitting)),
    el("p", { class: "note" }, "Queries, keys, values and candidates are set by hand so that they can be read. Scores, weights, the " +
      "mixture and the products are computed here."));

  function show(telling = false) {
    const now = look();
    words.forEach((word, j) => {
      said[j].textContent = names[j].textContent = word;
      said[j].style.background = shade("query", now.weights[j]);
      now.keys[j].forEach((x, c) => fill(keys[j][c], keyCells[j][c], x, "key"));
      now.values[j].forEach((x, c) => fill(values[j][c], valueCells[j][c], x, "value"));
      scores[j].to(now.scores[j]);
      weights[j].to(now.weights[j]);
      bars[j].style.setProperty("--share", now.weights[j]);
    });
    now.mixture.forEach((x, c) => mixture[c].to(x));
    for (const [word, fit] of Object.entries(now.fits)) {
      fits[word].to(fit);
      lengths[word].style.setProperty("--share", Math.min(Math.max(fit, 0), 1));
      rows[word].className = word === now.best ? "best" : "";
    }
    blank.textContent = now.best;
    const order = words.map((_, j) => j).sort((a, b) => now.weights[b] - now.weights[a]).slice(0, 2);
    const heard = order.map((j) => `“${words[j]}” (${written(now.weights[j])})`).join(" and ");
    verdict.textContent = Math.max(...now.weights) - Math.min(...now.weights) < 0.005
      ? `All words are heard alike. “${now.best}” fits best.`
      : `Heard most: ${heard}. “${now.best}” fits best.`;
    numbers({ words: [...words], query: [...query], ...now });
    if (telling) tell(verdict.textContent);
  }

  function fill(number, cell, x, colour) {
    number.to(x);
    cell.style.background = shade(colour, Math.max(x, 0) * 0.7);
  }
  show();
});
