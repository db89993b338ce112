// Changes a value that fails its schema where the schema itself says how: keys and words in another case, nulls of optional keys, a single
// value for a list, numbers and booleans given as text. What fits exactly one way is taken; what fits two ways, or none, stays as it is.
import { isObject } from '../is-object.ts'
import type { RepairName } from './item.ts'
import { plainNumber } from './repair.ts'
import { discriminatorOf, resolve, unionOf } from './schema-shape.ts'
import {
  Finding,
  inspect,
  isChangedInteger,
  type NumberSource,
  parseWithSources,
  type WrittenNumbers,
} from './value.ts'

/** A schema, and its JSON pointer as the fragment of a URI. */
interface SchemaPlace {
  readonly node: unknown
  readonly pointer: string
}

interface ObjectPlace extends SchemaPlace {
  readonly node: Record<string, unknown>
}

interface ValueOrigin {
  /** The value is a whole item. */
  readonly isItem?: boolean
  readonly listName?: string | undefined
  /** How a number was written. */
  readonly source?: string | undefined
}

export interface DirectedSchema {
  readonly root: unknown
  /** Whether a value fits the schema at a pointer. */
  readonly fits: (pointer: string, value: unknown) => boolean
}

/** The most steps per part of the value. They keep the time linear in the value, whatever unions the schema has. */
const stepsPerPart = 256
/** The deepest JSON text in a string that is read. */
const maxDecodedDepth = 16

export interface DirectOptions {
  readonly numbers: WrittenNumbers
  /** The key of the list that the value is an element of. */
  readonly listName?: string | undefined
}

/** Returns what became of `value`, which is changed in place where that is possible. */
export function direct(
  schema: DirectedSchema,
  value: unknown,
  { numbers, listName }: DirectOptions,
): { readonly value: unknown; readonly repairs: readonly RepairName[] } {
  const directed = new Directed(schema, numbers, { left: stepsPerPart * partsOf(value) })
  const root = { node: schema.root, pointer: '#' }
  return { value: directed.place(root, value, { isItem: true, listName }), repairs: [...directed.repairs] }
}

/** A name without its case, spaces, hyphens and underscores: `entityType`, `entity_type` and `Entity Type` are the same. */
export function folded(name: string): string {
  return name
    .normalize('NFC')
    .toLowerCase()
    .replace(/[\s_-]+/g, '')
}

class Directed {
  readonly repairs = new Set<RepairName>()
  readonly #schema: DirectedSchema
  readonly #numbers: WrittenNumbers
  readonly #steps: { left: number }

  constructor(schema: DirectedSchema, numbers: WrittenNumbers, steps: { left: number }) {
    this.#schema = schema
    this.#numbers = numbers
    this.#steps = steps
  }

  place(given: SchemaPlace, value: unknown, origin: ValueOrigin = {}): unknown {
    this.#steps.left -= partsOf(value)
    const place = this.#resolved(given)
    if (place === undefined || this.#steps.left < 0) return value
    // A part that fits already is not changed.
    if (typeof value === 'object' && value !== null && this.#fits(place, value)) return value
    let changed = this.#word(place.node, this.#typed(place, value, origin.source))
    if (isObject(changed)) this.#members(place, changed)
    else if (Array.isArray(changed)) this.#elements(place, changed)
    const { allOf } = place.node
    if (Array.isArray(allOf))
      for (const index of allOf.keys()) changed = this.place(below(place, 'allOf', index), changed, origin)
    return this.#union(place, changed, origin)
  }

  #resolved({ node, pointer }: SchemaPlace): ObjectPlace | undefined {
    const target = resolve(node, this.#schema.root)
    if (target === undefined) return undefined
    const reference = isObject(node) ? node['$ref'] : undefined
    return { node: target, pointer: typeof reference === 'string' ? reference : pointer }
  }

  #fits(place: SchemaPlace, value: unknown): boolean {
    return this.#schema.fits(place.pointer, value)
  }

  /** The value as one of the types that the schema allows, if exactly one change leads there. */
  #typed(place: ObjectPlace, value: unknown, source?: string): unknown {
    const types = [place.node['type']].flat()
    if (place.node['type'] === undefined || types.some((type) => isOfType(value, type))) return value
    const ways = types.flatMap((type): { value: unknown; repair: RepairName }[] => {
      if (type === 'array') return isOneElement(value) ? [{ value: [value], repair: 'list' }] : []
      const coerced = coercedTo(type, value, source)
      return coerced === undefined ? [] : [{ value: coerced, repair: 'coerced' }]
    })
    const decoded = typeof value === 'string' ? decodedContainer(value) : undefined
    const way =
      decoded !== undefined && types.some((type) => isOfType(decoded, type))
        ? { value: decoded, repair: 'decoded' as const }
        : ways[0]
    if (way === undefined || (way.repair !== 'decoded' && ways.length > 1)) return value
    this.repairs.add(way.repair)
    return way.value
  }

  /** The allowed word that differs from `value` only as `folded` does, or the number or boolean that it names. */
  #word({ const: only, enum: some }: Record<string, unknown>, value: unknown): unknown {
    const allowed: unknown[] = only !== undefined ? [only] : Array.isArray(some) ? some : []
    if (allowed.length === 0 || !isScalar(value) || allowed.includes(value)) return value
    const word = folded(String(value))
    const same = allowed.filter((each) => isScalar(each) && folded(String(each)) === word)
    if (same.length !== 1) return value
    this.repairs.add(typeof same[0] === typeof value ? 'names' : 'coerced')
    return same[0]
  }

  #members(place: ObjectPlace, value: Record<string, unknown>): void {
    const { properties, patternProperties, required, additionalProperties } = place.node
    const declared = isObject(properties) ? properties : {}
    const names = new Set([
      ...Object.keys(declared),
      ...(Array.isArray(required) ? required.map(String) : []),
    ])
    if (patternProperties === undefined) this.#rename(value, [...names])
    for (const key of Object.keys(value)) {
      const isDeclared = Object.hasOwn(declared, key)
      if (!isDeclared && !isObject(additionalProperties)) continue
      const child = isDeclared
        ? below(place, 'properties', key)
        : { node: additionalProperties, pointer: `${place.pointer}/additionalProperties` }
      const isOptional = isDeclared && !(Array.isArray(required) && required.includes(key))
      if (value[key] === null && isOptional && !this.#fits(child, null)) {
        delete value[key]
        this.repairs.add('nulls')
      } else this.#child(child, value, key)
    }
  }

  #elements(place: ObjectPlace, value: unknown[]): void {
    if (!isObject(place.node['items'])) return
    const child = { node: place.node['items'], pointer: `${place.pointer}/items` }
    const holder = value as unknown as Record<string, unknown>
    for (const index of value.keys()) this.#child(child, holder, String(index))
  }

  #child(place: SchemaPlace, holder: Record<string, unknown>, key: string): void {
    const before = holder[key]
    const after = this.place(place, before, { source: this.#numbers.source(holder, key) })
    if (after === before) return
    holder[key] = after
    if (Array.isArray(after) && after[0] === before)
      this.#numbers.move({ holder, key }, { holder: after as unknown as Record<string, unknown>, key: '0' })
  }

  /** Gives keys the names that the schema declares, if only one key can mean only one name. Their order stays. */
  #rename(value: Record<string, unknown>, names: readonly string[]): void {
    const own = Object.keys(value)
    if (own.every((key) => names.includes(key))) return
    const byFold = Map.groupBy(names, folded)
    const unknown = Map.groupBy(
      own.filter((key) => !names.includes(key)),
      folded,
    )
    const renamed = new Map<string, string>()
    for (const [fold, [key, ...otherKeys]] of unknown) {
      const [name, ...otherNames] = byFold.get(fold) ?? []
      if (key === undefined || name === undefined || otherKeys.length + otherNames.length > 0) continue
      if (!Object.hasOwn(value, name)) renamed.set(key, name)
    }
    if (renamed.size === 0) return
    this.repairs.add('names')
    for (const key of own) {
      const name = renamed.get(key) ?? key
      const member = value[key]
      delete value[key]
      value[name] = member
      if (name !== key) this.#numbers.move({ holder: value, key }, { holder: value, key: name })
    }
  }

  /** Follows the branch that the value names, or the only one that it can be brought to fit. */
  #union(place: ObjectPlace, value: unknown, origin: ValueOrigin): unknown {
    const union = unionOf(place.node)
    if (union === undefined) return origin.isItem ? this.#implied(place.node, value) : value
    const branches = union.branches.map((_, index) => below(place, union.keyword, index))
    const named = isObject(value) ? this.#namedBranch(branches, value, origin) : undefined
    if (named !== undefined) return named < 0 ? value : this.place(branches[named]!, value)
    if (branches.some((branch) => this.#fits(branch, value))) return value
    const results = new Map<string, SchemaPlace>()
    for (const branch of branches) {
      const result = this.#tried(branch, value)
      if (this.#fits(branch, result)) results.set(JSON.stringify(result), branch)
    }
    const [branch, ...others] = results.values()
    return branch === undefined || others.length > 0 ? value : this.place(branch, value)
  }

  /** A copy of the value, changed as the branch says. */
  #tried(branch: SchemaPlace, value: unknown): unknown {
    return new Directed(this.#schema, this.#numbers, this.#steps).place(branch, structuredClone(value))
  }

  /** The index of the branch that a constant such as `type` names; -1 if it names none; undefined if no constant distinguishes them. */
  #namedBranch(
    branches: readonly SchemaPlace[],
    value: Record<string, unknown>,
    { isItem = false, listName }: ValueOrigin,
  ): number | undefined {
    const discriminator = discriminatorOf(branches.map((branch) => this.#resolved(branch)?.node))
    if (discriminator === undefined) return undefined
    const { property, values } = discriminator
    this.#rename(value, [property])
    const kind = value[property]
    if (typeof kind === 'string') {
      const index = onlyIndex(values, (each) => folded(each) === folded(kind))
      if (values.includes(kind) || index < 0) return values.indexOf(kind)
      value[property] = values[index]
      this.repairs.add('discriminator')
      return index
    }
    if (kind !== undefined || !isItem) return -1
    const isNamed = (each: string) => listName !== undefined && isPlural(listName, each)
    const named = values.length === 1 ? 0 : onlyIndex(values, isNamed)
    const fitsAs = (kind: string, index: number) =>
      this.#fits(branches[index]!, this.#tried(branches[index]!, { ...value, [property]: kind }))
    const index = named < 0 ? onlyIndex(values, fitsAs) : named
    if (index < 0) return -1
    value[property] = values[index]
    this.repairs.add('discriminator')
    return index
  }

  /** A schema of one kind implies its constant. */
  #implied(node: Record<string, unknown>, value: unknown): unknown {
    const discriminator = discriminatorOf([node])
    const isMissing =
      discriminator !== undefined && isObject(value) && !Object.hasOwn(value, discriminator.property)
    if (isMissing && [node['required']].flat().includes(discriminator.property)) {
      value[discriminator.property] = discriminator.values[0]
      this.repairs.add('discriminator')
    }
    return value
  }
}

function below({ node, pointer }: SchemaPlace, keyword: string, key: string | number): SchemaPlace {
  const holder = (node as Record<string, unknown>)[keyword] as Record<string | number, unknown>
  const part = encodeURIComponent(String(key).replaceAll('~', '~0').replaceAll('/', '~1'))
  return { node: holder[key], pointer: `${pointer}/${keyword}/${part}` }
}

function isOfType(value: unknown, type: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return typeof value === 'number' && Number.isInteger(value)
  return typeof value === type
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
}

/** Whether a value is one element of a list. A text with commas, semicolons or lines may as well be several. */
function isOneElement(value: unknown): boolean {
  return value !== null && !(typeof value === 'string' && (value.trim() === '' || /[,;\n]/.test(value)))
}

function coercedTo(type: unknown, value: unknown, source: string | undefined): unknown {
  if (type === 'number') return typeof value === 'string' ? numberOf(value) : undefined
  if (type === 'integer') {
    const number = typeof value === 'string' ? numberOf(value) : undefined
    return Number.isInteger(number) ? number : undefined
  }
  if (type === 'boolean') return booleanOf(value)
  if (type !== 'string') return undefined
  if (typeof value === 'number') return source ?? String(value)
  return typeof value === 'boolean' ? String(value) : undefined
}

/** The number that a text is, as far as a double holds it exactly. */
function numberOf(text: string): number | undefined {
  const json = plainNumber(text.trim())
  const number = Number(json)
  return json !== undefined && Number.isFinite(number) && !isChangedInteger(number, json) ? number : undefined
}

const booleans: Readonly<Record<string, boolean>> = {
  true: true,
  yes: true,
  1: true,
  false: false,
  no: false,
  0: false,
}

function booleanOf(value: unknown): boolean | undefined {
  if (typeof value !== 'string' && typeof value !== 'number') return undefined
  const word = String(value).trim().toLowerCase()
  return Object.hasOwn(booleans, word) ? booleans[word] : undefined
}

/** The object or list whose JSON text `text` is, if nothing in it is lost. */
function decodedContainer(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    const { value, numbers } = parseWithSources(text)
    const found = inspect(value, maxDecodedDepth, false) & ~Finding.objectInArray & ~Finding.bigInteger
    const isChanged = ({ holder, key, source }: NumberSource) =>
      isChangedInteger(holder[key] as number, source)
    return found === 0 && !numbers.some(isChanged) ? value : undefined
  } catch {
    return undefined
  }
}

function onlyIndex(values: readonly string[], is: (value: string, index: number) => boolean): number {
  const index = values.findIndex(is)
  return index === values.findLastIndex(is) ? index : -1
}

/** Whether a list of that name holds what `kind` names: `definitions` or `definition` for `definition`. */
function isPlural(name: string, kind: string): boolean {
  const [list, one] = [folded(name), folded(kind)]
  return [one, `${one}s`, `${one}es`, one.replace(/y$/, 'ies')].includes(list)
}

/** How many values `value` holds, itself included. */
function partsOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1
  let parts = 1
  for (const member of Object.values(value)) parts += partsOf(member)
  return parts
}
