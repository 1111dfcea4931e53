/* The reference of all routes, made of the server's OpenAPI description, with requests that can be sent. */

import { $, make } from "./dom.js";
import { quoted } from "./example.js";
import { explained, key, request } from "./server.js";
import { exampleOf, fieldsOf, resolved } from "./schema.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const OWN = "s2s";

async function load() {
  const api = await (await request("openapi.json")).json();
  $("status").remove();
  $("version").textContent = `${api.info.title} ${api.info.version}`;
  $("home").hidden = !api.paths["/v1/runs"];
  $("key-form").hidden = !api.components?.securitySchemes;
  const operations = Object.entries(api.paths).flatMap(([path, methods]) => METHODS.filter(method => methods[method])
    .map(method => ({ path, method, ...methods[method] })));
  for (const name of new Set(operations.map(groupOf))) {
    const members = operations.filter(each => groupOf(each) === name);
    const links = members.map(each => make("li", {}, make("a", { href: `#${idOf(each)}` }, method(each), " ", each.path)));
    $("routes").append(make("h2", {}, name), make("ul", {}, ...links));
    $("operations").append(make("h2", {}, name), ...members.map(each => article(api, each)));
  }
  document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

const groupOf = operation => operation.tags?.[0] ?? OWN;

const idOf = ({ method, path }) => `${method}${path.replace(/[^\w]+/g, "-")}`;
const method = ({ method }) => make("span", { class: "method" }, method.toUpperCase());

function article(api, operation) {
  const parts = [make("h3", {}, method(operation), " ", make("code", {}, operation.path))];
  parts.push(make("p", {}, operation.summary ?? ""));
  if (operation.description) parts.push(make("p", {}, ...coded(operation.description)));
  const rows = fieldsOf(api, operation);
  if (rows.length) parts.push(table(rows));
  for (const [type, { schema }] of bodiesOf(operation)) {
    if (!resolved(api, schema).properties) parts.push(make("p", { class: "quiet" }, `The body: ${type}`));
  }
  const id = idOf(operation);
  return make("article", { id, class: "card", "aria-labelledby": `${id}-title` }, ...parts, ...trial(api, operation));
}

const bodiesOf = operation => Object.entries(operation.requestBody?.content ?? {});

/* Text with what stands between backticks as code. */
const coded = text => text.split("`").map((part, i) => i % 2 ? make("code", {}, part) : part);

function table(rows) {
  const cells = ({ name, place, type, required, preset, description }) => make("tr", {},
    make("th", { scope: "row" }, make("code", {}, name), place ? make("small", { class: "quiet" }, ` ${place}`) : ""),
    make("td", {}, type, make("small", { class: "quiet" }, required ? " required" : preset === undefined ? "" : ` = ${JSON.stringify(preset)}`)),
    make("td", {}, ...coded(description)));
  const heads = ["Field", "Type", ""].map(head => make("th", { scope: "col" }, head));
  return make("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Fields" },
    make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows.map(cells))));
}

/* A command with an example; where there is a body of JSON, or none, it can be changed and sent. */
function trial(api, operation) {
  const body = bodiesOf(operation)[0], code = make("pre", { tabindex: 0 });
  const parts = [make("div", { class: "code", role: "group", "aria-label": "curl" }, code)];
  const json = body?.[0] === "application/json";
  const input = json ? make("textarea", { class: "body", spellcheck: "false", "aria-label": `Body of ${operation.path}` }) : null;
  if (input) input.value = JSON.stringify(exampleOf(api, body[1].schema), null, 2);
  const show = () => { code.textContent = curl(operation, body?.[0], input && compact(input.value)); };
  input?.addEventListener("input", show);
  show();
  const needsMore = (operation.parameters ?? []).some(each => each.required);
  if ((body && !json) || needsMore || operation.method === "delete") return parts;
  return [...input ? [input] : [], ...parts, ...sending(operation, input)];
}

function curl({ method, path, parameters = [] }, type, body) {
  const query = parameters.filter(each => each.in === "query" && each.required).map(({ name }) => `${name}=${name.toUpperCase()}`);
  const address = new URL(path.slice(1), document.baseURI).href.replaceAll("%7B", "").replaceAll("%7D", "");
  const parts = ["curl", ...{ get: [], post: [] }[method] ?? [`-X ${method.toUpperCase()}`],
    quoted([address, ...query.length ? [query.join("&")] : []].join("?"))];
  if (key()) parts.push(`-H "authorization: Bearer $KEY"`);
  if (body) parts.push(`-H 'content-type: ${type}'`, `-d ${quoted(body)}`);
  else if (type === "multipart/form-data") parts.push("-F file=@page.html -F source=auto -F target=LANGUAGE");
  else if (type) parts.push("--data-binary @FILE");
  return parts.join(" ");
}

function sending({ method, path }, input) {
  const state = make("span", { class: "quiet", role: "status" }), result = make("pre", { tabindex: 0, "aria-label": "Answer", hidden: "" });
  const send = make("button", { type: "button", "aria-label": `Send ${method.toUpperCase()} ${path}` }, "Send");
  send.addEventListener("click", async () => {
    const begun = performance.now();
    state.textContent = "Working …";
    const options = input ? { headers: { "content-type": "application/json" }, body: input.value } : {};
    try {
      const answer = await request(path.slice(1), { method: method.toUpperCase(), ...options });
      const text = await answer.text();
      state.textContent = `${answer.status} in ${((performance.now() - begun) / 1000).toFixed(2)} s`;
      result.textContent = answer.headers.get("content-type")?.includes("json") ? pretty(text) : text;
      result.hidden = false;
    } catch (error) {
      state.textContent = error.status ? `${error.status}: ${error.message}` : explained(error);
      result.hidden = true;
    }
  });
  return [make("div", { class: "foot" }, state, send), result];
}

function compact(text) {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}

/* Lists of numbers on one line each. */
const pretty = text => JSON.stringify(JSON.parse(text), null, 2).replace(/\[[\s\d.,e+-]*\]/g, list => list.replace(/\s+/g, " "));

$("key-form").addEventListener("submit", event => event.preventDefault());
load().catch(error => { $("status").textContent = explained(error); });
