// Shows which query head reads which keys and values in one layer, and how large the cache of all layers is.
// data: {h, g, d_head, n, layers, bytes, d_latent, d_rope, models: {name: some of these sizes; one with d_latent is latent,
//        and note, words below it; yours, the bytes that the reader's own function counts, or null},
//        offers: ["repeat"] for the assignment that repeating the whole row gives}
live.define("heads", ({ stage, data, tell, numbers }) => {
  const { el, svg, written } = live;
  const SIZES = {
    h: [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 71, 96, 128],
    d_head: [16, 32, 64, 128, 256],
    n: [...Array(18).keys()].map((power) => 2 ** power),
    d_latent: [64, 128, 256, 512, 1024],
    d_rope: [0, 32, 64, 128],
  };
  const { models = {}, offers = [] } = data;
  const at = { h: 6, g: 2, d_head: 128, n: 4096, layers: 32, bytes: 2, d_latent: 512, d_rope: 64, ...data, chosen: data.chosen ?? 1 };
  let latent = false, mistaken = false, model = "";
  const divisors = () => [...Array(at.h).keys()].map((i) => i + 1).filter((g) => at.h % g === 0);
  const grouped = () => divisors().filter((g) => g > 1 && g < at.h);
  const kind = () => (latent ? "latent" : at.g === at.h ? "MHA" : at.g === 1 ? "MQA" : "GQA");
  /** The key/value head that query head i reads. */
  const source = (i) => (latent ? i : mistaken ? i % at.g : Math.floor((i * at.g) / at.h));
  const sharers = (i) => [...Array(at.h).keys()].filter((j) => j !== i && source(j) === source(i));
  const commas = (x) => Math.round(x).toLocaleString("en-US");

  // ---- the controls
  const index = (name, label) => {
    const list = SIZES[name], words = (i) => commas(list[i]);
    const slider = live.slider(label, { min: 0, max: list.length - 1, step: 1, value: list.indexOf(at[name]), words }, (i) => change({ [name]: list[i] }));
    return [slider, () => slider.set(list.indexOf(at[name]))];
  };
  const [h, setH] = index("h", "query heads h"), [dHead, setDHead] = index("d_head", "width d_head"), [n, setN] = index("n", "tokens n");
  const [dLatent, setDLatent] = index("d_latent", "width of the latent"), [dRope, setDRope] = index("d_rope", "width of the turned key");
  const g = live.slider("key/value heads g", { min: 0, max: 1, step: 1, value: 0, words: (i) => String(divisors()[i]) }, (i) => change({ g: divisors()[i] }));
  const layers = live.slider("layers", { min: 1, max: 128, step: 1, value: at.layers }, (x) => change({ layers: x }));
  const kinds = live.choice("keys and values", { MHA: "MHA: own", GQA: "GQA: shared by groups", MQA: "MQA: shared by all", latent: "latent" }, "GQA", take);
  const bytes = live.choice("bytes per number", { 1: "1", 2: "2", 4: "4" }, at.bytes, (x) => change({ bytes: Number(x) }));
  const repeat = live.toggle("wired by repeat (a mistake)", false, (now) => { mistaken = now; change({}); });
  const presets = Object.keys(models).map((name) => live.button(name, () => {
    latent = "d_latent" in models[name];
    change(models[name], name);
  }));
  const tick = (fieldset, value) => (fieldset.querySelector(`input[value="${value}"]`).checked = true);

  function take(wanted) {
    latent = wanted === "latent";
    const some = grouped();
    if (wanted === "GQA" && !some.length) at.h = 8;
    change(latent ? {} : { g: wanted === "MHA" ? at.h : wanted === "MQA" ? 1 : grouped()[Math.floor((grouped().length - 1) / 2)] });
  }

  function change(sizes, name = "") {
    Object.assign(at, sizes);
    model = name;
    if (at.h % at.g) at.g = divisors().filter((each) => each <= at.g).pop();
    at.chosen = Math.min(at.chosen, at.h - 1);
    show(true);
  }

  // ---- which head reads which
  const W = 440, H = 176, TOP = 18, BOTTOM = 112, DEEP = 158;
  const look = live.slider("look at query head", { min: 0, max: 1, step: 1, value: at.chosen }, (i) => choose(i));
  const drawing = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot wiring", role: "img", "aria-label": "The wiring of one layer" });
  const legend = el("p", { class: "note" });
  const said = el("p", { class: "strong", style: "margin: 0" });
  drawing.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(event));
  drawing.addEventListener("pointerdown", point);
  function point(event) {
    const place = drawing.getBoundingClientRect(), across = ((event.clientX - place.left) / place.width) * W;
    const i = Math.min(at.h - 1, Math.max(0, Math.round((across - x(0)) / step())));
    if (i !== at.chosen) choose(i);
  }
  function choose(i) {
    at.chosen = i;
    look.set(i);
    paint();
    speak();
    report();
  }

  const step = () => (at.h > 1 ? Math.min((W - 40) / (at.h - 1), 56) : 0);
  const x = (i) => W / 2 + (i - (at.h - 1) / 2) * step();
  const half = () => Math.min(11, Math.max(1.2, 0.4 * step() || 11));
  /** A key/value head that several query heads share is drawn wider. */
  const halfBelow = () => (latent ? half() : Math.min(11, Math.max(1.2, 0.4 * step() * (at.h / at.g) || 11)));
  /** The position of the keys and values that query head i reads. */
  const place = (i) => (latent ? x(i) : x((source(i) + 0.5) * (at.h / at.g) - 0.5));
  let parts = [], from = [], to = [], now = [];
  const label = (words, more = {}) => svg("text", { "text-anchor": "middle", "font-size": 12, "pointer-events": "none", ...more }, words);

  function build() {
    const r = half(), low = halfBelow();
    const groups = latent || mistaken || at.g === at.h ? [] : [...Array(at.g).keys()].map((s) => {
      const [a, b] = [(s * at.h) / at.g, ((s + 1) * at.h) / at.g - 1], margin = Math.min(step() * 0.42, r + 5);
      return svg("rect", { x: x(a) - margin, width: x(b) - x(a) + 2 * margin, y: TOP - r - 5, height: BOTTOM - TOP + r + low + 10, rx: 6,
        fill: "var(--panel)", stroke: "var(--line)" });
    });
    parts = [...Array(at.h).keys()].map((i) => ({
      line: svg("line", { x1: x(i), y1: TOP + r, y2: BOTTOM - low }),
      down: svg("line", { x1: x(i), y1: BOTTOM + low, x2: W / 2 + (x(i) - W / 2) * 0.6, y2: DEEP - 10, stroke: "var(--soft)", "stroke-dasharray": "2 3" }),
      key: svg("rect", { width: low, height: 2 * low, y: BOTTOM - low }), value: svg("rect", { width: low, height: 2 * low, y: BOTTOM - low }),
      query: svg("circle", { cx: x(i), cy: TOP, r }),
      name: label(String(i), { x: x(i), y: TOP + 4 }), told: label(String(source(i)), { y: BOTTOM + 4 }),
    }));
    const first = (i) => latent || ![...Array(i).keys()].some((j) => source(j) === source(i));
    const store = latent ? [
      svg("rect", { x: W / 2 - 0.36 * W, y: DEEP - 10, width: 0.56 * W, height: 20, rx: 3, style: `fill: ${live.shade("fourth", 0.5)}`, stroke: "var(--fourth)" }),
      label(`latent: ${at.d_latent} numbers`, { x: W / 2 - 0.08 * W, y: DEEP + 4 }),
      svg("rect", { x: W / 2 + 0.22 * W, y: DEEP - 10, width: 0.2 * W, height: 20, rx: 3, fill: "var(--key-fill)", stroke: "var(--key)" }),
      label(`turned key: ${at.d_rope}`, { x: W / 2 + 0.32 * W, y: DEEP + 4 }),
    ] : [];
    drawing.replaceChildren(...groups, ...parts.map((each) => each.line), ...(latent ? parts.map((each) => each.down) : []), ...store,
      ...parts.flatMap((each) => [each.key, each.value, each.query]),
      ...(at.h <= 16 ? parts.map((each) => each.name) : []),
      ...(at.h <= 16 && !latent ? parts.filter((_, i) => first(i)).map((each) => each.told) : []));
    drawing.setAttribute("viewBox", `0 0 ${W} ${latent ? H : BOTTOM + 20}`);
    if (now.length !== at.h) now = parts.map((_, i) => x(i));
    from = now;
    to = parts.map((_, i) => place(i));
    move();
    paint();
  }

  const move = live.glide((t) => {
    now = to.map((end, i) => from[i] + (end - from[i]) * t);
    const wide = halfBelow();
    parts.forEach((each, i) => {
      each.line.setAttribute("x2", now[i]);
      each.key.setAttribute("x", now[i] - wide);
      each.value.setAttribute("x", now[i]);
      each.told.setAttribute("x", now[i]);
    });
  });

  /** Highlight what the chosen head reads. */
  function paint() {
    const mine = source(at.chosen);
    parts.forEach((each, i) => {
      const same = source(i) === mine, me = i === at.chosen;
      each.line.setAttribute("stroke", me ? "var(--query)" : same ? "var(--ink)" : "var(--soft)");
      each.line.setAttribute("stroke-width", me ? 4 : same ? 1.8 : at.h > 32 ? 0.4 : 0.9);
      each.query.setAttribute("fill", me ? "var(--query-ink)" : same ? "var(--query-fill)" : "var(--page)");
      each.query.setAttribute("stroke", "var(--query)");
      each.query.setAttribute("stroke-width", at.h > 32 ? 0.6 : 1.5);
      each.name.setAttribute("class", me ? "on-fill" : "");
      each.told.setAttribute("class", same ? "on-fill" : "");
      for (const [part, colour] of [[each.key, "key"], [each.value, "value"]]) {
        part.setAttribute("fill", same ? `var(--${colour}-ink)` : `var(--${colour}-fill)`);
        part.setAttribute("stroke", `var(--${colour})`);
        part.setAttribute("stroke-dasharray", latent ? "2 2" : "none");
        part.setAttribute("stroke-width", at.h > 32 ? 0.4 : 1.2);
      }
    });
    drawing.append(parts[at.chosen].line, parts[at.chosen].key, parts[at.chosen].value, parts[at.chosen].query);
    if (at.h <= 16) drawing.append(parts[at.chosen].name);
    if (at.h <= 16 && !latent) parts.filter((each) => each.told.parentNode).forEach((each) => drawing.append(each.told));
  }

  function speak() {
    const i = at.chosen, others = sharers(i);
    const list = others.length > 8 ? `${others.length} others` : others.length ? `head${others.length > 1 ? "s" : ""} ${others.join(", ")}` : "";
    const rule = mistaken && !latent ? `${i} mod ${at.g}` : `⌊${i} / ${at.h / at.g}⌋`;
    said.textContent = latent
      ? `Query head ${i} reads keys and values of its own, which follow from the latent, and the turned key: all heads share these two.`
      : `Query head ${i} reads key/value head ${rule} = ${source(i)}, ${list ? `together with ${list}` : "alone"}.`;
    tell(said.textContent);
  }

  // ---- the cache
  const rows = { now: ["", "var(--fourth)"], MHA: ["MHA: g = h", "var(--soft)"] };
  const bars = Object.fromEntries(Object.entries(rows).map(([name, [words, colour]]) => {
    const bar = el("span", { class: "bar amount", style: `background: ${colour}` });
    const size = live.number(0, (x) => `${commas(x)} bytes, ${human(x)}`), title = el("strong", {}, words), how = el("span", { class: "note" });
    return [name, { bar, size, title, how, whole: el("p", { class: "amounts" }, title, " ", how, el("br"), bar, el("br"), size) }];
  }));
  function human(x) {
    const [unit, size] = x >= 1e12 ? ["TB", 1e12] : x >= 1e9 ? ["GB", 1e9] : x >= 1e6 ? ["MB", 1e6] : ["kB", 1e3];
    return `${written(x / size, 2)} ${unit}`;
  }
  const share = el("p", { class: "strong", style: "margin: 0" });
  const note = el("p", { class: "note" });

  const own = el("div", { class: "controls" }, g, ...(offers.includes("repeat") ? [repeat] : []));
  const small = el("div", { class: "controls" }, dLatent, dRope);
  stage.append(
    ...(presets.length ? [el("div", { class: "controls", role: "group", "aria-label": "sizes of a model" }, el("span", { class: "note" }, "sizes of"), ...presets)] : []),
    el("div", { class: "controls" }, kinds), el("div", { class: "controls" }, h), own, small,
    el("div", { class: "side" }, el("div", { class: "half" }, drawing, legend, look, said),
      el("div", { class: "half" }, el("div", { class: "controls" }, layers, dHead, n, bytes), bars.now.whole, bars.MHA.whole, share, note)));

  function report() {
    const kept = latent ? at.layers * (at.d_latent + at.d_rope) * at.n * at.bytes : 2 * at.layers * at.g * at.d_head * at.n * at.bytes;
    const full = 2 * at.layers * at.h * at.d_head * at.n * at.bytes;
    numbers({ ...at, models: undefined, kind: kind(), model, source: source(at.chosen), sharers: sharers(at.chosen), kept, full,
      reads: [...Array(at.h).keys()].map(source) });
    return { kept, full };
  }

  function show(telling = false) {
    setH(); setDHead(); setN(); setDLatent(); setDRope();
    g.querySelector("input").max = divisors().length - 1;
    g.set(divisors().indexOf(at.g));
    look.querySelector("input").max = at.h - 1;
    look.set(at.chosen);
    layers.set(at.layers);
    tick(kinds, kind());
    tick(bytes, at.bytes);
    own.hidden = latent;
    small.hidden = !latent;
    presets.forEach((each) => each.setAttribute("aria-pressed", String(each.textContent === model)));
    legend.textContent = "Orange, above: query heads. Blue and green: their keys and values, "
      + (latent ? "which follow from the latent and are not kept (dashed). What is kept lies below." : "kept for every token. Point at a head.");
    build();
    speak();
    const { kept, full } = report(), largest = Math.max(kept, full);
    const size = (heads) => `2 · ${at.layers} · ${heads} · ${at.d_head} · ${commas(at.n)} · ${at.bytes}`;
    bars.now.title.textContent = latent ? "latent" : `${kind()}: g = ${at.g}`;
    bars.now.how.textContent = latent ? `${at.layers} · (${at.d_latent} + ${at.d_rope}) · ${commas(at.n)} · ${at.bytes}` : size(at.g);
    bars.MHA.how.textContent = size(at.h);
    for (const [name, value] of [["now", kept], ["MHA", full]]) {
      bars[name].size.to(value);
      bars[name].bar.style.setProperty("--share", value / largest);
    }
    const times = full / kept;
    share.textContent = times === 1 ? "That is the cache of MHA." : times > 1
      ? `${Number.isInteger(times) ? times : written(times, 1)} times less than with MHA.` : `${written(1 / times, 1)} times more than with MHA.`;
    const { note: more = "", yours } = models[model] ?? {};
    const mine = yours == null ? "" : `Your function counts ${commas(yours)}: ${yours === kept ? "the same" : "another number"}. `;
    note.textContent = mine + more || (latent ? "layers · (latent + turned key) · tokens · bytes per number" : "2 · layers · g · d_head · tokens · bytes per number");
    if (telling) tell(`${said.textContent} The cache takes ${commas(kept)} bytes; MHA's takes ${commas(full)}.`);
  }
  show();
});
