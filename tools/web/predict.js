// Predictions: after a click on an answer, the reader sees it next to the measurement. A reader who looks first can no
// longer predict. Nothing is stored: a reloaded page knows no prediction.
"use strict";

const make = (name, values, ...children) => {
  const element = Object.assign(document.createElement(name), values);
  element.append(...children);
  return element;
};

const states = new Map(); // number -> what follows
for (const box of document.querySelectorAll(".prediction")) {
  const state = { box, number: box.dataset.number, truth: box.dataset.truth, closed: false };
  state.details = box.querySelector("details");
  state.said = box.querySelector(".said");
  state.options = box.querySelector(".options");
  states.set(state.number, state);

  const letters = [...state.options.querySelectorAll("li")];
  for (const item of letters) {
    const button = make("button", { type: "button", value: item.dataset.letter }, ...item.childNodes);
    button.addEventListener("click", () => predict(state, button.value, button));
    button.setAttribute("aria-pressed", "false");
    item.append(button);
  }
  if (!letters.length) {
    const field = make("input", { type: "number", step: "any", required: true, id: `${box.id}-field` });
    const label = make("label", { htmlFor: field.id }, "Your prediction, a number");
    const form = make("form", {}, label, field, make("button", {}, "Predict"));
    form.setAttribute("aria-describedby", `${box.id}-question`);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      predict(state, String(field.valueAsNumber));
    });
    state.options.append(form);
  }
  // Only the reader, find-in-page and this file open the folded part, so opening it is never an accident.
  state.details.addEventListener("toggle", () => state.details.open && close(state));
}

for (const part of document.querySelectorAll(".evidence")) {
  part.addEventListener("toggle", () => {
    if (part.open && !printing()) for (const state of measuredIn(part)) close(state);
  });
}

function printing() {
  return "printing" in document.documentElement.dataset;
}

function measuredIn(part) {
  return part.dataset.numbers.split(" ").map((number) => states.get(number));
}

function predict(state, guess, button) {
  if (state.closed) return;
  state.closed = true;
  const words = button ? button.querySelector("span").textContent : "";
  const yours = state.box.querySelector(".yours");
  yours.hidden = false;
  if (button) {
    button.setAttribute("aria-pressed", "true");
    yours.querySelector("dd").append(make("b", {}, guess), ` ${words}`);
  } else {
    yours.querySelector("dd").append(guess);
  }
  lock(state);
  state.details.open = true;
  state.said.textContent = button
    ? `${guess === state.truth ? "As" : "Not as"} you predicted. Measured: ${inWords(state)}.`
    : `You predicted ${guess}. Measured: ${state.truth}.`;
  const part = document.getElementById(state.box.dataset.place);
  if (part && measuredIn(part).every((other) => other.closed)) part.open = true;
}

// Once the measurement has been seen, it is too late to predict.
function close(state) {
  if (state.closed || printing()) return;
  state.closed = true;
  lock(state);
  state.details.open = true;
  state.said.textContent = "Measured by now: no prediction was made.";
}

function inWords(state) {
  const right = state.options.querySelector(`[data-letter="${state.truth}"] span`);
  return `${state.truth}, ${right.textContent}`;
}

function lock(state) {
  state.box.classList.add("closed");
  for (const control of state.options.querySelectorAll("button, input")) {
    // A focused button keeps the focus, but no longer does anything.
    if (control.localName === "button") control.setAttribute("aria-disabled", "true");
    else control.readOnly = true;
    if (control.value === state.truth) control.classList.add("true");
  }
}
