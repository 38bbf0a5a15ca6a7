// Gives all live figures their elements, controls, animated matrices and arcs, and starts each figure.
(() => {
  if (window.live) return; // in a notebook, every figure contains the kit

  const figures = {};
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  /** Make an element: el("button", {class: "x", onclick: f}, "words", child). */
  function el(tag, attributes = {}, ...children) {
    return fill(document.createElement(tag), attributes, children);
  }

  /** Make an SVG element in the same way. */
  function svg(tag, attributes = {}, ...children) {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  }

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }

  // ---- numbers

  const dot = (a, b) => a.reduce((sum, each, i) => sum + each * b[i], 0);
  const transpose = (A) => A[0].map((_, j) => A.map((row) => row[j]));
  const matmul = (A, B) => A.map((row) => transpose(B).map((column) => dot(row, column)));

  /** Weights that sum to 1. A score of −∞ is masked; a fully masked row gives zeros. */
  function softmax(row) {
    const largest = Math.max(...row);
    if (largest === -Infinity) return row.map(() => 0);
    const powers = row.map((score) => Math.exp(score - largest));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((power) => power / sum);
  }

  /** A number as text: two decimals, a real minus sign, ∞. */
  function written(x, decimals = 2) {
    if (Math.abs(x) === Infinity) return x < 0 ? "−∞" : "∞";
    const text = Math.abs(x).toFixed(decimals);
    return x < 0 && Number(text) !== 0 ? "−" + text : text;
  }

  /** A background that mixes a share of a colour into the page's: shade("query", 0.3). */
  const shade = (colour, share) =>
    `color-mix(in srgb, var(--${colour}) calc(${Math.min(Math.max(share, 0), 1).toFixed(3)} * var(--full)), var(--page))`;

  /** Call step(0 … 1) during an animation, or step(1) for readers who want none; a new animation ends the old. */
  function glide(step, milliseconds = 350) {
    let going = 0;
    return () => {
      cancelAnimationFrame(going);
      if (still.matches || document.hidden) return step(1);
      const began = performance.now();
      const next = (now) => {
        const t = Math.min((now - began) / milliseconds, 1);
        step(1 - (1 - t) ** 3);
        if (t < 1) going = requestAnimationFrame(next);
      };
      going = requestAnimationFrame(next);
    };
  }

  /** A text node that counts from its number to the next one. decimals: their count, or a function number -> text. */
  function number(value = 0, decimals = 2) {
    const words = typeof decimals === "function" ? decimals : (x) => written(x, decimals);
    const node = document.createTextNode(words(value));
    let from = value, to = value;
    const move = glide((t) => {
      const now = t === 1 || !isFinite(from) || !isFinite(to) ? to : from + (to - from) * t;
      node.data = words(now);
    });
    node.to = (next) => {
      if (next === to) return;
      from = to;
      to = next;
      move();
    };
    return node;
  }

  // ---- controls

  let names = 0;
  const fresh = (stem) => `live-${stem}-${names++}`;

  /** A choice of one among several: options are {value: words}. */
  function choice(label, options, chosen, onchange) {
    const group = fresh("choice");
    const buttons = Object.entries(options).map(([value, words]) => {
      const input = el("input", { type: "radio", name: group, value, onchange: () => onchange(value) });
      input.checked = value === String(chosen);
      return el("label", {}, input, el("span", {}, words));
    });
    return el("fieldset", { class: "choice" }, el("legend", {}, label), ...buttons);
  }

  function toggle(label, on, onchange) {
    const input = el("input", { type: "checkbox", onchange: () => onchange(input.checked) });
    input.checked = on;
    return el("label", { class: "toggle" }, input, el("span", {}, label));
  }

  /** A slider; words(value) is the text for a value. */
  function slider(label, { min, max, step, value, words = String }, onchange) {
    const told = el("output", {}, words(value));
    const input = el("input", {
      type: "range", min, max, step, "aria-label": label, "aria-valuetext": words(value),
      oninput: () => {
        told.textContent = words(input.valueAsNumber);
        input.setAttribute("aria-valuetext", told.textContent);
        onchange(input.valueAsNumber);
      },
    });
    input.value = value;
    const whole = el("label", { class: "slider" }, el("span", {}, label), input, told);
    whole.set = (next) => {
      input.value = next;
      told.textContent = words(input.valueAsNumber);
      input.setAttribute("aria-valuetext", told.textContent);
    };
    return whole;
  }

  const button = (label, onclick) => el("button", { type: "button", onclick }, label);

  /** A row of buttons, one of them pressed; arrow keys move on, hovering previews. Calls `pick(i)`. */
  function picks(label, words, chosen, pick) {
    const buttons = words.map((word, i) =>
      el("button", { type: "button", class: "pick", onclick: () => choose(i), onpointerenter: (event) => {
        if (event.pointerType === "mouse") choose(i);
      } }, word));
    function choose(i) {
      buttons.forEach((each, j) => {
        each.setAttribute("aria-pressed", String(i === j));
        each.tabIndex = i === j ? 0 : -1;
      });
      pick(i);
    }
    const row = el("div", { class: "picks", role: "group", "aria-label": label, onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
      buttons[next].focus();
      choose(next);
    } }, ...buttons);
    row.buttons = buttons;
    row.choose = choose;
    buttons.forEach((each, j) => {
      each.setAttribute("aria-pressed", String(j === chosen));
      each.tabIndex = j === chosen ? 0 : -1;
    });
    return row;
  }

  /**
   * A cell whose number the reader drags (up is more) or changes by the up and down arrows and, in big steps, the Page keys.
   * `name` says which number it is.
   */
  function handle(name, value, { min = -3, max = 3, step = 0.1, decimals = 1 }, onchange) {
    [min, max] = [Math.min(min, value), Math.max(max, value)];
    let now = value, began = null;
    const cell = el("span", {
      role: "spinbutton", tabindex: 0, class: "handle", "aria-label": name, "aria-valuemin": min, "aria-valuemax": max,
      title: "drag up or down, or use the arrow keys",
      onkeydown: (event) => {
        const steps = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
        if (!steps) return;
        event.preventDefault();
        set(now + steps * step, true);
      },
      onpointerdown: (event) => {
        began = { y: event.clientY, value: now };
        cell.setPointerCapture(event.pointerId);
        cell.focus();
        event.preventDefault();
      },
      onpointermove: (event) => {
        if (began) set(began.value + Math.round((began.y - event.clientY) / 6) * step, true);
      },
      onpointerup: () => (began = null),
      onpointercancel: () => (began = null),
    });
    function set(next, telling = false) {
      const before = now;
      now = Math.min(max, Math.max(min, Number(next.toFixed(4))));
      cell.textContent = written(now, decimals);
      cell.setAttribute("aria-valuenow", now);
      cell.setAttribute("aria-valuetext", written(now, decimals));
      if (telling && now !== before) onchange(now);
    }
    set(value);
    cell.set = set;
    return cell;
  }

  /**
   * A table of animated numbers. rows, columns: names. set(values, {colour(i, j, x), mark(i, j)}) shows new ones: colour
   * gives a background, mark a class. `pick(i, j)` makes cells buttons.
   */
  function matrix({ label, rows, columns, decimals = 2, pick, corner = "" }) {
    const numbers = rows.map(() => columns.map(() => number(0, decimals)));
    const cells = rows.map((row, i) => columns.map((column, j) => {
      const inner = pick
        ? el("button", { type: "button", onclick: () => pick(i, j), "aria-label": `${row}, ${column}` }, numbers[i][j])
        : numbers[i][j];
      return el("td", {}, inner);
    }));
    const table = el("table", { class: "matrix" },
      el("caption", {}, label),
      el("thead", {}, el("tr", {}, el("td", {}, corner), ...columns.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...rows.map((name, i) => el("tr", {}, el("th", { scope: "row" }, name), ...cells[i]))));
    table.set = (values, { colour, mark } = {}) => values.forEach((line, i) => line.forEach((x, j) => {
      numbers[i][j].to(x);
      if (colour) cells[i][j].style.background = colour(i, j, x);
      cells[i][j].className = (mark && mark(i, j)) || "";
      if (pick) cells[i][j].firstChild.setAttribute("aria-label", `${rows[i]}, ${columns[j]}: ${written(x, decimals)}`);
    }));
    table.cells = cells;
    return table;
  }

  /** The three most likely as bars. set([[name, share, whether it is the right one], …]). */
  function guesses(title) {
    const bars = [0, 1, 2].map(() => ({ name: el("th", { scope: "row" }), bar: el("span", { class: "bar" }), share: number() }));
    const table = el("table", { class: "guesses" }, el("caption", {}, title), el("tbody", {},
      ...bars.map((each) => el("tr", {}, each.name, el("td", { class: "weigh" }, each.bar, each.share)))));
    table.set = (three) => three.forEach(([name, share, right], k) => {
      bars[k].name.textContent = name + (right ? " ✓" : "");
      bars[k].bar.style.setProperty("--share", share);
      bars[k].bar.style.background = right ? "var(--value)" : "";
      bars[k].share.to(share);
    });
    return table;
  }

  /** A box that scrolls, also by keyboard, where the figure is wider than the page. */
  function wide(label, ...children) {
    const box = el("div", { class: "wide" }, ...children);
    new ResizeObserver(() => {
      const scrolls = box.scrollWidth > box.clientWidth + 1;
      for (const [name, value] of Object.entries({ tabindex: "0", role: "group", "aria-label": label })) {
        if (scrolls) box.setAttribute(name, value);
        else box.removeAttribute(name);
      }
    }).observe(box);
    return box;
  }

  /**
   * Arcs from one element of a row to the others. `draw(i, widths)` draws them from element i; widths are 0 … 1, and null
   * draws none.
   */
  function wires(row, elements, colour = "query") {
    const paths = elements.map(() => svg("path", { fill: "none", stroke: `var(--${colour})`, "stroke-linecap": "round" }));
    const sheet = svg("svg", { class: "wires", "aria-hidden": "true" }, ...paths);
    const whole = el("div", { class: "wired" }, sheet, row);
    let last = null;
    const draw = (from, widths) => {
      last = [from, widths];
      const box = whole.getBoundingClientRect();
      if (!box.width) return;
      const top = row.offsetTop + Math.min(...elements.map((each) => each.offsetTop - row.offsetTop));
      const middle = (element) => {
        const place = element.getBoundingClientRect();
        return [place.left + place.width / 2 - box.left, place.top - box.top];
      };
      const [x, y] = middle(elements[from]);
      paths.forEach((path, j) => {
        const share = widths[j];
        path.style.display = share === null ? "none" : "";
        if (share === null) return;
        const [to, end] = middle(elements[j]);
        const height = Math.max(top - 4 - Math.min(24 + 0.28 * Math.abs(to - x), top - 8), 4);
        const [a, b] = j === from ? [x - 12, x + 12] : [x, to];
        path.setAttribute("d", `M${a} ${y} C${a} ${height} ${b} ${height} ${b} ${end}`);
        path.style.strokeWidth = 1 + 9 * share;
        path.style.opacity = 0.25 + 0.7 * share;
      });
    };
    new ResizeObserver(() => last && draw(...last)).observe(whole);
    whole.draw = draw;
    return whole;
  }

  // ---- figures

  /**
   * Register a figure. draw({stage, data, tell, numbers}): stage is the element to fill; tell(words) describes a change to
   * readers who cannot see it; numbers(object) keeps what the figure shows, as `figure.numbers`.
   */
  function define(name, draw) {
    figures[name] ??= draw;
  }

  /** Start every figure of the page that has not started. One that fails keeps its still picture. */
  function start() {
    for (const figure of document.querySelectorAll("figure.live:not([data-is])")) {
      const draw = figures[figure.dataset.live];
      if (!draw) continue;
      const caption = figure.querySelector("figcaption");
      const picture = figure.querySelector("img");
      const stage = el("div", {
        class: "stage", role: "group", "aria-label": picture?.alt || caption?.textContent || "",
        // JupyterLab would handle keys pressed on a control itself: arrows go to another cell, letters make one.
        onfocusin: (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true"),
      });
      const told = el("p", { class: "told", role: "status" });
      figure.insertBefore(stage, picture ?? caption);
      stage.after(told);
      figure.dataset.is = "live";
      try {
        draw({
          stage,
          data: JSON.parse(figure.querySelector('script[type="application/json"]').textContent),
          tell: (words) => (told.textContent = words),
          numbers: (shown) => (figure.numbers = shown),
        });
        picture?.setAttribute("hidden", "");
      } catch (error) {
        figure.dataset.is = "still";
        stage.remove();
        told.remove();
        console.error(`live figure ${figure.dataset.live}: ${error.message}`);
      }
    }
  }

  window.live = {
    define, start, el, svg, dot, transpose, matmul, softmax, written, shade, glide, number, choice, toggle, slider, button,
    picks, handle, matrix, guesses, wide, wires,
  };
  if (document.currentScript?.src) addEventListener("DOMContentLoaded", start);
})();
