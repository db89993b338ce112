// Equal inputs make equal bytes: keys are sorted. Only the `properties` of a schema keep their author's order, because a model
// writes keys in that order, except that a property that tells kinds apart goes first.
import { isObject } from '../../is-object.ts'

type Fields = Readonly<Record<string, unknown>>

/** A copy of a JSON value with its keys sorted at every depth. Schemas in it are as `wireSchema` makes them. */
export function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isObject(value)) return value
  if (isSchemaWithProperties(value)) return wireSchema(value)
  return byKey(value, (child) => sorted(child))
}

/** Whether two values are the same JSON, except for the order of keys. */
export function isSameJson(a: unknown, b: unknown): boolean {
  return JSON.stringify(flat(a)) === JSON.stringify(flat(b))
}

/** The JSON of a value with all keys sorted, those of `properties` too: for hashes and comparisons. */
export function flatJson(value: unknown): string {
  return JSON.stringify(flat(value))
}

/** A copy of a JSON Schema, its keys in wire order. */
export function wireSchema(schema: unknown): unknown {
  if (!isObject(schema)) return sorted(schema)
  return byKey(schema, (child, key) => {
    if (key === 'properties' && isObject(child)) return orderedProperties(child, kindProperties(schema))
    if (schemaMaps.has(key) && isObject(child)) return byKey(child, wireSchema)
    if (Array.isArray(child) && !valueKeywords.has(key)) return child.map(wireSchema)
    return isObject(child) && !valueKeywords.has(key) ? wireSchema(child) : flat(child)
  })
}

/** Keywords that hold schemas by name. */
const schemaMaps = new Set(['$defs', 'definitions', 'patternProperties', 'dependentSchemas', 'dependencies'])
/** Keywords of a JSON Schema that hold values, not schemas. */
export const valueKeywords: ReadonlySet<string> = new Set([
  'const',
  'enum',
  'default',
  'example',
  'examples',
  'required',
  'type',
])

/** `kinds` are the properties that tell the kinds of the object apart, besides constant ones. */
function orderedProperties(properties: Fields, kinds: ReadonlySet<string>): unknown {
  const entries = Object.entries(properties)
  const isFirst = ([name, schema]: [string, unknown]) => kinds.has(name) || isConstant(schema)
  const [first, others] = [entries.filter(isFirst), entries.filter((entry) => !isFirst(entry))]
  return Object.fromEntries([...first, ...others].map(([name, schema]) => [name, wireSchema(schema)]))
}

/** The property that `discriminator` names, and those that are constant in a branch of a union. */
function kindProperties({ discriminator, oneOf, anyOf }: Fields): ReadonlySet<string> {
  const named = isObject(discriminator) ? discriminator['propertyName'] : undefined
  const branches = [oneOf, anyOf].flat().filter(isObject)
  const constant = branches.flatMap(({ properties }) =>
    Object.entries(isObject(properties) ? properties : {}).flatMap(([name, schema]) =>
      isConstant(schema) ? [name] : [],
    ),
  )
  return new Set([...(typeof named === 'string' ? [named] : []), ...constant])
}

function isConstant(schema: unknown): boolean {
  if (!isObject(schema)) return false
  return 'const' in schema || (Array.isArray(schema['enum']) && schema['enum'].length === 1)
}

/** Whether a value is a schema in a free field, such as that of a `response_format` among the extras. */
function isSchemaWithProperties(value: Fields): boolean {
  return isObject(value['properties']) && (value['type'] === 'object' || '$schema' in value)
}

/** A copy of a JSON value with all keys sorted, those of `properties` too. */
export function flat(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(flat)
  return isObject(value) ? byKey(value, flat) : value
}

// fromEntries defines own keys, so that a key named __proto__ is kept.
function byKey(value: Fields, change: (child: unknown, key: string) => unknown): Fields {
  const keys = Object.keys(value).sort((a, b) => (a < b ? -1 : 1))
  return Object.fromEntries(keys.map((key) => [key, change(value[key], key)]))
}
