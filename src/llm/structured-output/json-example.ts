// An example value of a JSON Schema, to be shown to a model. It has every property, required or not, and a value for every
// schema; it need not be valid itself.
import { isObject } from '../../is-object.ts'
import type { JsonSchema } from '../llm.ts'

/** The example: `"..."`, 123, 123.45, true; the values of an enum as `a|b|c`; the value of `const` or `example`. */
export function exampleOf(schema: JsonSchema): unknown {
  return example(schema, { root: schema, depth: 0 })
}

interface ExamplePlace {
  readonly root: JsonSchema
  /** References and levels passed: bounds schemas that contain themselves. */
  readonly depth: number
}

const deepest = 12

function example(schema: unknown, { root, depth }: ExamplePlace): unknown {
  const inner = { root, depth: depth + 1 }
  if (!isObject(schema) || depth > deepest) return '...'
  if ('const' in schema) return schema['const']
  if ('example' in schema) return schema['example']
  const reference = schema['$ref'] ?? schema['$recursiveRef'] ?? schema['$dynamicRef']
  if (typeof reference === 'string') return example(target(reference, root), inner)
  const { enum: values } = schema
  if (Array.isArray(values) && values.length > 0) return ofEnum(values)
  switch (typeOf(schema)) {
    case 'object':
      return ofObject(schema, inner)
    case 'array': {
      // Before 2020-12 the list for a tuple was `items`.
      const { items, prefixItems = items } = schema
      const listed = Array.isArray(prefixItems) ? prefixItems : [items]
      return listed.map((item) => example(item, inner))
    }
    case 'number':
      return 123.45
    case 'integer':
      return 123
    case 'boolean':
      return true
    case 'null':
      return null
    case 'string':
      return '...'
    default:
      return ofBranches(schema, inner)
  }
}

function ofEnum(values: readonly unknown[]): unknown {
  return values.length > 1 && values.every((value) => typeof value === 'string')
    ? values.join('|')
    : values[0]
}

function ofObject(schema: JsonSchema, place: ExamplePlace): unknown {
  const properties = isObject(schema['properties']) ? schema['properties'] : {}
  return Object.fromEntries(Object.entries(properties).map(([name, child]) => [name, example(child, place)]))
}

/** The first branch that is not null; all branches of an allOf together. */
function ofBranches(schema: JsonSchema, place: ExamplePlace): unknown {
  const { anyOf, oneOf, allOf } = schema
  const branches = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) ? oneOf : []
  if (branches.length > 0)
    return example(
      branches.find((branch) => isObject(branch) && branch['type'] !== 'null') ?? branches[0],
      place,
    )
  if (!Array.isArray(allOf)) return '...'
  const parts = allOf.map((part) => example(part, place))
  return parts.every(isObject) ? Object.assign(Object.create(null), ...parts) : parts[0]
}

/** The type: the first that is not null, else what `properties` or `items` imply. */
function typeOf(schema: JsonSchema): unknown {
  const { type, properties, items } = schema
  if (Array.isArray(type)) return type.find((each) => each !== 'null') ?? 'null'
  return type ?? (isObject(properties) ? 'object' : items === undefined ? undefined : 'array')
}

function target(reference: string, root: JsonSchema): unknown {
  let found: unknown = root
  for (const part of reference.split('/').slice(1)) {
    const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined
    found = (found as JsonSchema)[key]
  }
  return reference === '#' || reference.startsWith('#/') ? found : undefined
}
