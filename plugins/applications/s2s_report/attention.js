"use strict";
/* The root keeps small weights visible, and the half keeps words legible. */
const shade = weight => Math.sqrt(weight) / 2;
const word = name => name.replace(/▁/g, " ").trim() || "␣";
/* Tokens of a word stand together. */
const style = (name, i, names) => {
  const begins = !i || /^▁|^<.*>$/.test(name) || !names.some(other => other.startsWith("▁"));
  return `padding:.1rem;border-radius:.2rem;display:inline-block;margin-left:${begins ? ".35rem" : "0"}`;
};
/* Of each section only the chosen head is drawn, so that long sentences stay fluid. */
addEventListener("DOMContentLoaded", () => document.querySelectorAll(".attention").forEach(section => {
  const maps = JSON.parse(section.querySelector("script").textContent);
  const make = (name, attributes = {}, text = "") => {
    const element = Object.assign(document.createElement(name), { textContent: text });
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const labelled = (text, control) => { const label = make("label", {}, text + " "); label.append(control); return label; };
  const layer = make("select"), head = make("select"), controls = make("p");
  maps.forEach((map, i) => layer.append(make("option", { value: i }, map.name)));
  layer.value = maps.length - 1;  /* of a Transformer the last layer's attention to the source */
  controls.append(labelled("Layer", layer), " ", labelled("Head", head));
  const queries = make("p", { role: "listbox", "aria-orientation": "horizontal", "aria-label": "Tokens that attend" });
  const keys = make("p"), explain = make("p", { role: "status" });
  section.append(controls, queries, keys, explain);
  let at = 0;
  const weights = () => {
    const map = maps[layer.value];
    if (head.value !== "mean") return map.weights[head.value][at];
    return map.keys.map((_, k) => map.weights.reduce((sum, of) => sum + of[at][k], 0) / map.weights.length);
  };
  const draw = () => {
    const map = maps[layer.value], row = weights();
    [...queries.children].forEach((token, i) => {
      token.setAttribute("aria-selected", i === at);
      token.tabIndex = i === at ? 0 : -1;
      token.style.outline = i === at ? "2px solid var(--accent)" : "";
    });
    [...keys.children].forEach((token, k) => { token.style.backgroundColor = `rgba(var(--heat), ${shade(row[k] / 1000)})`; });
    const most = row.map((w, k) => [w, k]).sort((a, b) => b[0] - a[0]).slice(0, 4);
    explain.textContent = `${word(map.queries[at])} ← ` + most.map(([w, k]) => `${word(map.keys[k])} ${Math.round(w / 10)}%`).join(", ");
  };
  const choose = i => { at = i; draw(); };
  const fill = () => {
    const map = maps[layer.value];
    const wanted = head.value;
    head.replaceChildren(make("option", { value: "mean" }, "mean"), ...map.weights.map((_, i) => make("option", { value: i }, i + 1)));
    if ([...head.options].some(option => option.value === wanted)) head.value = wanted;
    queries.replaceChildren(...map.queries.map((name, i) => {
      const token = make("span", { role: "option", style: style(name, i, map.queries) }, word(name));
      token.addEventListener("mouseenter", () => choose(i));
      token.addEventListener("focus", () => choose(i));
      token.addEventListener("keydown", event => {
        const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: map.queries.length - 1 }[event.key];
        if (to === undefined || !queries.children[to]) return;
        event.preventDefault();
        queries.children[to].focus();
      });
      return token;
    }));
    keys.replaceChildren(...map.keys.map((name, k) => make("span", { style: style(name, k, map.keys) }, word(name))));
    at = Math.min(at, map.queries.length - 1);
    draw();
  };
  layer.addEventListener("change", fill);
  head.addEventListener("change", draw);
  fill();
}));
