"""The page's script: as a slider or a field changes, it asks for the figures again.

It holds no figure and computes none; without it, the page's button does the same.
"""

SCRIPT = r"""
"use strict";
const form = document.getElementById("plan");
const shown = document.getElementById("figures");
const followers = [];
let waiting = 0;
let asking = new AbortController();

async function redraw() {
  asking.abort();
  asking = new AbortController();
  shown.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.dataset.figures, {
      method: "POST", body: new URLSearchParams(new FormData(form)),
      signal: asking.signal, redirect: "manual",
    });
    const type = answer.headers.get("content-type") || "";
    if (!type.startsWith("text/html")) { form.submit(); return; }
    const text = await answer.text();
    const open = [...shown.querySelectorAll("details")].map((each) => each.open);
    document.getElementById("refused")?.remove();
    shown.innerHTML = text;
    for (const [place, each] of [...shown.querySelectorAll("details")].entries()) {
      each.open = open[place] || false;
    }
    shown.removeAttribute("aria-busy");
    const said = document.getElementById("said");
    if (said) {
      form.elements[said.dataset.field].value = said.dataset.value;
      for (const follow of followers) { follow(); }
    }
  } catch (fault) {
    if (fault.name !== "AbortError") { shown.removeAttribute("aria-busy"); }
  }
}

function soon(milliseconds) {
  clearTimeout(waiting);
  waiting = setTimeout(redraw, milliseconds);
}

// A place on a slider is a number of two digits: 10 to 99, and then ten times as large.
function valueOf(place, least) {
  return Number(((10 + place % 90) * least * 10 ** Math.floor(place / 90)).toPrecision(2));
}
function placeOf(value, least) {
  const power = Math.max(0, Math.floor(Math.log10(value / least / 10) + 1e-9));
  return Math.round(90 * power + value / least / 10 ** power - 10);
}

for (const slider of form.querySelectorAll("input[type=range]")) {
  const field = form.elements[slider.dataset.field];
  const least = Number(slider.dataset.least);
  const follow = () => {
    const value = Number(field.value);
    if (value > 0) { slider.value = placeOf(value, least); }
    slider.setAttribute("aria-valuetext", field.value);
  };
  followers.push(follow);
  follow();
  slider.hidden = false;
  slider.addEventListener("input", () => {
    field.value = valueOf(Number(slider.value), least);
    slider.setAttribute("aria-valuetext", field.value);
    form.elements.goal.value = slider.dataset.field;
    soon(60);
  });
  field.addEventListener("input", () => {
    follow();
    form.elements.goal.value = slider.dataset.field;
  });
}

form.addEventListener("input", (event) => {
  if (event.target.type !== "range") { soon(300); }
});
form.addEventListener("submit", (event) => {
  if (!event.submitter || !event.submitter.hasAttribute("formaction")) {
    event.preventDefault();
    redraw();
  }
});
"""
