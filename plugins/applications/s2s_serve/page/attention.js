/* Source and output by their tokens: the chosen output token shades what it attends to, and a line says it in words. */

import { make, reachByArrows } from "./dom.js";

/* Rows of a sentence's details, as names and elements. */
export function attended({ hyp, attention: { src, tgt, weights } }) {
  const sources = src.map(piece => make("span", { class: "token" }, word(piece)));
  const targets = tgt.map((piece, i) => make("span", { class: "token", role: "option", tabindex: i ? -1 : 0,
    "aria-selected": "false" }, word(piece)));
  const explain = make("p", { class: "quiet explain", "aria-live": "polite" },
    "Point at a word of the output, or reach it by Tab and the arrow keys, to see what it attends to.");
  const choose = at => {
    targets.forEach((token, i) => {
      token.setAttribute("aria-selected", i === at);
      token.tabIndex = i === at ? 0 : -1;
    });
    sources.forEach((token, i) => { token.style.backgroundColor = `rgba(var(--heat), ${shade(weights[at][i])})`; });
    const most = weights[at].map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    const parts = most.flatMap(([weight, i]) => [make("bdi", {}, word(src[i])), ` ${Math.round(100 * weight)}%, `]);
    parts.push(parts.pop().slice(0, -2));
    explain.replaceChildren(make("bdi", {}, word(tgt[at])), " ← ", ...parts);
  };
  targets.forEach((token, i) => {
    token.addEventListener("mouseenter", () => choose(i));
    token.addEventListener("focus", () => choose(i));
    token.addEventListener("click", () => token.focus());
    token.addEventListener("keydown", event => reachByArrows(targets, event));
  });
  const list = make("div", { class: "tgt", dir: "auto", role: "listbox", "aria-orientation": "horizontal",
    "aria-label": `Tokens of: ${hyp}` }, ...spaced(tgt, targets));
  const output = make("div", {}, list, explain);
  return [["Source", make("div", { class: "src-tokens", dir: "auto" }, ...spaced(src, sources))], ["Output", output]];
}

/* The root keeps small weights visible, and the half keeps words legible. */
const shade = weight => Math.sqrt(weight) / 2;

/* Blanks stand between the tokens, so that no frame or shade has one in it. */
const word = piece => piece.replace(/^▁/, "") || "␣";
const spaced = (pieces, tokens) => tokens.flatMap((token, i) => i && pieces[i].startsWith("▁") ? [" ", token] : [token]);
