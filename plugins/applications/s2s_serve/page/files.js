/* Files that are chosen, or dropped anywhere on the page: each is translated as a document, to be saved. */

import { $, make } from "./dom.js";
import { explained, request } from "./server.js";

let formats = {}, maxBytes = 0, queue = Promise.resolve();

/* documents: extensions of each format; max_document: bytes. */
export function acceptFiles({ documents, max_document }, current) {
  formats = Object.fromEntries(Object.entries(documents).flatMap(([name, ends]) => ends.map(end => [end, name])));
  maxBytes = max_document;
  $("file").accept = Object.keys(formats).join();
  $("kinds").textContent = `or drop them: ${Object.keys(formats).join(" ")}`;
  $("file").onchange = () => {
    add($("file").files, current());
    $("file").value = "";
  };
  document.ondragover = event => { if (hasFiles(event)) mark(event, true); };
  document.ondragleave = event => { if (!event.relatedTarget) mark(event, false); };
  document.ondrop = event => {
    if (!hasFiles(event)) return;
    mark(event, false);
    add(event.dataTransfer.files, current());
  };
}

const hasFiles = event => !$("upload").hidden && event.dataTransfer.types.includes("Files");

function mark(event, dropping) {
  event.preventDefault();
  document.body.classList.toggle("dropping", dropping);
}

/* One after the other, so that many files do not hold up the texts of others. */
function add(files, choice) {
  for (const file of files) {
    const state = make("span", { role: "status", class: "quiet" }), controller = new AbortController();
    const remove = make("button", { type: "button", "aria-label": `Remove ${file.name}` }, "Remove");
    const row = make("li", {}, make("span", {}, file.name), state, remove);
    const say = (text, bad = false) => { state.textContent = text; state.className = bad ? "bad" : "quiet"; };
    remove.addEventListener("click", () => {
      controller.abort();
      for (const link of row.querySelectorAll("a")) URL.revokeObjectURL(link.href);
      row.remove();
      $("files").hidden = !$("files").children.length;
      $("file").focus();
    });
    $("files").append(row);
    $("files").hidden = false;
    say("Waiting …");
    queue = queue.then(() => translate(file, choice, say, controller.signal)).then(
      link => { if (link) state.after(link); },
      error => { if (error.name !== "AbortError") say(explained(error), true); });
  }
}

/* A link that saves the translation; throws an error with the reason where there is none. */
async function translate(file, { run, target, input_fields }, say, signal) {
  signal.throwIfAborted();
  const [, stem, end] = file.name.match(/^(.*?)(\.[^.]*)?$/s), format = formats[(end ?? "").toLowerCase()];
  if (!format) throw new Error(`The server reads no such files, but ${Object.keys(formats).join(", ")}.`);
  if (file.size > maxBytes) throw new Error(`Longer than the ${maxBytes.toLocaleString("en")} bytes that the server takes.`);
  say("Working …");
  const begun = performance.now();
  const query = new URLSearchParams({ format, run: run.name, input_fields: JSON.stringify(input_fields) });
  const headers = { "content-type": file.type || "application/octet-stream" };
  const body = await file.arrayBuffer().catch(() => { throw new Error("It cannot be read."); });
  const answer = await request(`v1/documents?${query}`, { method: "POST", signal, waiting: say, headers, body });
  const link = make("a", { class: "button", download: `${stem}.${target || run.name}${end}` }, "Save");
  link.href = URL.createObjectURL(await answer.blob());
  link.setAttribute("aria-label", `Save ${link.download}`);
  say(`Done in ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  return link;
}
