/* The page: what is chosen, and requests for the text, at a click or while it is typed. */

import { $, copy, count, make } from "./dom.js";
import { curl, python } from "./example.js";
import { acceptFiles } from "./files.js";
import { choicesOf, languageLabel, languageName, nearest, reverseOf } from "./languages.js";
import { Output } from "./sentences.js";
import { Refused, events, explained, json, key, request } from "./server.js";

const PAUSE = 400;  // milliseconds without a key after which a text is translated
const LONGEST_TYPED = 1500;  // characters; a longer text would be decoded anew too often

const output = new Output();
let served = { runs: [], max_chars: Infinity }, choices = [], chosen = null;
let controller = null, timer = 0, asked = "", written = "";

const say = (text, bad = false) => {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
};
const draws = () => chosen.run.views.includes("svg");

async function load() {
  try {
    served = await (await request("v1/runs")).json();
  } catch (error) {
    if (error.status === 401) $("key-label").hidden = false;
    return say(explained(error), true);
  }
  choices = choicesOf(served.runs);
  $("run").replaceChildren(...served.runs.map(run => make("option", { value: run.name }, run.name)));
  $("run-label").hidden = served.runs.length < 2;
  acceptFiles(served, () => chosen);
  choose(choices[0]);
  edited(0);
}

/* Show a choice, and translate into what has been chosen. */
function choose(choice) {
  const changed = chosen && choice !== chosen, { run, source, target } = choice;
  if (run !== chosen?.run) fitAlternatives(run);
  chosen = choice;
  $("run").value = run.name;
  $("languages").hidden = !source;
  list("source", source, choices.map(each => each.source));
  list("target", target, choices.filter(each => each.source === source).map(each => each.target));
  const reverse = reverseOf(choices, choice);
  $("swap").disabled = !reverse;
  $("swap").textContent = reverse ? "⇄" : "→";
  $("swap").title = reverse ? "Swap languages" : `Nothing here translates ${languageName(target)} into ${languageName(source)}`;
  $("text").lang = source && source.replaceAll("_", "-");
  $("output").lang = target && target.replaceAll("_", "-");
  $("text").placeholder = draws() ? "A sentence a line" : "Type or paste a text";
  $("go").textContent = draws() ? "Parse" : source ? "Translate" : "Generate";
  $("upload").hidden = draws();
  document.title = `${source ? `${languageName(source)} to ${languageName(target)}` : run.name} · s2s`;
  if (!changed) return refresh();
  output.clear();
  say("");
  [asked, written] = ["", ""];
  $("copy").hidden = true;
  edited(0);
}

function fitAlternatives(run) {
  $("nbest").max = run.nbest - 1;
  $("nbest").value = run.views.includes("svg") ? 0 : Math.min(2, run.nbest - 1);
  $("nbest").disabled = run.nbest === 1;
}

function list(id, code, codes) {
  const options = [...new Set(codes)].filter(Boolean).map(each => make("option", { value: each }, languageLabel(each)));
  $(id).replaceChildren(...options);
  $(id).value = code;
}

const nbest = () => 1 + Math.min(Math.max(0, Math.trunc($("nbest").valueAsNumber) || 0), chosen.run.nbest - 1);

/* What is asked for, without what only this page needs. */
function question() {
  const fields = Object.keys(chosen.input_fields).length ? { input_fields: chosen.input_fields } : {};
  const several = nbest() > 1 ? { nbest: nbest() } : {};
  return { run: chosen.run.name, text: $("text").value, ...several, ...fields };
}

/* Ask for the text, instead of what was asked for before. typed: while it is typed, which is not read aloud. */
async function generate({ typed = false } = {}) {
  clearTimeout(timer);
  const drawn = draws(), align = chosen.run.align && !drawn, body = question(), length = [...body.text].length;
  if (typed && (asked === JSON.stringify(body) || length > LONGEST_TYPED)) return;
  controller?.abort();
  const mine = controller = new AbortController();
  asked = JSON.stringify(body);
  $("output").setAttribute("aria-live", typed ? "off" : "polite");
  refresh();
  busy(true);
  output.begin(body.text, drawn);
  if (!typed) say("Working …");
  try {
    await show({ ...body, stream: true, split: !drawn, raw: drawn, views: drawn ? ["svg", "pretty"] : [],
      fields: align ? ["pieces", "attention"] : [] }, mine.signal);
  } catch (error) {
    if (mine !== controller) return;  // newer text is being translated
    asked = "";
    if (!output.sentences.length) output.clear();
    if (mine.signal.aborted) say("Stopped.");
    else say(explained(error), true);
    refresh();
    if (!typed) $("status").scrollIntoView({ block: "nearest" });
  }
  if (mine === controller) busy(false);
}

/* Show the sentences of an answer as they arrive; throws an error if it has no end. */
async function show(body, signal) {
  const begun = performance.now();
  const answer = await request("v1/generate", { ...json(body), signal, waiting: text => say(text) });
  for await (const [name, data] of events(answer)) {
    signal.throwIfAborted();
    if (name === "error") throw new Refused(0, data.message);
    if (name === "sentence") {
      output.add(data);
      $("progress").textContent = `${data.sentence + 1} of ${count(data.of, "sentence")}`;
    }
    if (name === "done") {
      output.end();
      written = data.results[0].hyp;
      $("copy").hidden = !written;
      return say(`${count(output.sentences.length, "sentence")} in ${((performance.now() - begun) / 1000).toFixed(2)} s`);
    }
  }
  throw new Refused(0, "The connection has ended before the last sentence.");
}

function busy(is) {
  $("progress").textContent = "";
  $("copy").hidden = is || !written;
  $("stop").hidden = !is;
  if (is) written = "";
}

/* What follows from a change of the text: nothing is shown of an empty one. */
function edited(pause = PAUSE) {
  clearTimeout(timer);
  refresh();
  if (!$("text").value.trim()) {
    controller?.abort();
    controller = null;
    [asked, written] = ["", ""];
    output.clear();
    busy(false);
    return say("");
  }
  if ($("live").checked && chosen) timer = setTimeout(() => generate({ typed: true }), pause);
}

/* The length of the text, whether the output is of another one, and the example for programs. */
function refresh() {
  const n = [...$("text").value].length, tooLong = n > served.max_chars;
  $("clear").hidden = !n;
  const limit = served.max_chars.toLocaleString("en");
  const unasked = chosen && $("live").checked && n > LONGEST_TYPED && asked !== JSON.stringify(question());
  const advice = unasked ? ` · press ${$("go").textContent}` : "";
  $("hint").textContent = tooLong ? `${count(n, "character")}: more than ${limit}. Send it as a file.`
    : n ? `${n.toLocaleString("en")} of ${count(served.max_chars, "character")}${advice}` : "Ctrl + Enter starts";
  $("hint").classList.toggle("bad", tooLong);
  if (!chosen) return;
  if (asked) $("output").classList.toggle("stale", asked !== JSON.stringify(question()));
  if (!$("example").open) return;
  const route = draws() ? "v1/parse" : "v1/generate";
  $("curl").textContent = curl(route, question(), key());
  $("python").textContent = python(route, question(), key());
}

async function copied(text) {
  say(await copy(text) ? "Copied." : "The browser does not allow it.");
}

$("form").addEventListener("submit", event => {
  event.preventDefault();
  if (!chosen) load();
  else if ($("text").value.trim()) generate();
  else say("The input is empty.");
});
$("text").addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
});
$("text").addEventListener("input", event => { if (!event.isComposing) edited(); });
$("text").addEventListener("compositionend", () => edited());
$("live").addEventListener("change", () => edited(0));
$("nbest").addEventListener("input", () => edited());
$("stop").addEventListener("click", () => controller?.abort());
$("clear").addEventListener("click", () => {
  $("text").value = "";
  $("text").focus();
  edited();
});
$("run").addEventListener("change", () => choose(nearest(choices, each => each.run.name === $("run").value,
  each => each.source === chosen.source, each => each.target === chosen.target)));
$("source").addEventListener("change", () => choose(nearest(choices, each => each.source === $("source").value,
  each => each.target === chosen.target, each => each.target === chosen.source, each => each.run === chosen.run)));
$("target").addEventListener("change", () => choose(nearest(choices, each => each.source === chosen.source,
  each => each.target === $("target").value, each => each.run === chosen.run)));
$("swap").addEventListener("click", () => {
  if (written && asked === JSON.stringify(question())) $("text").value = written;
  choose(reverseOf(choices, chosen));
});
$("copy").addEventListener("click", () => copied(written));
for (const button of document.querySelectorAll("[data-copies]"))
  button.addEventListener("click", () => copied($(button.dataset.copies).textContent));
$("example").addEventListener("toggle", refresh);
$("key").addEventListener("change", load);
load();
