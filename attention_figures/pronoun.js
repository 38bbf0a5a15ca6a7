// Shows what a pronoun refers to: its query asks for another word when the end of the sentence changes.
// data: {words, asker: the pronoun's index, end: the index of the word that changes, keys: [n] of numbers,
//        queries: word at the end -> the pronoun's query, questions: the same words -> what that query asks}
live.define("pronoun", ({ stage, data, tell, numbers }) => {
  const { el, dot, softmax, written, shade } = live;
  const { words, asker, end, keys, queries, questions } = data;
  const at = { ending: words[end], strength: 1 };
  const shares = words.map(() => live.number()), names = words.map((word) => el("span", {}, word));
  const boxes = words.map((_, j) => el("span", { class: "said-word" + (j === asker ? " asks" : "") }, names[j], el("small", {}, shares[j])));
  const row = live.wires(el("div", { class: "picks" }, ...boxes), boxes);
  const verdict = el("p", { class: "strong", style: "margin: 0" });
  const endings = Object.fromEntries(Object.keys(queries).map((word) => [word, `too ${word}`]));
  stage.append(
    el("div", { class: "controls" },
      live.choice("It is", endings, at.ending, (ending) => { at.ending = ending; show(true); }),
      live.slider("how strongly “it” asks", { min: 0, max: 2, step: 0.1, value: 1, words: (x) => `× ${written(x, 1)}` },
        (strength) => { at.strength = strength; show(true); })),
    row, verdict);

  function show(telling = false) {
    const weights = softmax(keys.map((key) => at.strength * dot(queries[at.ending], key)));
    const most = weights.indexOf(Math.max(...weights)), even = at.strength === 0;
    names[end].textContent = at.ending;
    weights.forEach((weight, j) => {
      shares[j].to(weight);
      boxes[j].style.background = shade("query", weight);
    });
    row.draw(asker, weights);
    verdict.textContent = even ? "“it” asks nothing, and attends to all words alike."
      : `“it” asks: ${questions[at.ending]} It gives ${written(weights[most])} of its attention to “${words[most]}”.`;
    numbers({ ...at, weights, most: words[most] });
    if (telling) tell(verdict.textContent);
  }
  show();
});
