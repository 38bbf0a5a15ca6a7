// Shows how far back one token of the last layer reaches with sliding windows in several layers, and what caches keep.
// data: {n: tokens, window, layers, every: one layer in so many sees all tokens; 0 for none}
live.define("window", ({ stage, data, tell, numbers }) => {
  const { el, shade } = live;
  const n = data.n ?? 24, most = 5;
  const at = { window: data.window ?? 4, layers: data.layers ?? 3, every: data.every ?? 0, chosen: n - 1, sink: false };

  const seesAll = (layer) => at.every > 0 && (layer + 1) % at.every === 0;
  /** Whether token i sees token j in a layer: itself, the window before it, and with a sink the first token. */
  const sees = (layer, i, j) => j <= i && (seesAll(layer) || i - j < at.window || (at.sink && j === 0));

  /** ways[l][j]: whether the chosen token of the top depends on token j at height l; height 0 is the embeddings. */
  function reach() {
    const ways = [...Array(at.layers + 1)].map(() => Array(n).fill(false));
    ways[at.layers][at.chosen] = true;
    for (let layer = at.layers - 1; layer >= 0; layer--) {
      for (let i = 0; i < n; i++) {
        if (ways[layer + 1][i]) for (let j = 0; j <= i; j++) if (sees(layer, i, j)) ways[layer][j] = true;
      }
    }
    return ways;
  }

  // ---- the controls
  const tokens = (x) => `${x} token${x === 1 ? "" : "s"}`;
  const change = (name) => (x) => { at[name] = x; show(true); };
  const windowSlider = live.slider("window", { min: 1, max: n, step: 1, value: at.window, words: tokens }, change("window"));
  const asks = live.slider("the token that asks", { min: 0, max: n - 1, step: 1, value: at.chosen }, change("chosen"));
  const layerSlider = live.slider("layers", { min: 1, max: most, step: 1, value: at.layers }, change("layers"));
  const global = live.choice("a layer that sees all", { 0: "none", 2: "every 2nd", 3: "every 3rd" }, at.every, (x) => change("every")(Number(x)));
  const sink = live.toggle("keep the first token, too", at.sink, change("sink"));

  // ---- a row of tokens for each height
  const names = [...Array(most + 1).keys()].map((height) => el("th", { scope: "row" }, height ? `layer ${height}` : "tokens"));
  const cells = names.map(() => [...Array(n)].map(() => el("td")));
  const rows = names.map((name, height) => el("tr", {}, name, ...cells[height]));
  const table = el("table", { class: "reach" }, el("caption", {}, "Orange: whom it has heard, layer by layer"),
    el("tbody", {}, ...[...rows].reverse()));
  const far = live.number(0, 0), kept = live.number(0, 0), without = live.number(0, 0);
  const told = el("p", { style: "margin: 0" }, "It hears from ", el("strong", {}, far),
    " positions back. The caches of all layers hold ", el("strong", {}, kept), " pairs of key and value; with no window they would hold ",
    el("strong", {}, without), ".");
  stage.append(el("div", { class: "controls" }, windowSlider, layerSlider, asks), el("div", { class: "controls" }, global, sink),
    live.wide("Who is heard", table), told);

  function show(telling = false) {
    const ways = reach();
    rows.forEach((row, height) => (row.hidden = height > at.layers));
    ways.forEach((line, height) => line.forEach((heard, j) => {
      const cell = cells[height][j], end = height === 0 || height === at.layers;
      cell.style.background = heard ? shade("query", end ? 1 : 0.6) : "var(--panel)";
      cell.textContent = heard ? "•" : "";
    }));
    const back = at.chosen - ways[0].indexOf(true), length = at.chosen + 1;
    const heldBy = (layer) => (seesAll(layer) ? length : Math.min(length, at.window + (at.sink && length > at.window ? 1 : 0)));
    const held = [...Array(at.layers).keys()].reduce((sum, layer) => sum + heldBy(layer), 0);
    far.to(back);
    kept.to(held);
    without.to(length * at.layers);
    numbers({ reach: back, held, heard: ways[0], window: at.window, layers: at.layers });
    if (telling) tell(`Token ${at.chosen} hears from ${back} positions back; the caches hold ${held} pairs.`);
  }
  show();
});
