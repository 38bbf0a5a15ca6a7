// Shows which numbers each head gets when a table is split into heads and merged again.
// data: {n, h, d_head}: tokens, heads, width of a head. Each number is its own index in memory.
live.define("split", ({ stage, data, tell, numbers }) => {
  const { el, shade } = live;
  const COLOURS = ["key", "query", "value", "fourth"];
  const at = { n: data.n ?? 3, h: data.h ?? 2, d: data.d_head ?? 4, chosen: 0, cut: "view", glue: "transpose" };
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const wide = () => at.h * at.d;
  const all = () => [...Array(at.n * wide()).keys()];
  const owner = (k) => Math.floor((k % wide()) / at.d), token = (k) => Math.floor(k / wide());

  /** The tables of the heads, one after the other, with the number at each position. */
  function heads() {
    const place = (r, i, c) => (at.cut === "view" ? i * wide() + r * at.d + c : (r * at.n + i) * at.d + c);
    return [...Array(at.h).keys()].map((r) => [...Array(at.n).keys()].map((i) => [...Array(at.d).keys()].map((c) => place(r, i, c))));
  }
  /** The merged heads. */
  function merged(tables) {
    const row = (i) => (at.glue === "transpose" ? tables.flatMap((table) => table[i]) : tables.flat(2).slice(i * wide(), (i + 1) * wide()));
    return [...Array(at.n).keys()].map(row);
  }

  // ---- the controls
  const size = (name, label, min, max) => live.slider(label, { min, max, step: 1, value: at[name] }, (x) => {
    at[name] = x;
    at.chosen = Math.min(at.chosen, at.h - 1);
    build();
  });
  const sliders = [size("h", "heads h", 1, 4), size("d", "width d_head", 1, 4), size("n", "tokens n", 2, 4)];
  const cut = live.choice("cut by", { view: "view, then transpose", reshape: "reshape alone (a mistake)" }, at.cut, (x) => { at.cut = x; show(); });
  const glue = live.choice("glued by", { transpose: "transpose, then reshape", reshape: "reshape alone (a mistake)" }, at.glue, (x) => { at.glue = x; show(); });
  const bar = (...parts) => el("div", { class: "controls" }, ...parts);
  const which = el("div"), tables = el("div", { class: "stages" });
  const owns = el("p", { class: "strong", style: "margin: 0" }), verdict = el("p", { style: "margin: 0" });
  stage.append(bar(...sliders), bar(cut), bar(glue), which, owns, tables, verdict);

  let picks, cells = {}, places = {};

  /** A table of empty cells; `columns` are the numbers in its header. */
  function table(name, label, rows, columns) {
    places[name] = rows.map(() => columns.map(() => el("td")));
    return el("table", { class: "matrix cut" }, el("caption", {}, label),
      el("thead", {}, el("tr", {}, el("td"), ...columns.map((c) => el("th", { scope: "col" }, String(c))))),
      el("tbody", {}, ...rows.map((row, i) => el("tr", {}, el("th", { scope: "row" }, row), ...places[name][i]))));
  }

  /** Draw all tables again, for new sizes. */
  function build() {
    const count = (m) => [...Array(m).keys()], tokens = count(at.n).map((i) => `token ${i}`);
    places = {};
    cells = Object.fromEntries(["Q", "heads", "merged"].map((name) => [name, all().map((k) => el("span", {}, String(k)))]));
    picks = live.picks("Which head?", count(at.h).map((r) => `head ${r}`), at.chosen, choose);
    which.replaceChildren(picks);
    tables.replaceChildren(
      live.wide("Q", table("Q", `Q[b]: (n, h·d_head) = (${at.n}, ${wide()})`, tokens, count(wide()))),
      el("p", { class: "note" }, "cut ↓"),
      live.wide("The heads", el("div", { class: "row" }, ...count(at.h).map((r) => table(`head ${r}`, `head ${r}: (${at.n}, ${at.d})`, count(at.n).map(String), count(at.d))))),
      el("p", { class: "note" }, "glued ↓"),
      live.wide("Merged", table("merged", `merged: (n, h·d_head) = (${at.n}, ${wide()})`, tokens, count(wide()))));
    all().forEach((k) => places.Q[token(k)][k % wide()].append(cells.Q[k]));
    show(false);
  }

  function choose(r) {
    at.chosen = r;
    paint();
    tell(owns.textContent);
  }

  /** Move numbers to their new cells, unless the reader wants no animation. */
  function lay(which, order) {
    const from = order.flat().map(({ k }) => cells[which][k].getBoundingClientRect());
    order.flat().forEach(({ k, to }) => to.append(cells[which][k]));
    if (still.matches) return;
    order.flat().forEach(({ k }, p) => {
      const [a, b] = [from[p], cells[which][k].getBoundingClientRect()];
      if (!a.width || (a.x === b.x && a.y === b.y)) return;
      cells[which][k].animate([{ transform: `translate(${a.x - b.x}px, ${a.y - b.y}px)` }, { transform: "none" }], { duration: 600, easing: "ease" });
    });
  }

  function paint() {
    const columns = [at.chosen * at.d, (at.chosen + 1) * at.d - 1];
    const span = columns[0] === columns[1] ? `column ${columns[0]}` : `columns ${columns[0]} to ${columns[1]}`;
    owns.textContent = `Head ${at.chosen} owns the ${span} of W_Q, W_K and W_V, and so of Q, K and V.`;
    for (const group of Object.values(cells)) {
      group.forEach((cell, k) => {
        cell.parentNode.style.background = shade(COLOURS[owner(k)], owner(k) === at.chosen ? 0.9 : 0.22);
        cell.parentNode.className = owner(k) === at.chosen ? "mine" : "";
      });
    }
    report();
  }

  function report() {
    const found = heads();
    numbers({ ...at, heads: found, merged: merged(found) });
  }

  function show(telling = true) {
    const found = heads(), whole = merged(found);
    const within = [...Array(at.h).keys()].map((r) => places[`head ${r}`]);
    lay("heads", found.flatMap((table, r) => table.map((row, i) => row.map((k, c) => ({ k, to: within[r][i][c] })))));
    lay("merged", whole.map((row, i) => row.map((k, c) => ({ k, to: places.merged[i][c] }))));
    paint();
    const right = found.every((table, r) => table.flat().every((k) => owner(k) === r)), back = whole.flat().every((k, p) => k === p);
    const tokens = [...new Set(found[0].flat().map(token))];
    verdict.textContent = (right ? "Each head has its own columns, of all tokens. "
      : `The shapes are right and the heads are not: “head 0” has numbers of ${tokens.length === 1 ? `token ${tokens[0]} alone` : `tokens ${tokens[0]} to ${tokens.at(-1)}`}, whichever head they belong to. `)
      + (back && right ? "Glued together, every number is back in its place."
        : back ? "And gluing by a reshape alone puts all numbers back: there and back again shows no mistake."
          : "Glued together, the numbers are not where they were.");
    if (telling) tell(verdict.textContent);
  }
  build();
});
