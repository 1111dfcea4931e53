/* Elements of the page. */

export const $ = id => document.getElementById(id);

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export const count = (n, name) => `${n.toLocaleString("en")} ${name}${n === 1 ? "" : "s"}`;

/* The keys with which one of several elements in a row is reached; only that one is a stop of the Tab key. */
export function reachByArrows(elements, event) {
  const at = elements.indexOf(event.target.closest("[tabindex]"));
  const forwards = event.target.matches(":dir(rtl)") ? "ArrowLeft" : "ArrowRight";
  const backwards = forwards === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
  const to = { [forwards]: at + 1, ArrowDown: at + 1, [backwards]: at - 1, ArrowUp: at - 1, Home: 0, End: elements.length - 1 }[event.key];
  if (at < 0 || to === undefined || !elements[to]) return;
  event.preventDefault();
  elements[to].focus();
}

/* Put a text on the clipboard; without https, browsers have only the old way. Returns whether it is there. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true, () => false);
  const field = make("textarea", { class: "unseen" }), focused = document.activeElement;
  field.value = text;
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  focused.focus();
  return copied;
}
