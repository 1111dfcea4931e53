/* Names of languages, from the browser's own tables, and the directions in which runs translate. */

const ENGLISH = named("en");

/* A name in English, such as German; the code itself where it is that of no known language. */
export function languageName(code) {
  try {
    return ENGLISH.of(tag(code)) ?? code;
  } catch {
    return code;
  }
}

/* The name in English, and in the language itself: German – Deutsch. */
export function languageLabel(code) {
  const name = languageName(code), own = ownName(code);
  return own && own.toLowerCase() !== name.toLowerCase() ? `${name} – ${own}` : name;
}

/* What can be chosen: each run, once for every direction that it has. */
export const choicesOf = runs => runs.flatMap(run => run.directions.length
  ? run.directions.map(direction => ({ run, ...direction }))
  : [{ run, source: "", target: "", input_fields: {} }]);

/* A choice with the first of these wishes, of them one with the second, and so on, as far as there are any. */
export const nearest = (choices, ...wishes) => wishes.reduce((left, wish) => {
  const fitting = left.filter(wish);
  return fitting.length ? fitting : left;
}, choices)[0];

/* The same languages the other way round, preferably by the same run; undefined if nothing served translates so. */
export const reverseOf = (choices, { run, source, target }) => source
  ? nearest(choices.filter(each => each.source === target && each.target === source), each => each.run === run)
  : undefined;

/* Codes as files and corpora have them, such as pt_BR or eng_us, as the standard writes them. */
const tag = code => Intl.getCanonicalLocales(code.replaceAll("_", "-"))[0];

function named(locale) {
  return new Intl.DisplayNames([locale], { type: "language", fallback: "none" });
}

function ownName(code) {
  try {
    const names = named(tag(code)), { language } = new Intl.Locale(tag(code));
    const { locale } = names.resolvedOptions();
    return new Intl.Locale(locale).language === language ? capitalised(names.of(tag(code)) ?? "", locale) : "";
  } catch {
    return "";
  }
}

/* Where names begin with a small letter in running text, as in français; Georgian has no capitals in a sentence. */
const capitalised = (name, locale) => /^\p{Script=Georgian}/u.test(name)
  ? name
  : name.charAt(0).toLocaleUpperCase(locale) + name.slice(1);
