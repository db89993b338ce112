// What a JSON Schema shows without validating: its branches, the property that distinguishes them, the required keys. Only local references
// are followed. For an unusual shape the answer is "unknown", and only validation decides.
import { isObject } from '../is-object.ts'

/** The property whose value distinguishes the branches of a union, such as `type`. */
export interface Discriminator {
  readonly property: string
  /** The value that each branch asks for, in the order of the branches. */
  readonly values: readonly string[]
}

export interface SchemaShape {
  readonly discriminator: Discriminator | undefined
  /** The JSON pointers of the branches; empty when the schema is not a union. */
  readonly branches: readonly string[]
  /** For each way to satisfy the schema, the keys that it requires. */
  readonly required: readonly (readonly string[])[]
  /** The texts to which the schema, or a branch of it, restricts the property `type`; empty when it does not. */
  readonly types: readonly string[]
  /** The properties that the schema, or a branch of it, declares. */
  readonly properties: readonly string[]
}

const maxWays = 64
const maxHops = 16

export function schemaShape(schema: unknown): SchemaShape {
  const root = resolve(schema, schema)
  if (root === undefined)
    return { discriminator: undefined, branches: [], required: [[]], types: [], properties: [] }
  const union = unionOf(root)
  const branches = union?.branches.map((branch) => resolve(branch, schema))
  return {
    discriminator: discriminatorOf(branches ?? [root]),
    // A root that is itself a reference is rare; its branches then have no pointer of their own.
    branches: union && root === schema ? union.branches.map((_, index) => `#/${union.keyword}/${index}`) : [],
    required: requiredWays(root, schema, 0),
    types: [root, ...(branches ?? [])].flatMap((branch) => [...(textsOf(branch).get('type') ?? [])]),
    properties: [root, ...(branches ?? [])].flatMap((branch) => Object.keys(branch?.['properties'] ?? {})),
  }
}

export function unionOf(schema: Record<string, unknown>) {
  for (const keyword of ['oneOf', 'anyOf'] as const) {
    const branches = schema[keyword]
    if (Array.isArray(branches) && branches.length > 0) return { keyword, branches: branches as unknown[] }
  }
  return undefined
}

/** The schema itself or the target of its `$ref`; undefined when that is not an object. */
export function resolve(schema: unknown, root: unknown, hops = 0): Record<string, unknown> | undefined {
  if (!isObject(schema)) return undefined
  const reference = schema['$ref']
  if (typeof reference !== 'string') return schema
  if (hops >= maxHops || !(reference === '#' || reference.startsWith('#/'))) return undefined
  let target: unknown = root
  for (const part of reference.split('/').slice(1)) {
    const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof target !== 'object' || target === null || !Object.hasOwn(target, key)) return undefined
    target = (target as Record<string, unknown>)[key]
  }
  return resolve(target, root, hops + 1)
}

/** The property whose constants distinguish the branches. */
export function discriminatorOf(
  branches: readonly (Record<string, unknown> | undefined)[],
): Discriminator | undefined {
  const constants = branches.map(constantsOf)
  const first = constants[0]
  if (first === undefined) return undefined
  const names = [...first.keys()].sort((a, b) => Number(b === 'type') - Number(a === 'type'))
  for (const property of names) {
    const values = constants.map((constant) => constant.get(property))
    const known = values.filter((value) => value !== undefined)
    if (known.length === values.length && new Set(known).size === known.length) {
      return { property, values: known }
    }
  }
  return undefined
}

/** The properties for which a schema allows one string only. */
function constantsOf(schema: Record<string, unknown> | undefined): Map<string, string> {
  const constants = new Map<string, string>()
  for (const [name, [only, ...more]] of textsOf(schema))
    if (only !== undefined && more.length === 0) constants.set(name, only)
  return constants
}

/** The properties for which a schema allows certain strings only, and these. */
function textsOf(schema: Record<string, unknown> | undefined): Map<string, readonly string[]> {
  const texts = new Map<string, readonly string[]>()
  const properties = schema?.['properties']
  if (!isObject(properties)) return texts
  for (const [name, property] of Object.entries(properties)) {
    if (!isObject(property)) continue
    const { const: constant, enum: values } = property
    const allowed: unknown[] = typeof constant === 'string' ? [constant] : Array.isArray(values) ? values : []
    if (allowed.length > 0 && allowed.every((value) => typeof value === 'string')) texts.set(name, allowed)
  }
  return texts
}

function requiredWays(schema: unknown, root: unknown, hops: number): string[][] {
  const resolved = resolve(schema, root)
  if (resolved === undefined || hops > maxHops) return [[]]
  const own = resolved['required']
  let ways = [Array.isArray(own) ? own.filter((key) => typeof key === 'string') : []]
  const also = (parts: string[][]) => {
    const product = ways.flatMap((way) => parts.map((part) => [...way, ...part]))
    if (product.length <= maxWays) ways = product
  }
  const union = unionOf(resolved)
  if (union) also(union.branches.flatMap((branch) => requiredWays(branch, root, hops + 1)))
  const all = resolved['allOf']
  if (Array.isArray(all)) for (const part of all) also(requiredWays(part, root, hops + 1))
  return ways
}
