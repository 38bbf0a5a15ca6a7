// Shows a mask that the reader builds by clicks and presets, what leaks through it, and the weights under it.
// data: {rows: name -> {words, Q, K, pad, document}: rows of tokens, all equally long; row: the first one shown;
//        preset: the first mask; window, prefix: how many tokens these presets mean; yours: name -> the reader's own mask}
live.define("mask", ({ stage, data, tell, numbers }) => {
  const { el, dot, softmax, shade } = live;
  const { rows, window: width = 2, prefix = 2, yours = {} } = data;
  const n = Object.values(rows)[0].words.length, places = Array.from({ length: n }, (_, i) => i);
  let row = rows[data.row ?? Object.keys(rows)[0]], task = "next", mask = [], preset = data.preset ?? "none", at = [0, 0];

  // ---- what a mask should allow

  /** Each token's index in its own text, pads not counted. */
  const own = () => places.map((i) => places.filter((j) => j < i && !row.pad[j] && row.document[j] === row.document[i]).length);
  const same = (i, j) => row.document[i] === row.document[j];
  const given = (j) => !row.pad[j] && own()[j] < prefix;

  /** Why query i must not see key j; "" if it may. A pad may see anything, because its output is not used. */
  function reason(i, j) {
    if (row.pad[i]) return "";
    if (row.pad[j]) return "pad";
    if (!same(i, j)) return "other";
    return j > i && (task === "next" || (task === "prefix" && !given(j))) ? "later" : "";
  }

  const presets = {
    "none": ["every query sees every key", () => true],
    "causal": ["query i sees key j if j ≤ i", (i, j) => j <= i],
    "causal, no diagonal": ["query i sees key j if j < i", (i, j) => j < i],
    "padding": ["every query sees every key that is no pad", (i, j) => !row.pad[j]],
    "causal & padding": ["j ≤ i, and no pad", (i, j) => j <= i && !row.pad[j]],
    "packed": ["j ≤ i, and of the same text", (i, j) => j <= i && same(i, j)],
    [`window of ${width}`]: [`the token itself and ${width - 1} before it`, (i, j) => j <= i && j > i - width],
    [`prefix of ${prefix}`]: [`j ≤ i, and the first ${prefix} tokens of its text`, (i, j) => j <= i || (given(j) && same(i, j))],
    ...Object.fromEntries(Object.entries(yours).map(([name, table]) => [name, ["what your function returns", (i, j) => table[i][j]]])),
  };
  const made = (name) => places.map((i) => places.map((j) => Boolean(presets[name][1](i, j))));
  const equal = (a, b) => a.every((line, i) => line.every((may, j) => may === b[i][j]));

  // ---- controls
  const tasks = { next: "guess each next token", prefix: `guess what follows the first ${prefix}`, all: "read the whole text" };
  const options = (table) => Object.fromEntries(Object.keys(table).map((name) => [name, name]));
  const buttons = Object.fromEntries(Object.keys(presets).map((name) =>
    [name, el("button", { type: "button", class: "pick small", onclick: () => { take(name); show(summary()); } }, name)]));
  const rule = el("p", { class: "note" });
  const controls = el("div", { class: "controls" },
    live.choice("The row", options(rows), data.row ?? Object.keys(rows)[0], (name) => {
      row = rows[name];
      if (preset) take(preset);
      show(summary());
    }),
    live.choice("The task", tasks, task, (name) => { task = name; show(summary()); }));

  // ---- the mask, a button a cell, and the weights
  const heads = { columns: places.map(() => el("th", { scope: "col" })), rows: places.map(() => el("th", { scope: "row" })) };
  const cells = places.map((i) => places.map((j) => el("button", { type: "button", onclick: () => flip(i, j), onfocus: () => reach(i, j) })));
  const boxes = cells.map((line) => line.map((cell) => el("td", {}, cell)));
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const grid = el("table", { class: "cells", onkeydown: (event) => {
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const [i, j] = at.map((place, axis) => Math.min(Math.max(place + step[axis], 0), n - 1));
    cells[i][j].focus();
  } },
    el("caption", {}, "The mask: click a cell"),
    el("thead", {}, el("tr", {}, el("td", { class: "corner" }, "query ↓ ", el("span", {}, "key →")), ...heads.columns)),
    el("tbody", {}, ...places.map((i) => el("tr", {}, heads.rows[i], ...boxes[i]))));
  const left = el("div");
  let table = null;
  const count = el("p", { class: "strong note" });
  const findings = el("ul", { class: "findings" });
  stage.append(controls, el("div", { class: "picks", role: "group", "aria-label": "Masks to begin with" }, ...Object.values(buttons)), rule,
    el("div", { class: "side" }, live.wide("The mask", grid), live.wide("The weights", left)),
    el("div", { class: "controls note" }, ...["✓ seen", "– hidden", "○ hidden, though nothing forbids it", "! seen, and it leaks"].map((sign) =>
      el("span", {}, sign))), count, findings, el("p", { class: "note" }, data.note ?? ""));

  /** The tab key reaches one cell of the grid; arrows move on from there. */
  function reach(i, j) {
    cells[at[0]][at[1]].tabIndex = -1;
    at = [i, j];
    cells[i][j].tabIndex = 0;
  }

  function take(name) {
    preset = name;
    mask = made(name);
  }

  function flip(i, j) {
    mask[i][j] = !mask[i][j];
    preset = "";
    show(`${named(i)} ${said(i, j)} ${named(j)}.`);
  }

  // ---- words
  const named = (i) => `“${row.words[i]}” (${i})`;
  const listed = (list) => list.map(named).join(", ");
  const whys = {
    later: "A later token is seen, and with it the answer",
    pad: "A pad is seen: filler takes a share of the weight",
    other: "Another text is seen",
  };
  const said = (i, j) => mask[i][j]
    ? (reason(i, j) ? "sees, which leaks:" : "sees")
    : (reason(i, j) || row.pad[i] ? "does not see" : "does not see, though it might:");

  /** The findings on the mask: lists of leaks, of keys hidden needlessly, and of rows without a key. */
  function judge() {
    const pairs = places.flatMap((i) => places.map((j) => [i, j]));
    const leaks = pairs.filter(([i, j]) => mask[i][j] && reason(i, j));
    const spare = pairs.filter(([i, j]) => !mask[i][j] && !reason(i, j) && !row.pad[i]);
    const empty = places.filter((i) => !mask[i].some(Boolean));
    const selfless = places.filter((i) => !mask[i][i] && !row.pad[i]);
    return { leaks, spare, empty, selfless };
  }

  const many = (things, word) => `${things.length} ${word}${things.length === 1 ? "" : "s"}`;

  function summary() {
    const { leaks, spare, empty } = judge();
    if (!leaks.length && !spare.length) return "Nothing leaks, and all that may be seen is seen: just right for this row and this task.";
    const parts = [leaks.length ? `${many(leaks, "leak")}` : "Nothing leaks"];
    if (spare.length) parts.push(`${many(spare, "pair")} hidden though nothing forbids it`);
    if (empty.length) parts.push(`${many(empty, "row")} without a key`);
    return parts.join("; ") + ".";
  }

  function tellAll({ leaks, empty, selfless }) {
    const items = Object.entries(whys).flatMap(([why, words]) => {
      const of = places.map((i) => [i, leaks.filter(([q, j]) => q === i && reason(i, j) === why).map(([, j]) => j)]);
      const parts = of.filter(([, keys]) => keys.length).map(([i, keys]) => `${named(i)} sees ${listed(keys)}`);
      return parts.length ? [["leaks", `! ${words}:`, `${parts.join("; ")}.`]] : [];
    });
    const pads = empty.filter((i) => row.pad[i]), real = empty.filter((i) => !row.pad[i]);
    if (real.length) items.push(["", `Nothing to see for ${listed(real)}:`, "the softmax is 0/0. Here such a row gets weights of 0, and hears nothing."]);
    if (pads.length) items.push(["", `Nothing to see for ${listed(pads)}:`, "nobody uses what a pad computes, but 0/0 would be NaN, so it gets weights of 0."]);
    const blind = selfless.filter((i) => !empty.includes(i));
    if (blind.length) items.push(["", `Not even itself is seen by ${listed(blind)}:`, task === "all" ? "nothing forbids it." : "though each is known when the next one is guessed."]);
    findings.replaceChildren(...items.map(([name, head, rest]) => el("li", {}, el("strong", { class: name }, head), ` ${rest}`)));
  }

  // ---- what is shown
  function show(words) {
    const scores = row.Q.map((query) => row.K.map((key) => dot(query, key) / Math.sqrt(key.length)));
    const weights = scores.map((line, i) => softmax(line.map((score, j) => (mask[i][j] ? score : -Infinity))));
    const found = judge();
    const leaks = (i, j) => mask[i][j] && reason(i, j) !== "";
    for (const i of places) {
      heads.columns[i].textContent = row.words[i];
      heads.rows[i].textContent = row.words[i];
      for (const j of places) {
        const spare = !mask[i][j] && !reason(i, j) && !row.pad[i];
        boxes[i][j].className = leaks(i, j) ? "leak" : mask[i][j] ? "sees" : spare ? "free" : "no";
        cells[i][j].textContent = leaks(i, j) ? "!" : mask[i][j] ? "✓" : spare ? "○" : "–";
        cells[i][j].setAttribute("aria-pressed", String(mask[i][j]));
        cells[i][j].setAttribute("aria-label", `${named(i)} ${said(i, j)} ${named(j)}`);
      }
    }
    for (const [name, button] of Object.entries(buttons)) button.setAttribute("aria-pressed", String(equal(mask, made(name))));
    rule.textContent = preset ? `${preset}: ${presets[preset][0]}.` : "A mask of your own.";
    if (!table || table.words !== row.words) {
      table = live.matrix({ label: "The weights it leaves", rows: row.words, columns: row.words });
      table.words = row.words;
      left.replaceChildren(table);
    }
    table.set(weights, {
      colour: (i, j, x) => (mask[i][j] ? shade(leaks(i, j) ? "leak" : "query", x) : ""),
      mark: (i, j) => (leaks(i, j) ? "leak" : mask[i][j] ? "" : "no"),
    });
    count.textContent = summary();
    tellAll(found);
    numbers({ mask: mask.map((line) => [...line]), weights, preset, task, ...found });
    if (words) tell(words);
  }

  places.forEach((i) => places.forEach((j) => (cells[i][j].tabIndex = i || j ? -1 : 0)));
  take(preset);
  show();
});
