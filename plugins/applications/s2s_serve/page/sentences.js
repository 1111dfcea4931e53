/* The output: a text whose sentences can be chosen, with the details of the chosen one; or trees. */

import { attended } from "./attention.js";
import { $, count, make, reachByArrows } from "./dom.js";

export class Output {
  /* text: the input; drawn: whether sentences are trees. What is shown stays until the first sentence arrives. */
  begin(text, drawn) {
    [this.text, this.drawn, this.read, this.sentences, this.spans] = [text, drawn, 0, [], []];
    $("output").classList.add("stale");
  }

  clear() {
    $("details").classList.remove("picked");
    this.begin("", false);
    this.#empty();
  }

  add(sentence) {
    if (!this.sentences.length) this.#empty();
    this.sentences.push(sentence);
    if (this.drawn) return $("output").append(tree(sentence));
    const span = make("span", { class: sentence.hyp ? "sentence" : "sentence nothing", role: "button", tabindex: -1 },
      sentence.hyp || "(no output)");
    for (const kind of ["click", "focus"]) span.addEventListener(kind, () => this.#pick(span));
    span.addEventListener("keydown", event => reachByArrows(this.spans, event));
    this.spans.push(span);
    $("output").append(this.#between(sentence), span);
  }

  /* All sentences are there: the details of the one that was chosen in the output before, or of the first. */
  end() {
    if (this.spans.length) this.choose(Math.min(this.chosen ?? 0, this.spans.length - 1));
  }

  /* The details of a sentence that is chosen by hand stay in view, wherever it stands. */
  #pick(span) {
    $("details").classList.add("picked");
    this.choose(this.spans.indexOf(span));
  }

  choose(at) {
    this.chosen = at;
    this.spans.forEach((span, i) => {
      span.setAttribute("aria-current", i === at);
      span.tabIndex = i === at ? 0 : -1;
    });
    $("details").replaceChildren(...details(this.sentences[at], at));
    $("details").hidden = !$("details").hasChildNodes();
  }

  #empty() {
    $("output").classList.remove("stale");
    $("output").classList.toggle("drawn", this.drawn);
    $("output").replaceChildren();
    $("details").hidden = true;
  }

  /* What stands between two sentences of the input stands between their outputs, too. */
  #between({ src }) {
    const begin = this.text.indexOf(src, this.read);
    if (begin < 0) return this.sentences.length > 1 ? " " : "";
    const between = this.text.slice(this.read, begin);
    this.read = begin + src.length;
    return between;
  }
}

function details(sentence, at) {
  const others = (sentence.nbest ?? []).slice(1), rows = sentence.attention && sentence.hyp ? attended(sentence) : [];
  if (others.length) {
    const items = others.map(other => make("li", {}, other.hyp || "(no output)", " ", score(other)));
    rows.push([others.length === 1 ? "Alternative" : "Alternatives", make("ol", { class: "alternatives", dir: "auto", start: 2 }, ...items)]);
  }
  if (sentence.finished === false) rows.push(["Note", "Cut by the limit on the length of outputs."]);
  if (!rows.length) return [];
  const title = make("p", { class: "quiet" }, sentence.of > 1 ? `Sentence ${at + 1} of ${sentence.of.toLocaleString("en")} · ` : "", score(sentence));
  return [title, make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]))];
}

const score = ({ score }) => make("small", { class: "src", dir: "ltr" }, score === null ? "" : `score ${score.toFixed(2)}`);

function tree(sentence) {
  const others = (sentence.nbest ?? []).slice(1);
  const box = make("div", {}, make("p", { class: "src" }, sentence.src), ...drawing(sentence));
  if (!others.length) return box;
  const items = others.map(other => make("li", {}, score(other), ...drawing(other)));
  box.append(make("details", {}, make("summary", {}, count(others.length, "alternative")), make("ol", { start: 2 }, ...items)));
  return box;
}

/* An image cannot run scripts, whatever the words of the tree are. */
function drawing({ hyp, views }) {
  if (!views) return [make("p", { class: "nothing" }, "(no output)")];
  const picture = make("img", { alt: hyp, src: "data:image/svg+xml," + encodeURIComponent(views.svg) });
  const text = make("details", {}, make("summary", {}, "Tree as text"), make("pre", { tabindex: 0 }, views.pretty || hyp));
  return [make("div", { class: "tree", tabindex: 0, role: "group", "aria-label": "Tree" }, picture), text];
}
