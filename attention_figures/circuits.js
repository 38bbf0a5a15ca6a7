// Shows the heads of a trained model: what each attends to from a chosen token, what the model predicts next, and how the
// prediction changes when a head is removed. All numbers are stored, in per cent.
// data: {words, next: characters, one for each token; heads: [{name, layer}], facts: names of a head's scores,
//        moments: [{step, looks: {out: {head: rows of the triangle}}, facts: {out: {head: scores}},
//                   says: {out: [three characters, %, %, %] for each token}, right: {out: % of the right next one}}],
//        counts: {words, places}: which predictions are averaged, rival: {name, says}, chosen, moment,
//        head: the one whose weights shade the text, if there are many heads,
//        curves: [{name, colour, dash, panel, values}], every: steps between two values, panels: [{name, low, high}]}
// `out` lists the removed heads, as in "0,1"; for a head's weights, only those of the layers below it.
live.define("circuits", ({ stage, data, tell, numbers }) => {
  const { el, svg, written, shade } = live;
  const { words, next, heads, moments, facts = [], curves = [], counts, rival } = data;
  const n = words.length;
  const many = heads.length > 3; // then the maps are small, and the text shows what one head attends to
  const at = { moment: data.moment ?? moments.length - 1, chosen: data.chosen ?? n - 1, head: data.head ?? 0, out: new Set() };
  const drawn = (sign) => ({ " ": "␣", "\n": "¶" })[sign] ?? sign;
  const spoken = (sign) => ({ " ": "a space", "\n": "the line's end" })[sign] ?? `“${sign}”`;

  const now = () => moments[at.moment];
  const silent = (below = Infinity) => heads.map((_, h) => h).filter((h) => at.out.has(h) && heads[h].layer < below).join(",");
  const rows = (h) => now().looks[silent(heads[h].layer)][h];
  const row = (h) => rows(h)[at.chosen].map((share) => share / 100);

  // ---- training: a slider, and the curves with a line that marks the step
  const bar = (...parts) => el("div", { class: "controls" }, ...parts);
  const stepWords = (k) => `step ${moments[k].step}`;
  const last = moments.length - 1;
  const slider = live.slider("training", { min: 0, max: last, step: 1, value: at.moment, words: stepWords }, (k) => {
    stop();
    to({ moment: k });
  });
  let playing = null;
  const play = live.button("play", () => {
    if (playing) return stop();
    if (at.moment === last) to({ moment: 0 });
    play.textContent = "stop";
    playing = setInterval(() => (at.moment < last ? to({ moment: at.moment + 1 }) : stop()), 450);
  });
  function stop() {
    clearInterval(playing);
    playing = null;
    play.textContent = "play";
  }
  const W = 360, LEFT = 30, HIGH = 104;
  const end = curves.length && Math.max(...curves.map((curve) => (curve.values.length - 1) * data.every));
  const x = (step) => LEFT + ((W - LEFT - 10) * step) / end;
  const marker = svg("line", { y1: 4, stroke: "var(--ink)", "stroke-width": 1.5, "stroke-dasharray": "4 3" });
  const label = (text, place, anchor) => svg("text", { x: place[0], y: place[1], "text-anchor": anchor, "font-size": 12 }, text);

  function plot() {
    const parts = data.panels.map((panel, p) => {
      const top = 18 + p * (HIGH + 24);
      const y = (value) => top + HIGH * (1 - (Math.min(value, panel.high) - panel.low) / (panel.high - panel.low));
      const lines = curves.filter((curve) => curve.panel === p).map((curve) => svg("path", {
        d: curve.values.map((value, k) => `${k ? "L" : "M"}${x(k * data.every).toFixed(1)} ${y(value).toFixed(1)}`).join(""),
        fill: "none", stroke: `var(--${curve.colour})`, "stroke-width": 2, "stroke-dasharray": curve.dash,
      }));
      const ticks = [panel.low, panel.high].map((value) => label(String(value), [LEFT - 5, y(value) + 4], "end"));
      const floor = svg("path", { d: `M${LEFT} ${top}V${top + HIGH}H${W - 10}`, fill: "none", stroke: "var(--soft)" });
      return svg("g", {}, floor, ...lines, ...ticks, label(panel.name, [LEFT + 4, top - 5], "start"));
    });
    const height = data.panels.length * (HIGH + 24) + 20;
    marker.setAttribute("y2", height - 24);
    const steps = [0, end / 2, end].map((step, k) => label(String(step), [x(step), height - 6], ["start", "middle", "end"][k]));
    const nearest = (event) => {
      const box = whole.getBoundingClientRect();
      const step = ((((event.clientX - box.left) / box.width) * W - LEFT) / (W - LEFT - 10)) * end;
      const off = moments.map((moment) => Math.abs(moment.step - step));
      stop();
      to({ moment: off.indexOf(Math.min(...off)) });
    };
    const whole = svg("svg", {
      viewBox: `0 0 ${W} ${height}`, class: "plot", role: "img", style: "cursor: ew-resize; touch-action: pan-y",
      "aria-label": "Curves over the training steps: " + curves.map((curve) => curve.name).join(", "),
      onpointerdown: nearest, onpointermove: (event) => event.buttons && nearest(event),
    }, ...parts, ...steps, label("training step", [(LEFT + W) / 4 + 6, height - 6], "middle"), marker);
    const keys = curves.map((curve) => el("li", {}, svg("svg", { width: 28, height: 10, "aria-hidden": "true" },
      svg("line", { x1: 0, x2: 28, y1: 5, y2: 5, stroke: `var(--${curve.colour})`, "stroke-width": 3, "stroke-dasharray": curve.dash })),
    " ", curve.name));
    return el("div", { class: "course" }, whole, el("ul", { class: "keys" }, ...keys));
  }

  // ---- the text, with the model's prediction below each token
  const expected = words.map(() => el("small")), tokens = words.map((sign) => el("span", { class: "token" }, drawn(sign)));
  const sentence = live.picks("From which token?", words.map((_, i) => el("span", {}, tokens[i], " ", expected[i])), at.chosen,
    (i) => to({ chosen: i }));
  sentence.classList.add("expects");
  if (data.period === 8) sentence.classList.add("eight"); // so that repeated words are below each other

  // ---- one head: arcs from the chosen token, above the map of all of them
  const c = Math.min(18, (many ? 132 : 300) / n), EDGE = many ? 4 : 16, ARCS = many ? 26 : 44, TOP = ARCS + (many ? 3 : 16);
  const middle = (j) => EDGE + (j + 0.5) * c;
  function panel(h) {
    const lettered = many ? [] : words;
    const letters = lettered.map((sign, j) => svg("text", { x: middle(j), y: TOP - 4, "text-anchor": "middle" }, drawn(sign)));
    const asking = lettered.map((sign, i) => svg("text", { x: EDGE - 8, y: TOP + (i + 0.8) * c, "text-anchor": "middle" }, drawn(sign)));
    for (const text of [...letters, ...asking]) text.setAttribute("font-size", Math.min(13, c + 2.5));
    const arcs = words.map(() => svg("path", { fill: "none", stroke: "var(--query)", "stroke-linecap": "round" }));
    const kept = moments.flatMap((moment) => Object.values(moment.looks).flatMap((looks) => (looks[h] ? [looks[h]] : [])));
    const cells = words.map((_, i) => words.slice(0, i + 1).map((_, j) => (kept.some((looks) => looks[i][j])
      ? svg("rect", { x: EDGE + j * c, y: TOP + i * c, width: c, height: c, fill: "var(--query)" }) : null)));
    const stairs = words.map((_, i) => `H${EDGE + (i + 1) * c}V${TOP + (i + 1) * c}`).map((turn, i) => (i ? turn : `M${EDGE} ${TOP}${turn}`)).join("");
    const here = svg("rect", { x: EDGE, height: c, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5 });
    const [wide, high] = [EDGE + n * c + 6, TOP + n * c + 2];
    const choose = (event) => {
      const box = map.getBoundingClientRect();
      const i = Math.floor((((event.clientY - box.top) / box.height) * high - TOP) / c);
      const j = Math.floor((((event.clientX - box.left) / box.width) * wide - EDGE) / c);
      const pointed = i < 0 ? j : i;
      if (pointed >= 0 && pointed < n && pointed !== at.chosen) sentence.choose(pointed);
    };
    const map = svg("svg", {
      viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img", class: "look", onpointerdown: choose,
      onpointermove: (event) => event.pointerType === "mouse" && choose(event),
    }, svg("path", { d: `${stairs}H${EDGE}Z`, fill: "var(--panel)", stroke: "var(--line)" }), ...cells.flat().filter(Boolean), here, ...arcs,
    ...letters, ...asking);
    const switched = live.toggle("take it out", false, (on) => takeOut(h, on));
    switched.querySelector("input").setAttribute("aria-label", `take it out: ${heads[h].name}`);
    const scores = facts.map(() => live.number());
    const told = el("p", { class: "note" });
    const name = many ? live.button(heads[h].name, () => to({ head: h })) : el("p", { class: "strong", style: "margin: 0" }, heads[h].name);
    const whole = el("div", { class: "head" }, name, switched,
      ...facts.map((fact, f) => el("div", { class: "note" }, `${fact} `, el("strong", {}, scores[f]))), map, told);

    let mapped = null;
    function show() {
      const shares = row(h), most = shares.indexOf(Math.max(...shares)), i = at.chosen;
      if (mapped !== rows(h)) rows(h).forEach((line, r) => line.forEach((share, j) => cells[r][j]?.style.setProperty("opacity", share / 100)));
      mapped = rows(h);
      if (many) name.setAttribute("aria-pressed", String(at.head === h));
      here.setAttribute("y", TOP + i * c);
      here.setAttribute("width", (i + 1) * c);
      arcs.forEach((arc, j) => {
        const share = shares[j] ?? 0;
        arc.style.opacity = share < 0.02 ? 0 : 0.25 + 0.7 * share;
        arc.style.strokeWidth = many ? 0.7 + 3 * share : 1 + 5 * share;
        const [from, to, peak] = [middle(i), middle(j), ARCS * (0.8 - 0.8 * Math.min(1, (2 * (i - j)) / n + 0.2))];
        const [a, b] = i === j ? [from - c, from + c] : [from, to];
        arc.setAttribute("d", `M${from} ${ARCS} C${a} ${peak} ${b} ${peak} ${to} ${ARCS}`);
      });
      for (const list of [letters, asking]) list.forEach((text, j) => text.classList.toggle("chosen", j === i));
      (now().facts?.[silent(heads[h].layer)][h] ?? []).forEach((score, f) => scores[f].to(score));
      whole.classList.toggle("out", at.out.has(h));
      switched.querySelector("input").checked = at.out.has(h);
      told.textContent = at.out.has(h) ? "It still looks, but adds nothing."
        : `${many ? "Most" : `From ${spoken(words[i])} it looks most`} at ${spoken(words[most])}, place ${most}: ${written(shares[most])}.`;
      map.setAttribute("aria-label", `Where ${heads[h].name} looks. ` + told.textContent);
      return `${heads[h].name}: most at ${spoken(words[most])}, ${written(shares[most])}.`;
    }
    return { whole, show };
  }
  const panels = heads.map((_, h) => panel(h));

  /** Remove a head or restore it; if the combination was not stored, the others are restored. */
  function takeOut(h, on) {
    const before = new Set(at.out);
    if (on) before.add(h);
    else before.delete(h);
    at.out = before;
    if (!(silent() in now().says)) at.out = new Set([h]);
    to({});
  }

  // ---- the prediction after the chosen token
  const asThree = ([signs, ...shares], came) => shares.map((share, k) => [drawn([...signs][k]), share / 100, [...signs][k] === came]);
  const asked = el("p", { class: "strong", style: "margin: 0" });
  const all = live.guesses("with all heads"), left = live.guesses(""), other = rival && live.guesses(rival.name);
  const mean = live.number(), intact = live.number();
  const before = el("span", {}, " (with all heads ", intact, ")");
  const sum = el("p", { style: "margin: 0" }, `On average, ${counts.words}, the right one gets `, el("strong", {}, mean), before, ".");
  const hint = el("p", { class: "note" }, "Small, below each token: what the model expects next; the greener, the more it gives to what does come.");
  const closer = el("p", { class: "note" });
  const average = (right) => counts.places.reduce((total, i) => total + right[i], 0) / counts.places.length / 100;

  const text = el("div", { class: "text" }, sentence, ...(many ? [closer] : []), hint, asked, el("div", { class: "side" }, all, left, ...(other ? [other] : [])), sum);
  if (curves.length) stage.append(bar(slider, play), el("div", { class: "side" }, plot(), text));
  else stage.append(text);
  const layers = many ? [...new Set(heads.map((head) => head.layer))] : [null]; // one row for each if there are many heads
  for (const layer of layers) {
    const own = panels.filter((_, h) => layer === null || heads[h].layer === layer);
    stage.append(el("div", { class: many ? "heads many" : "heads" }, ...own.map((each) => each.whole)));
  }

  function to(change) {
    Object.assign(at, change);
    show(true);
  }

  function show(telling = false) {
    const out = silent(), says = now().says[out], right = now().right[out], i = at.chosen;
    if (curves.length) {
      slider.set(at.moment);
      marker.setAttribute("x1", x(now().step));
      marker.setAttribute("x2", x(now().step));
    }
    words.forEach((sign, j) => {
      const [signs, share] = says[j], button = sentence.buttons[j];
      expected[j].textContent = drawn([...signs][0]);
      expected[j].style.background = right[j] === null ? "" : shade("value", right[j] / 100);
      button.setAttribute("aria-description", `${spoken(sign)}, place ${j}: expects ${spoken([...signs][0])}, ${written(share / 100)}`);
    });
    const came = next[i] ? `comes ${spoken(next[i])}` : "the text ends";
    asked.textContent = `After ${spoken(words[i])}, place ${i}, ${came}. What is expected:`;
    all.set(asThree(now().says[""][i], next[i]));
    left.set(asThree(says[i], next[i]));
    left.style.display = out ? "" : "none";
    left.caption.textContent = "without " + [...at.out].sort().map((h) => heads[h].name).join(" and ");
    other?.set(asThree(rival.says[i], next[i]));
    mean.to(average(right));
    intact.to(average(now().right[""]));
    before.style.display = left.style.display;
    const told = panels.map((each) => each.show()), focus = many ? at.head : 0;
    if (many) {
      const shares = row(at.head);
      tokens.forEach((token, j) => (token.style.background = shares[j] ? shade("query", shares[j]) : ""));
      closer.textContent = `Orange: where ${heads[at.head].name} looks from the chosen token. To see another head's looks, press its name.`;
    }
    numbers({ step: now().step, chosen: i, out, head: at.head, looks: heads.map((_, h) => row(h)), maps: heads.map((_, h) => rows(h)), says: says[i],
      right, mean: average(right) });
    const [signs, share] = says[i];
    if (telling) tell(`${curves.length ? `Step ${now().step}. ` : ""}From ${spoken(words[i])}, place ${i}: ${(many ? [told[focus]] : told).join(" ")} ` +
      `Expected next: ${spoken([...signs][0])}, ${written(share / 100)}.`);
  }
  show();
});
