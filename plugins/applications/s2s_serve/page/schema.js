/* What an OpenAPI description says of requests: rows of fields, and an example of a body. */

/* A schema in place of a reference to it. */
export const resolved = (api, schema) => schema.$ref
  ? resolved(api, schema.$ref.split("/").slice(1).reduce((at, name) => at[name], api))
  : schema;

/* name, place, type, required, preset and description of each parameter, and of each field of the body. */
export function fieldsOf(api, { parameters = [], requestBody }) {
  const rows = parameters.map(({ name, in: place, required, schema, description }) => ({
    name, place, required, type: typeOf(api, schema), preset: schema.default, description: description ?? schema.description ?? "" }));
  const body = Object.values(requestBody?.content ?? {})[0];
  const { properties = {}, required = [] } = body ? resolved(api, body.schema) : {};
  return [...rows, ...Object.entries(properties).map(([name, schema]) => ({ name, place: "", required: required.includes(name),
    type: typeOf(api, schema), preset: schema.default, description: schema.description ?? "" }))];
}

function typeOf(api, given) {
  const schema = resolved(api, given);
  if (schema.anyOf) return schema.anyOf.map(each => typeOf(api, each)).join(" or ");
  if (schema.enum) return schema.enum.map(each => JSON.stringify(each)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.format === "binary") return "file";
  if (schema.type === "array") return `list of ${typeOf(api, schema.items ?? {})}${limits(schema, "Items")}`;
  if (schema.properties) return `{${Object.entries(schema.properties).map(([name, each]) => `${name}: ${typeOf(api, each)}`).join(", ")}}`;
  return `${schema.type ?? "any"}${limits(schema, "imum")}`;
}

const limits = (schema, of) => (schema[`min${of}`] === undefined ? "" : ` ≥ ${schema[`min${of}`]}`)
  + (schema[`max${of}`] === undefined ? "" : ` ≤ ${schema[`max${of}`]}`);

/* A value of a schema: its own example, or the fields that it requires, and those with an example. */
export function exampleOf(api, given) {
  const schema = resolved(api, given);
  if (schema.examples) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.anyOf) return exampleOf(api, schema.anyOf[0]);
  if (schema.type === "array") return [exampleOf(api, schema.items)];
  if (!schema.properties) return schema.type === "string" ? "" : 0;
  const needed = ([name, each]) => schema.required?.includes(name) || each.examples;
  return Object.fromEntries(Object.entries(schema.properties).filter(needed).map(([name, each]) => [name, exampleOf(api, each)]));
}
