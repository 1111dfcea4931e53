/* The present request as commands for a shell and for Python, as text to be copied. */

/* route: relative to the page; key: whether the server asks for one. */
export function curl(route, body, key) {
  const header = key ? ` -H "authorization: Bearer $KEY"` : "";
  return `curl ${quoted(address(route))} -H 'content-type: application/json'${header} \\\n  -d ${quoted(JSON.stringify(body))}`;
}

export function python(route, body, key) {
  const lines = ["import json", ...key ? ["import os"] : [], "import urllib.request", "",
    `body = ${literal(body)}`,
    key ? `headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["KEY"]}`
      : `headers = {"content-type": "application/json"}`,
    `request = urllib.request.Request(${JSON.stringify(address(route))}, json.dumps(body).encode(), headers)`,
    "with urllib.request.urlopen(request) as answer:",
    "    results = json.load(answer)[\"results\"]",
    "print(results[0][\"hyp\"])"];
  return lines.join("\n");
}

const address = route => new URL(route, document.baseURI).href;

/* For a shell: in single quotes, nothing but these means anything. */
export const quoted = text => `'${text.replaceAll("'", `'\\''`)}'`;

/* Strings and numbers are written alike in JSON and Python, other constants are not. */
function literal(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${literal(each)}`).join(", ")}}`;
}
