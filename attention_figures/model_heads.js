// Shows what each head of a language model attends to in a short text: a recorded pattern for each, in whole per cent.
// data: {texts: [{name, tokens: [n], next: [n - 1], heads: [layers][heads] of strings}], signs: for 1 … 100 per cent,
//        stops: [{name, text, head: [layer, head], token, colour, why}]}; `tools/record_model_heads.py` says how a string is written
live.define("model_heads", ({ stage, data, tell, numbers }) => {
  const { el, svg, shade } = live;
  const { texts, stops } = data;
  const layers = texts[0].heads.length, heads = texts[0].heads[0].length;
  const KINDS = { previous: "the previous token", followed: "what came next last time", first: "the first token" };
  const shareOf = Object.fromEntries([...data.signs].map((sign, i) => [sign, i + 1]));
  const average = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : 0);
  const word = (i) => `“${read[at.text].tokens[i].trim()}”`;
  const name = ([layer, head]) => `${layer}.${head}`;
  const at = { text: 0, head: [0, 0], token: 0, colour: "previous", ...stops[0] };
  let peek = null;

  // ---- what was recorded

  /** The rows of a pattern, each with as many weights as its token sees tokens. */
  function rows(written, n) {
    const flat = [...written.replace(/\d+/g, (zeros) => "0".repeat(Number(zeros)))].map((sign) => shareOf[sign] ?? 0);
    return [...Array(n).keys()].map((i) => flat.slice((i * (i + 1)) / 2, ((i + 1) * (i + 2)) / 2));
  }

  /** For each kind, the tokens that each token could attend to, and the tokens that are averaged. */
  function wanted(tokens) {
    const later = [...tokens.keys()].slice(1);
    const followed = (i) => later.filter((j) => j <= i && tokens[j - 1] === tokens[i]);
    return {
      previous: later.map((i) => [i, [i - 1]]),
      followed: later.map((i) => [i, followed(i)]).filter(([, found]) => found.length),
      first: later.map((i) => [i, [0]]),
    };
  }

  const read = texts.map(({ tokens, heads: all }) => {
    const patterns = all.map((layer) => layer.map((written) => rows(written, tokens.length)));
    const places = wanted(tokens);
    const score = (kind, pattern) =>
      average(places[kind].map(([i, found]) => found.reduce((sum, j) => sum + pattern[i][j], 0)));
    const scores = Object.fromEntries(Object.keys(KINDS).map((kind) =>
      [kind, patterns.map((layer) => layer.map((pattern) => score(kind, pattern)))]));
    return { tokens, patterns, scores, repeats: places.followed.length > 0 };
  });

  // ---- the controls
  const stopButtons = stops.map((stop) => live.button(stop.name, () => go(stop)));
  const why = el("p", { class: "note why" });
  const textNames = Object.fromEntries(texts.map((text, i) => [i, text.name]));
  const textChoice = live.choice("Text", textNames, at.text, (i) => change({ text: Number(i), token: Math.min(at.token, read[i].tokens.length - 1) }));
  const colours = live.choice("Blue: the share of a head’s attention on", KINDS, at.colour, (colour) => change({ colour }));
  const tick = (fieldset, value) => (fieldset.querySelector(`input[value="${value}"]`).checked = true);

  function go(stop) {
    const { text, head, token, colour } = stop;
    change({ text, head, token, colour });
  }

  // ---- the text
  let sentence = null, shown = [];
  const page = el("div", { class: "page" });
  const said = el("p", { class: "strong said-of-head" }), expects = el("p", { class: "note" });
  function lay() {
    const { tokens } = read[at.text];
    sentence = live.picks("The text: which token reads? Below each one is its share, in per cent", tokens.map((token) => token.trim()), at.token, (token) => change({ token }));
    sentence.classList.add("tokens");
    shown = sentence.buttons.map((button, i) => {
      if (i && !tokens[i].startsWith(" ")) button.classList.add("joined");
      const share = el("small", {}, "");
      button.append(share);
      return share;
    });
    page.replaceChildren(sentence);
    draw();
  }

  // ---- all heads
  const cells = [...Array(layers).keys()].map((layer) => [...Array(heads).keys()].map((head) =>
    el("span", { role: "gridcell", tabindex: -1, onfocus: () => focused([layer, head]) })));
  const grid = el("div", {
    role: "grid", class: "all-heads", "aria-label": "All heads: a column for each layer, a row for each head",
    style: `--layers: ${layers}`, onkeydown: press, onpointerdown: point, onpointermove: point, onpointerleave: () => look(null),
  }, ...[...Array(heads).keys()].map((head) => el("div", { role: "row" }, ...cells.map((column) => column[head]))));
  const axis = el("div", { class: "axis", "aria-hidden": "true" }, el("span", {}, "layer 0"), el("span", { class: "middle" }, `a column for each layer, ${heads} heads in it`), el("span", {}, `layer ${layers - 1}`));
  const best = [0, 1, 2].map(() => live.button("", () => {}));
  const strongest = el("div", { class: "controls stops", role: "group", "aria-label": "the heads with the largest shares" },
    el("span", { class: "note" }, "Largest:"), ...best);
  const nothing = el("p", { class: "note" }, "No token of this text occurs twice, so nothing came next last time.");
  const scale = el("p", { class: "note scale", "aria-hidden": "true" }, "0 %", el("span"), "100 %");

  function press(event) {
    const [layer, head] = at.head;
    const next = { ArrowLeft: [layer - 1, head], ArrowRight: [layer + 1, head], ArrowUp: [layer, head - 1], ArrowDown: [layer, head + 1],
      Home: [0, head], End: [layers - 1, head] }[event.key];
    if (!next) return;
    event.preventDefault();
    cells[next[0]]?.[next[1]]?.focus();
  }

  function focused(head) {
    if (name(head) !== name(at.head)) change({ head });
  }

  /** Hovering over a head previews it; a click or a tap chooses it. */
  function point(event) {
    const box = grid.getBoundingClientRect();
    const place = (x, size, count) => Math.min(count - 1, Math.max(0, Math.floor((x / size) * count)));
    const head = [place(event.clientX - box.left, box.width, layers), place(event.clientY - box.top, box.height, heads)];
    if (event.type === "pointermove" && !event.buttons) return event.pointerType === "mouse" && look(head);
    event.preventDefault();
    cells[head[0]][head[1]].focus({ preventScroll: true });
  }

  function look(head) {
    if (String(head) === String(peek)) return;
    peek = head;
    drawPattern();
  }

  // ---- the pattern of one head
  const CELL = 14, SIDE = 62;
  const map = svg("svg", { class: "whole", role: "img", onpointermove: (event) => event.pointerType === "mouse" && row(event), onpointerdown: row });
  let squares = [], labels = [], frame = null;
  const title = el("p", { class: "strong", style: "margin: 0" });
  function row(event) {
    const i = squares.findIndex((line) => event.clientY < line[0].getBoundingClientRect().bottom);
    if (i >= 0 && i !== at.token) sentence.choose(i);
  }
  function layMap() {
    const { tokens } = read[at.text], size = tokens.length * CELL;
    squares = tokens.map((_, i) => [...Array(i + 1).keys()].map((j) => svg("rect", { x: SIDE + j * CELL, y: i * CELL, width: CELL - 1, height: CELL - 1,
      stroke: "var(--line)", "stroke-width": 0.5 })));
    labels = tokens.map((token, i) => svg("text", { x: SIDE - 5, y: i * CELL + 11, "text-anchor": "end", "font-size": 11 }, token.trim()));
    frame = svg("rect", { x: SIDE - 1, height: CELL + 1, fill: "none", stroke: "var(--query)", "stroke-width": 2 });
    map.setAttribute("viewBox", `0 -2 ${SIDE + size + 2} ${size + 4}`);
    map.style.maxWidth = `${SIDE + size + 2}px`;
    map.replaceChildren(...labels, ...squares.flat(), frame);
  }

  // ---- one head in numbers
  const bars = Object.entries(KINDS).map(([kind, words]) => {
    const bar = el("span", { class: "bar", style: "background: var(--key)" }), share = live.number(0, (x) => `${Math.round(x)} %`);
    return { kind, bar, share, line: el("tr", {}, el("th", { scope: "row" }, words), el("td", { class: "weigh" }, bar, share)) };
  });
  const caption = el("caption");
  const facts = el("table", { class: "facts" }, caption, el("tbody", {}, ...bars.map((each) => each.line)));
  const means = el("p", { class: "note" }, "Share of its attention in this text, over the tokens that have such a token to read.");

  stage.append(
    el("div", { class: "controls stops", role: "group", "aria-label": "heads to look at" }, ...stopButtons),
    why, el("div", { class: "controls" }, textChoice), page, el("div", {}, said, expects),
    el("div", { class: "side" },
      el("div", { class: "choosing" }, el("div", { class: "controls" }, colours), el("div", {}, axis, grid), scale, strongest, nothing),
      el("div", { class: "pattern" }, title, map, facts, means)));

  function change(next) {
    const fresh = next.text !== undefined && next.text !== at.text;
    const { text, head, token, colour } = at;
    Object.assign(at, next);
    peek = null;
    if (fresh) {
      layMap();
      lay();
    } else draw();
    if (text !== at.text || name(head) !== name(at.head)) tell(`${said.textContent} ${onAverage()}`);
    else if (token !== at.token) tell(`${said.textContent} ${expects.textContent}`);
    else if (colour !== at.colour) tell(`Now the colour means the share on ${KINDS[at.colour]}. ${largest()}`);
  }

  const ranked = () => cells.flatMap((column, layer) => column.map((_, head) => [layer, head]))
    .sort((a, b) => scoreOf(b) - scoreOf(a));
  const stopNow = () => stops.find(({ text, head, token }) => text === at.text && name(head) === name(at.head) && token === at.token);
  const scoreOf = ([layer, head], kind = at.colour) => read[at.text].scores[kind][layer][head];
  const onAverage = () => `On average it gives ${Math.round(scoreOf(at.head))} per cent to ${KINDS[at.colour]}.`;
  const largest = () => `Largest: ${ranked().slice(0, 3).map((head) => `${name(head)} with ${Math.round(scoreOf(head))} per cent`).join(", ")}.`;

  /** Show text and pattern of the head under the mouse, or of the chosen one. */
  function drawPattern() {
    const { tokens, patterns, repeats } = read[at.text], head = peek ?? at.head;
    const pattern = patterns[head[0]][head[1]], now = pattern[at.token];
    sentence.buttons.forEach((button, i) => {
      const share = now[i] ?? null;
      button.classList.toggle("later", share === null);
      button.style.background = share === null ? "" : shade("key", share / 100);
      shown[i].textContent = share ? String(share) : "";
    });
    const most = now.indexOf(Math.max(...now));
    said.textContent = at.token === 0 ? `Head ${name(head)}: ${word(0)} can read nothing but itself.`
      : `Head ${name(head)}: ${word(at.token)} gives ${now[most]} % of its attention to ${most === at.token ? "itself" : word(most)}.`;
    const next = texts[at.text].next[at.token];
    expects.textContent = next === undefined ? "The text ends here."
      : `Next comes ${word(at.token + 1)}. The model, with all its heads, gives it a probability of ${next || "less than 1"} %.`;
    squares.forEach((line, i) => line.forEach((square, j) => (square.style.fill = shade("key", pattern[i][j] / 100))));
    labels.forEach((label, i) => label.setAttribute("font-weight", i === at.token ? 700 : 400));
    frame.setAttribute("y", at.token * CELL - 1);
    frame.setAttribute("width", (at.token + 1) * CELL + 1);
    map.setAttribute("aria-label", `The whole pattern of head ${name(head)}: a row for each token that reads, a column for each token that is read`);
    title.textContent = `Head ${name(head)}, the whole pattern`;
    caption.textContent = `Head ${name(head)} on average`;
    bars.forEach(({ kind, bar, share, line }) => {
      const value = scoreOf(head, kind);
      bar.style.setProperty("--share", value / 100);
      share.to(value);
      line.hidden = kind === "followed" && !repeats;
    });
    cells.forEach((column, layer) => column.forEach((cell, h) => cell.classList.toggle("looked", name([layer, h]) === name(head))));
    numbers({ text: at.text, head, chosen: at.head, token: at.token, colour: at.colour, row: now, pattern, scores: read[at.text].scores,
      next, stop: stopNow()?.name ?? null });
  }

  /** Show the map of all heads and the chosen controls. */
  function drawHeads() {
    cells.forEach((column, layer) => column.forEach((cell, h) => {
      const chosen = name([layer, h]) === name(at.head), score = scoreOf([layer, h]);
      cell.style.background = shade("key", score / 100);
      cell.setAttribute("aria-selected", String(chosen));
      cell.setAttribute("aria-label", `head ${layer}.${h}: ${Math.round(score)} per cent`);
      cell.tabIndex = chosen ? 0 : -1;
    }));
    ranked().slice(0, 3).forEach((each, i) => {
      best[i].textContent = `${name(each)}, ${Math.round(scoreOf(each))} %`;
      best[i].onclick = () => change({ head: each });
    });
    strongest.hidden = at.colour === "followed" && !read[at.text].repeats;
    nothing.hidden = !strongest.hidden;
    stopButtons.forEach((button, i) => button.setAttribute("aria-pressed", String(stops[i] === stopNow())));
    why.textContent = stopNow()?.why ?? "Point at a token, and see what it reads. Point at a head, and see how it reads; a click keeps it.";
    tick(textChoice, at.text);
    tick(colours, at.colour);
  }

  function draw() {
    drawHeads();
    drawPattern();
  }
  layMap();
  lay();
});
