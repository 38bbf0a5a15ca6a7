// Shows FlashAttention's loop: one tile of scores at a time in fast memory, what it keeps, and how many bytes it moves.
// data: {Q, K, V: (n, d), block_q, block_k, row: whose sums are shown, done: tiles, bytes: of one number, causal,
//        offers: some of ["causal", "factor"], yours: {full, causal}: (n, d) or null, what the reader's functions return}
live.define("tiles", ({ stage, data, tell, numbers }) => {
  const { el, dot, written } = live;
  const { Q, K, V, offers = ["factor"] } = data;
  const n = Q.length, d = Q[0].length, size = data.bytes ?? 2, tokens = [...Array(n).keys()];
  const at = { q: data.block_q ?? 4, k: data.block_k ?? 4, causal: data.causal ?? false, factor: true, row: data.row ?? 0, done: data.done ?? 1 };
  const scores = Q.map((query) => K.map((key) => dot(query, key) / Math.sqrt(d)));
  const may = (i, j) => !at.causal || j <= i;
  const mix = (weights) => V[0].map((_, c) => weights.reduce((sum, weight, j) => sum + weight * V[j][c], 0));
  /** softmax(QKᵀ/√d)V without tiles. */
  const plain = () => scores.map((row, i) => mix(live.softmax(row.map((score, j) => (may(i, j) ? score : -Infinity)))));

  // ---- the loop
  /** The tiles in order: all that one block of queries needs, then the next block. */
  function order() {
    const tiles = [];
    for (let q = 0; q < n; q += at.q) {
      const qEnd = Math.min(q + at.q, n);
      for (let k = 0; k < n && (!at.causal || k < qEnd); k += at.k) {
        tiles.push({ q, qEnd, k, kEnd: Math.min(k + at.k, at.causal ? qEnd : n) });
      }
    }
    return tiles.map((tile, t) => ({ ...tile, first: tile.k === 0, last: tiles[t + 1]?.q !== tile.q }));
  }

  /** The contents of memory after so many tiles. `steps`: what the last tile did to each of its rows. */
  function after(done) {
    const tiles = order().slice(0, done), state = Q.map(() => ({ m: -Infinity, l: 0, o: V[0].map(() => 0) }));
    const outputs = Q.map(() => null), made = Q.map(() => K.map(() => "")), moved = { Q: 0, KV: 0, O: 0 };
    let steps = {};
    for (const [t, tile] of tiles.entries()) {
      steps = {};
      if (tile.first) moved.Q += (tile.qEnd - tile.q) * d * size;
      moved.KV += 2 * (tile.kEnd - tile.k) * d * size;
      for (let i = tile.q; i < tile.qEnd; i++) {
        const before = state[i], keys = tokens.slice(tile.k, tile.kEnd).filter((j) => may(i, j));
        for (let j = tile.k; j < tile.kEnd; j++) made[i][j] = t === done - 1 ? "now" : "gone";
        const m = Math.max(before.m, ...keys.map((j) => scores[i][j]));
        const factor = m === -Infinity ? 1 : !at.factor && before.m > -Infinity ? 1 : Math.exp(before.m - m);
        const terms = tokens.map((j) => (keys.includes(j) ? Math.exp(scores[i][j] - m) : 0));
        const l = terms.reduce((a, b) => a + b, 0), o = mix(terms);
        state[i] = { m, l: factor * before.l + l, o: before.o.map((x, c) => factor * x + o[c]) };
        steps[i] = { before, factor, own: { l, o }, after: state[i], grows: before.m > -Infinity && m > before.m, hidden: !keys.length };
        if (tile.last) outputs[i] = state[i].o.map((x) => x / state[i].l);
      }
      if (tile.last) moved.O += (tile.qEnd - tile.q) * d * size;
    }
    return { state, outputs, made, moved, steps, tile: tiles[done - 1] };
  }

  // ---- the controls
  const back = live.button("◀ back", () => go(at.done - 1)), on = live.button("step ▶", () => go(at.done + 1));
  const play = live.button("play", () => (timer ? stop() : start())), reset = live.button("reset", () => go(0));
  let timer = 0;
  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "play";
  }
  function start() {
    if (at.done === order().length) at.done = 0;
    timer = setInterval(() => (stage.isConnected ? advance() : stop()), 1100);
    play.textContent = "pause";
    advance();
  }
  function advance() {
    at.done++;
    if (at.done >= order().length) stop();
    show(true);
  }
  function go(to) {
    stop();
    at.done = Math.min(Math.max(to, 0), order().length);
    show(true);
  }
  const cut = (name, label) => live.slider(label, { min: 1, max: n, step: 1, value: at[name] }, (x) => { at[name] = x; go(0); });
  const switches = { causal: "causal mask", factor: "leave the factor out (a mistake)" };
  const toggles = offers.map((name) => live.toggle(switches[name], name === "causal" && at.causal, (now) => {
    at[name] = name === "factor" ? !now : now;
    if (name === "causal") return go(0);
    show(true);
  }));
  const bar = (...parts) => el("div", { class: "controls" }, ...parts);

  // ---- the table of scores, with what is read at its edges and written at its right
  const columns = tokens.map((j) => el("th", { scope: "col" }, String(j)));
  const cells = tokens.map(() => tokens.map(() => el("td", {})));
  const rowHeads = tokens.map((i) => el("th", { scope: "row" }, String(i)));
  const results = tokens.map(() => V[0].map(() => live.number()));
  const written_ = tokens.map((i) => results[i].map(() => el("td", {})));
  const lines = tokens.map((i) => el("tr", {}, rowHeads[i], ...cells[i], ...written_[i]));
  lines.forEach((line, i) => line.addEventListener("pointerdown", () => rows.choose(i)));
  const table = el("table", { class: "tiles" },
    el("caption", {}, "Scores: query down, key across"),
    el("thead", {}, el("tr", {}, el("td", {}), ...columns, el("th", { scope: "colgroup", colspan: d }, "output"))),
    el("tbody", {}, ...lines));
  const rows = live.picks("Whose sums?", tokens.map(String), at.row, (i) => { at.row = i; show(); });

  // ---- the sums of one row
  const head = ["m", "ℓ", ...V[0].map((_, c) => `o${c}`)];
  const stages = ["before", "× factor", "+ own terms", "after", "o / ℓ"];
  const figures = stages.map(() => head.map(() => live.number()));
  const names = stages.map((words) => el("th", { scope: "row" }, words));
  const stateLines = stages.map((_, s) => el("tr", {}, names[s], ...figures[s].map((figure) => el("td", {}, figure))));
  const caption = el("caption", {});
  const sums = el("table", { class: "state" }, caption,
    el("thead", {}, el("tr", {}, el("td", {}), ...head.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, ...stateLines));
  const place = el("p", { class: "strong", style: "margin: 0" }), held = el("p", { class: "note" }), happened = el("p", { class: "note" });

  // ---- the bytes
  const standard = (6 * n * n + 4 * n * d) * size;
  const amount = (words, colour) => {
    const strip = el("span", { class: "bar amount", style: `background: var(--${colour})` }), told = live.number(0, (x) => `${Math.round(x)} bytes`);
    const more = el("span", { class: "note" });
    const whole = el("p", { class: "amounts" }, el("strong", {}, words), " ", told, " ", more, el("br"), strip);
    return { whole, more, set: (x) => { told.to(x); strip.style.setProperty("--share", x / standard); } };
  };
  const amounts = { tiles: amount("tiles, so far:", "fourth"), standard: amount("the standard way:", "soft") };
  amounts.standard.more.textContent = `(6 n² + 4 n d) · ${size}: the scores six times through memory`;
  const end = el("p", { class: "strong", style: "margin: 0" });

  stage.append(bar(on, back, play, reset), bar(cut("q", "queries in a block"), cut("k", "keys in a block"), ...toggles), place, held,
    el("div", { class: "side" }, live.wide("The table of scores", table),
      el("div", { class: "half" }, el("div", {}, el("p", { class: "note" }, "Whose sums? Choose a query:"), rows), live.wide("The sums of one query", sums), happened)),
    amounts.tiles.whole, amounts.standard.whole, end);

  const span = (a, b) => (b - a === 1 ? `${a}` : `${a} to ${b - 1}`);

  function show(telling = false) {
    const tiles = order(), { state, outputs, made, moved, steps, tile } = after(at.done), over = at.done === tiles.length;
    back.disabled = reset.disabled = at.done === 0;
    on.disabled = over;
    const skipped = Math.ceil(n / at.q) * Math.ceil(n / at.k) - tiles.length;
    place.textContent = tile ? `Tile ${at.done} of ${tiles.length}: queries ${span(tile.q, tile.qEnd)} meet keys ${span(tile.k, tile.kEnd)}.`
      : `Before the first of ${tiles.length} tiles${skipped ? `; ${skipped} lie${skipped === 1 ? "s" : ""} wholly in the future and ${skipped === 1 ? "is" : "are"} skipped` : ""}.`;
    const inside = tile ? (tile.qEnd - tile.q) * (tile.kEnd - tile.k) : 0;
    held.textContent = tile ? `In fast memory: ${inside} of ${n * n} scores; these queries with m, ℓ and o; these keys and their values.`
      : "In fast memory: nothing yet.";
    tokens.forEach((i) => {
      const at_work = tile && i >= tile.q && i < tile.qEnd;
      rowHeads[i].className = at_work ? "is-query" : "";
      columns[i].className = tile && i >= tile.k && i < tile.kEnd ? "is-key" : "";
      lines[i].className = i === at.row ? "chosen" : "";
      tokens.forEach((j) => {
        const now = made[i][j] === "now";
        cells[i][j].className = made[i][j] && may(i, j) ? made[i][j] : may(i, j) ? "" : "no";
        cells[i][j].textContent = now && may(i, j) ? written(scores[i][j], 1) : "";
      });
      written_[i].forEach((cell, c) => {
        cell.className = outputs[i] ? "is-value" : "";
        if (outputs[i]) results[i][c].to(outputs[i][c]);
        cell.replaceChildren(...(outputs[i] ? [results[i][c]] : []));
      });
    });
    sum(steps[at.row], state[at.row], outputs[at.row]);
    const total = moved.Q + moved.KV + moved.O;
    amounts.tiles.set(total);
    amounts.tiles.more.textContent = `Q ${moved.Q}, K and V ${moved.KV} read; outputs ${moved.O} written`;
    amounts.standard.set(standard);
    finish(over, outputs);
    numbers({ done: at.done, tiles: tiles.length, skipped, moved: { ...moved, total }, standard, row: at.row, outputs, factor: steps[at.row]?.factor ?? null,
      m: state[at.row].m, l: state[at.row].l, o: state[at.row].o, inside, plain: plain() });
    if (telling) tell(`${place.textContent} ${happened.textContent} ${total} bytes so far. ${end.textContent}`);
  }

  /** The chosen row's sums, before and after this tile. */
  function sum(step, state, output) {
    const { before, factor, own } = step ?? { before: state, factor: 1, own: { l: 0, o: V[0].map(() => 0) } };
    caption.textContent = step ? `Query ${at.row}: its sums in this tile` : `Query ${at.row}: its sums`;
    const nothing = V[0].map(() => 0);
    const kept = step ? { l: factor * before.l, o: before.o.map((x) => factor * x) } : before;
    const table = [[before.m, before.l, ...before.o], [state.m, kept.l, ...kept.o], [state.m, own.l, ...own.o],
      [state.m, state.l, ...state.o], [0, 0, ...(state.l ? state.o.map((x) => x / state.l) : nothing)]];
    table.forEach((line, s) => line.forEach((x, c) => figures[s][c].to(x)));
    stateLines.forEach((line, s) => [...line.querySelectorAll("td")].forEach((cell, c) => {
      cell.className = s === 3 || (s === 4 && c > 1 && output) ? "is-value strong" : "";
      cell.style.visibility = (s < 3 && (!step || (s > 0 && c === 0))) || (s === 4 && (c < 2 || !state.l)) ? "hidden" : "";
    }));
    [0, 1, 2].forEach((s) => (stateLines[s].style.visibility = step ? "" : "hidden"));
    names[3].textContent = step ? "after" : "so far";
    names[1].textContent = step ? `× factor ${written(factor)}` : "× factor";
    stateLines[1].className = step?.grows ? "grows" : "";
    happened.textContent = !at.done ? "Nothing has been read yet." : !step ? `Query ${at.row} is not in this tile: ${output ? "its output is written." : "it has nothing yet."}`
      : step.hidden ? `The mask hides all keys of this tile from query ${at.row}.`
        : before.m === -Infinity ? `Query ${at.row} begins: there is nothing yet to rescale.`
          : !step.grows ? `The maximum stays at ${written(state.m)}: factor 1.`
            : at.factor ? `The maximum grows from ${written(before.m)} to ${written(state.m)}: what was summed shrinks, times e^(${written(before.m)} − ${written(state.m)}) = ${written(factor)}.`.replace("− −", "+ ")
              : `The maximum grows from ${written(before.m)} to ${written(state.m)}, and nothing is rescaled: the sums are measured against two maxima.`;
  }

  /** The result, compared with the formula. */
  function finish(over, outputs) {
    const gap = (table, other) => Math.max(...table.flatMap((row, i) => row.map((x, c) => Math.abs(x - other[i][c]))));
    end.hidden = !over;
    if (!over) return (end.textContent = "");
    const off = gap(outputs, plain());
    end.textContent = off < 1e-9 ? "Done: all outputs equal softmax(QKᵀ/√d)V." : `Done, and wrong: outputs differ from softmax(QKᵀ/√d)V by up to ${written(off)}.`;
    const yours = data.yours?.[at.causal ? "causal" : "full"];
    if (yours) {
      const mine = gap(yours, plain());
      end.textContent += mine < 1e-4 ? " So do those of your function." : ` Those of your function differ by up to ${written(mine)}.`;
    }
  }
  show();
});
