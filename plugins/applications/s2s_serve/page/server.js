/* Requests to the server, with the key of the page, and its answers. */

const RETRIES = 3;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const key = () => document.getElementById("key")?.value ?? "";

/* The answer; throws Refused with the server's reason. A server that is busy is asked again when it says. */
export async function request(path, { headers = {}, waiting = () => {}, ...options } = {}) {
  const authorized = key() ? { ...headers, authorization: `Bearer ${key()}` } : headers;
  for (let tries = 0; ; tries++) {
    const answer = await fetch(path, { ...options, headers: authorized });
    if (answer.ok) return answer;
    const reason = await message(answer), seconds = Number(answer.headers.get("retry-after"));
    if (answer.status !== 429 || !seconds || tries === RETRIES) throw new Refused(answer.status, reason);
    waiting(`${reason} Trying again in ${seconds} s.`);
    await pause(seconds, options.signal);
  }
}

export const json = body => ({ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/* What to tell of an error. Without an answer, fetch throws a TypeError. */
export const explained = error => error instanceof TypeError ? "The server cannot be reached." : error.message;

/* Server-sent events of an answer, each as [name, data]. */
export async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let kept = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (kept + value).split("\n\n");
    kept = blocks.pop();
    for (const block of blocks) {
      const [name, data] = block.split("\n");
      yield [name.slice("event: ".length), JSON.parse(data.slice("data: ".length))];
    }
  }
}

/* The reason in an error's body: as our API and LibreTranslate's write it, or that of a proxy. */
async function message(answer) {
  try {
    const { error } = await answer.json();
    return sentence(error.message ?? error);
  } catch {
    return `The server answers with ${answer.status} ${answer.statusText}.`;
  }
}

const sentence = text => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
  });
}
