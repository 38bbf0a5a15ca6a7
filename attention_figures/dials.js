// Shows rotary positions as dials: positions turn the pointers of a query and a key, and only their distance counts.
// data: {d: width of the head, base, query, key: positions, turned: positions by which the query is turned first}
live.define("dials", ({ stage, data, tell, numbers }) => {
  const { el, svg, written } = live;
  const d = data.d ?? 8, pairs = d / 2, far = 200;
  const at = { query: data.query ?? 7, key: data.key ?? 5, turned: data.turned ?? 0, base: data.base ?? 10000 };

  const speed = (p) => at.base ** ((-2 * p) / d);
  /** What pair p adds to the score of two rows with (1, 0) in every pair at a distance; at most 1 in all. */
  const share = (p, distance) => Math.cos((distance - at.turned) * speed(p)) / pairs;
  const score = (distance) => [...Array(pairs).keys()].reduce((sum, p) => sum + share(p, distance), 0);

  // ---- the controls
  const whole = (x) => String(Math.round(x));
  const sliders = {
    query: live.slider("the query's position", { min: 0, max: far, step: 1, value: at.query, words: whole }, (x) => move({ query: x })),
    key: live.slider("the key's position", { min: 0, max: far, step: 1, value: at.key, words: whole }, (x) => move({ key: x })),
    turned: live.slider("the query asks for a distance of", { min: 0, max: 100, step: 1, value: at.turned, words: whole }, (x) => move({ turned: x })),
  };
  const both = (step) => move({ query: at.query + step, key: at.key + step });
  const buttons = { [-10]: "both 10 back", [-1]: "both 1 back", 1: "both 1 on", 10: "both 10 on" };
  const shifts = Object.entries(buttons).sort(([a], [b]) => a - b)
    .map(([step, words]) => [Number(step), live.button(words, () => both(Number(step)))]);
  const base = live.choice("base", { 100: "100", 10000: "10,000", 1000000: "1,000,000" }, at.base, (x) => move({ base: Number(x) }));

  // ---- a dial for each pair of columns
  const R = 42;
  const hand = (colour, width) => svg("line", { x1: 0, y1: 0, stroke: `var(--${colour})`, "stroke-width": width, "stroke-linecap": "round" });
  const dials = [...Array(pairs).keys()].map((p) => {
    const hands = { query: hand("query", 4), key: hand("key", 4) };
    const tips = {
      query: svg("circle", { r: 5, fill: "var(--query)" }),
      key: svg("rect", { x: -4.5, y: -4.5, width: 9, height: 9, fill: "var(--key)" }),
    };
    const between = svg("path", { fill: "none", stroke: "var(--soft)", "stroke-width": 1.5, "stroke-dasharray": "3 3" });
    const drawing = svg("svg", { viewBox: "-52 -52 104 104", width: 104, height: 104, "aria-hidden": "true" },
      svg("circle", { r: R, fill: "none", stroke: "var(--line)", "stroke-width": 2 }), between,
      hands.query, hands.key, tips.query, tips.key);
    const turn = document.createTextNode(""), adds = live.number();
    const dial = el("div", { class: "dial" }, drawing,
      el("div", {}, el("strong", {}, `columns ${p} and ${p + pairs}`), el("br"), turn, el("br"), "to the score: ", adds));
    return { p, hands, tips, between, turn, adds, dial };
  });
  const total = live.number(0, 3);
  const legend = el("p", { class: "note" }, "Orange, round: the query. Blue, square: the key. Both began as (1, 0) in each pair.");
  const said = el("p", { class: "strong", style: "margin: 0" }, "score / lengths: ", total);

  // ---- the score at every distance
  const W = 420, H = 150;
  const x = (distance) => 36 + ((W - 54) * distance) / far, y = (value) => 12 + ((1 - value) * (H - 40)) / 2;
  const curve = svg("path", { fill: "none", stroke: "var(--soft)", "stroke-width": 2 });
  const here = svg("circle", { r: 6, fill: "var(--query)", stroke: "var(--page)", "stroke-width": 2 });
  const label = (words, place, anchor = "middle") => svg("text", { x: place[0], y: place[1], "text-anchor": anchor, "font-size": 13 }, words);
  const plot = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot", role: "img", "aria-label": "The score at distances of 0 to 200" },
    svg("line", { x1: x(0), x2: x(far), y1: y(0), y2: y(0), stroke: "var(--line)" }), curve, here,
    ...[0, 50, 100, 150, 200].map((tick) => label(String(tick), [x(tick), H - 18])), label("distance: positions that the key lies back", [x(100), H - 2]),
    ...[1, 0, -1].map((tick) => label(written(tick, 0), [30, y(tick) + 4], "end")));

  const bar = (...parts) => el("div", { class: "controls" }, ...parts);
  stage.append(bar(sliders.query, sliders.key), bar(...shifts.map(([, button]) => button)), bar(sliders.turned, base), legend,
    el("div", { class: "dials" }, ...dials.map((each) => each.dial)), said, plot);

  // ---- pointers that turn
  const angles = () => dials.map(({ p }) => [(at.query - at.turned) * speed(p), at.key * speed(p)]);
  let from = angles(), to = from, now = from;
  const draw = (all) => dials.forEach((each, p) => {
    for (const [k, name] of ["query", "key"].entries()) {
      const reach = name === "query" ? R : R - 10;
      const end = [reach * Math.cos(all[p][k]), -reach * Math.sin(all[p][k])];
      each.hands[name].setAttribute("x2", end[0]);
      each.hands[name].setAttribute("y2", end[1]);
      each.tips[name].setAttribute("transform", `translate(${end[0]} ${end[1]})`);
    }
    const [a, b] = all[p], turn = Math.atan2(Math.sin(a - b), Math.cos(a - b));
    const on = (angle) => `${18 * Math.cos(angle)} ${-18 * Math.sin(angle)}`;
    each.between.setAttribute("d", `M${on(b)} A18 18 0 ${Math.abs(turn) > Math.PI ? 1 : 0} ${turn > 0 ? 0 : 1} ${on(b + turn)}`);
  });
  const glide = live.glide((t) => {
    now = from.map((pair, p) => pair.map((angle, k) => angle + (to[p][k] - angle) * t));
    draw(now);
  });

  function move(change) {
    const moved = { ...at, ...change };
    if (Math.min(moved.query, moved.key) < 0 || Math.max(moved.query, moved.key) > far) return;
    Object.assign(at, moved);
    show(true);
  }

  function show(telling = false) {
    const distance = at.query - at.key;
    for (const name of ["query", "key", "turned"]) sliders[name].set(at[name]);
    shifts.forEach(([step, button]) => {
      button.disabled = Math.min(at.query, at.key) + step < 0 || Math.max(at.query, at.key) + step > far;
    });
    from = now;
    to = angles();
    glide();
    dials.forEach(({ p, turn, adds }) => {
      turn.data = `turns ${speed(p).toPrecision(2).replace(/\.?0+$/, "")} per position`;
      adds.to(share(p, distance));
    });
    total.to(score(distance));
    curve.setAttribute("d", [...Array(far + 1).keys()].map((each) => `${each ? "L" : "M"}${x(each).toFixed(1)} ${y(score(each)).toFixed(1)}`).join(""));
    here.style.display = distance < 0 ? "none" : "";
    here.setAttribute("cx", x(Math.max(distance, 0)));
    here.setAttribute("cy", y(score(distance)));
    numbers({ distance, score: score(distance), adds: dials.map(({ p }) => share(p, distance)), angles: to });
    if (telling) tell(`Distance ${written(distance, 0)}: the score is ${written(score(distance))} of what it can be.`);
  }
  show();
});
