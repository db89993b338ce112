// A JSON Schema as servers take it when they constrain a model to it: every object closed, every key required, optional keys
// nullable. In the values that the model writes, a null that means an absent key is removed again.
//
// Supported: type (one or several), properties, required, items, enum, const, anyOf, oneOf whose branches differ by a constant,
// title, description. Limits such as minLength, pattern or minimum are left out: the item is checked against the schema itself
// anyway. Everything else (references, allOf, conditions, maps, tuples, objects and arrays of anything) is refused.
import { isObject } from '../../is-object.ts'
import { schemaShape } from '../../items/schema-shape.ts'
import type { JsonSchema } from '../llm.ts'

export interface StrictCopy {
  readonly schema: JsonSchema
  /** Removes from a value, in place, the nulls that the copy requires and the schema itself does not. */
  readonly strip: (value: unknown) => void
  /** The opposite, as a new value: keys in the schema's order, null for each that is absent. */
  readonly fill: (value: unknown) => unknown
}

/** The copy, or why there is none, in a few words. */
export function strictCopy(schema: JsonSchema): StrictCopy | { readonly problem: string } {
  try {
    return {
      schema: copy(schema, ''),
      strip: (value) => strip(value, schema),
      fill: (value) => fill(value, schema),
    }
  } catch (thrown) {
    if (thrown instanceof Unsupported) return { problem: thrown.message }
    throw thrown
  }
}

class Unsupported extends Error {
  constructor(place: string, what: string) {
    super(`${place === '' ? 'the schema' : place} ${what}`)
  }
}

/** Keywords that only narrow a type: they are checked here, not by the server. */
const narrowing = new Set([
  ...['minLength', 'maxLength', 'pattern', 'format'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  ...['multipleOf', 'minItems', 'maxItems', 'uniqueItems', 'minProperties', 'maxProperties'],
  ...['default', 'examples', 'example', '$schema', '$id', 'id', '$comment', 'deprecated', 'discriminator'],
])
const kept = new Set(['type', 'title', 'description', 'enum', 'const'])
const structural = new Set(['properties', 'required', 'additionalProperties', 'items', 'anyOf', 'oneOf'])

function copy(schema: unknown, place: string): JsonSchema {
  if (!isObject(schema)) throw new Unsupported(place, 'is not an object')
  const unknown = Object.keys(schema).find(
    (key) => !kept.has(key) && !structural.has(key) && !narrowing.has(key),
  )
  if (unknown !== undefined) throw new Unsupported(place, `has ${unknown}`)
  const branches = branchesOf(schema, place)
  if (branches) return { ...words(schema), anyOf: branches.map((branch, n) => copy(branch, `${place}/${n}`)) }
  const plain = Object.fromEntries(Object.entries(schema).filter(([key]) => kept.has(key)))
  const types = [schema['type'] ?? []].flat() as unknown[]
  const others = types.filter((type) => type !== 'object')
  if (others.length > 0 && others.length < types.length)
    return {
      ...words(schema),
      anyOf: ['object', others.length > 1 ? others : others[0]].map((type) => {
        const { title: _title, description: _description, ...rest } = schema
        return copy({ ...rest, type }, place)
      }),
    }
  if (others.length < types.length || (types.length === 0 && schema['properties']))
    return { ...plain, ...closed(schema, place) }
  if (types.includes('array')) {
    if (schema['items'] === undefined) throw new Unsupported(place, 'is an array of anything')
    return { ...plain, items: copy(schema['items'], `${place}/items`) }
  }
  if (types.length === 0 && !('enum' in schema) && !('const' in schema))
    throw new Unsupported(place, 'may be anything')
  return plain
}

function words(schema: JsonSchema): JsonSchema {
  return Object.fromEntries(
    Object.entries(schema).filter(([key]) => key === 'title' || key === 'description'),
  )
}

/** The branches of a union, each with the keywords beside the union. */
function branchesOf(schema: JsonSchema, place: string): JsonSchema[] | undefined {
  const { oneOf, anyOf, ...rest } = schema
  const branches = oneOf ?? anyOf
  if (branches === undefined) return undefined
  if (!Array.isArray(branches) || branches.length === 0 || (oneOf && anyOf))
    throw new Unsupported(place, 'has a union of its own kind')
  if (oneOf && schemaShape(schema).discriminator === undefined)
    throw new Unsupported(place, 'has a oneOf whose branches no constant tells apart')
  return branches.map((branch: unknown) => merged(rest, branch, place))
}

function merged(rest: JsonSchema, branch: unknown, place: string): JsonSchema {
  if (!isObject(branch)) throw new Unsupported(place, 'has a branch that is not an object')
  const { title: _title, description: _description, ...common } = rest
  const required = [...new Set([...listOf(common['required']), ...listOf(branch['required'])])]
  const properties = { ...asObject(common['properties']), ...asObject(branch['properties']) }
  return {
    ...common,
    ...branch,
    ...(required.length > 0 && { required }),
    ...(Object.keys(properties).length > 0 && { properties }),
  }
}

function closed(schema: JsonSchema, place: string): JsonSchema {
  const { properties, additionalProperties: more } = schema
  if (!isObject(properties) || Object.keys(properties).length === 0)
    throw new Unsupported(place, 'is an object of anything')
  if (isObject(more)) throw new Unsupported(place, 'is a map')
  const required = new Set(listOf(schema['required']))
  const missing = [...required].find((name) => !Object.hasOwn(properties, name))
  if (missing !== undefined) throw new Unsupported(place, `requires ${missing} without describing it`)
  const entries = Object.entries(properties).map(([name, child]) => {
    const own = copy(child, `${place}/${name}`)
    return [name, required.has(name) || allowsNull(child) ? own : { anyOf: [own, { type: 'null' }] }]
  })
  return {
    type: 'object',
    properties: Object.fromEntries(entries),
    required: Object.keys(properties),
    additionalProperties: false,
  }
}

/** Removes the nulls of absent keys, which the schema does not allow. */
function strip(value: unknown, schema: unknown): void {
  if (!isObject(schema)) return
  if (Array.isArray(value)) {
    const items = itemsOf(schema)
    for (const element of value) strip(element, items)
    return
  }
  if (!isObject(value)) return
  const own = shapeFor(value, schema)
  const properties = asObject(own['properties'])
  const required = listOf(own['required'])
  for (const [name, child] of Object.entries(properties)) {
    if (value[name] !== null) strip(value[name], child)
    else if (!required.includes(name) && !allowsNull(child)) delete value[name]
  }
}

function fill(value: unknown, schema: unknown): unknown {
  if (!isObject(schema)) return value
  if (Array.isArray(value)) {
    const items = itemsOf(schema)
    return value.map((element) => fill(element, items))
  }
  if (!isObject(value)) return value
  const properties = asObject(shapeFor(value, schema)['properties'])
  const described = Object.entries(properties).map(([name, child]) => [
    name,
    Object.hasOwn(value, name) ? fill(value[name], child) : null,
  ])
  const others = Object.entries(value).filter(([name]) => !Object.hasOwn(properties, name))
  return Object.fromEntries([...described, ...others])
}

/** The schema of an array's elements, by every branch that describes an array. */
function itemsOf(schema: JsonSchema): JsonSchema {
  const items = leavesOf(schema).flatMap((leaf) => leaf['items'] ?? [])
  return { anyOf: items }
}

/** The schema, or the branch of it that describes this object: by its constant, else the one that fits best. */
function shapeFor(value: Readonly<Record<string, unknown>>, schema: JsonSchema): JsonSchema {
  const branches = leavesOf(schema).filter((leaf) => isObject(leaf['properties']))
  if (branches.length < 2) return branches[0] ?? {}
  const kind = schemaShape({ anyOf: branches }).discriminator
  const named = kind && branches[kind.values.indexOf(value[kind.property] as string)]
  const known = (branch: JsonSchema) =>
    Object.keys(asObject(branch['properties'])).filter((name) => Object.hasOwn(value, name)).length
  const missed = (branch: JsonSchema) =>
    listOf(branch['required']).filter((name) => (value[name] ?? null) === null).length
  return named ?? branches.toSorted((a, b) => missed(a) - missed(b) || known(b) - known(a))[0]!
}

/** The branches of a union and of the unions in it, each with the keywords beside them; else the schema itself. */
function leavesOf(schema: JsonSchema): JsonSchema[] {
  const { oneOf, anyOf, ...rest } = schema
  const branches = oneOf ?? anyOf
  if (!Array.isArray(branches)) return [schema]
  return branches.filter(isObject).flatMap((branch) => leavesOf(merged(rest, branch, '')))
}

/** Whether some keyword allows null, and none forbids it. */
function allowsNull(schema: unknown): boolean {
  if (!isObject(schema)) return true
  const { type, enum: values, anyOf, oneOf } = schema
  const branches = oneOf ?? anyOf
  const says = [
    type === undefined ? [] : [type].flat().includes('null'),
    Array.isArray(values) ? values.includes(null) : [],
    'const' in schema ? schema['const'] === null : [],
    Array.isArray(branches) ? branches.some((branch) => isObject(branch) && allowsNull(branch)) : [],
  ].flat()
  return says.length > 0 && says.every(Boolean)
}

function listOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((name) => typeof name === 'string') : []
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {}
}
