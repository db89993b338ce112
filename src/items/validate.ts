// A JSON Schema, compiled once: whether a value is an item, what is wrong with it, and the few changes that the schema
// itself asks for. A value that already validates is never changed.
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { redactCut } from '../redact.ts'
import { assumedDialects, type Dialect, dialectNamed, dialectNames } from './dialect.ts'
import { type DirectedSchema, type DirectOptions, direct, folded } from './directed.ts'
import type { RepairName } from './item.ts'
import { addLinearKeywords } from './linear-keywords.ts'
import { linearPattern } from './pattern.ts'
import { type Discriminator, schemaShape } from './schema-shape.ts'

const addFormats = ajvFormats.default

export interface Adjusted {
  readonly value: unknown
  /** What was changed; empty when nothing was. */
  readonly repairs: readonly RepairName[]
  /** What is wrong with the value, in one sentence that begins with its place; undefined when nothing is. */
  readonly error: string | undefined
}

/** A compiled schema of items. */
export interface ItemSchema {
  /** The property that distinguishes the kinds of items, if the schema has one. */
  readonly discriminator: Discriminator | undefined
  /** The texts to which the property `type` is restricted; empty when it is free. */
  readonly types: readonly string[]
  /** Whether the root says that a value is an object. */
  readonly isOfObjects: boolean
  /** Whether some key is required in every item. */
  readonly requires: boolean
  /** The keys by which an object shows that it was meant as an item: those that are required, or else all that are declared. */
  readonly ownKeys: readonly string[]
  /** Whether an object with these keys so far still lacks one that every item requires. */
  lacks(keys: readonly string[]): boolean
  test(value: unknown): boolean
  /** What is wrong with `value`, in one sentence that begins with its place; undefined when nothing is. */
  check(value: unknown): string | undefined
  /** Changes `value`, in place where possible, as far as the schema says how in exactly one way. */
  adjust(value: unknown, options: DirectOptions): Adjusted
}

/** Compiles `schema`. Throws `schema_invalid`, which names the place, when it is not a usable schema. */
export function compileSchema(schema: unknown): ItemSchema {
  if (!isObject(schema) && typeof schema !== 'boolean') throw invalid('', 'a schema is a JSON object')
  const dialect = dialectOf(schema)
  checkPatterns(schema)
  const ajv = dialect.create({ ...options, meta: false, validateSchema: false })
  addFormats(ajv)
  addLinearKeywords(ajv)
  try {
    ajv.addSchema((dialect.refAlone ? withRefsAlone(schema) : schema) as object, schemaKey)
    return itemSchema(schema, ajv, ajv.getSchema(schemaKey) as ValidateFunction)
  } catch (thrown) {
    const reference = thrown instanceof Ajv.MissingRefError ? thrown.missingRef : undefined
    const isMissing = (own: unknown) => typeof own === 'string' && reference!.endsWith(own)
    const place = reference === undefined ? undefined : placeOf(schema, (node) => isMissing(node['$ref']))
    throw invalid(place, thrown instanceof Error ? thrown.message : String(thrown), thrown)
  }
}

const schemaKey = 'graphmill:item'

const options: Options = { strict: false, logger: false, code: { regExp: linearPattern } }

/** The dialect of a schema, which must be valid in it. */
function dialectOf(schema: Record<string, unknown> | boolean): Dialect {
  const { $schema: declared, ...rest } = isObject(schema) ? schema : {}
  if (declared === undefined) return validIn(assumedDialects, schema)
  const dialect = dialectNamed(declared)
  if (dialect) return validIn([dialect], rest)
  throw invalid('/$schema', `graphmill reads JSON Schema ${dialectNames.join(', ')}, not ${short(declared)}`)
}

/** The first of the dialects in which a schema is valid. Its parts must be of the same: one validator reads one dialect. */
function validIn(dialects: readonly Dialect[], schema: Record<string, unknown> | boolean): Dialect {
  const dialect = dialects.find(({ metaError }) => !metaError(schema))
  if (!dialect) {
    const { place, message } = dialects[0]!.metaError(schema)!
    throw invalid(place, message)
  }
  const isForeign = ({ $schema }: Record<string, unknown>) =>
    typeof $schema === 'string' && dialectNamed($schema)?.name !== dialect.name
  const place = placeOf(schema, isForeign)
  if (place === undefined) return dialect
  throw invalid(`${place}/$schema`, `it must be ${dialect.name}, as the whole schema is`)
}

function checkPatterns(schema: Record<string, unknown> | boolean): void {
  let fault: unknown
  const place = placeOf(schema, (node) => {
    const { pattern, patternProperties } = node
    const patterns = [pattern, ...Object.keys(isObject(patternProperties) ? patternProperties : {})]
    try {
      for (const each of patterns) if (typeof each === 'string') linearPattern(each, 'u')
      return false
    } catch (thrown) {
      fault = thrown
      return true
    }
  })
  if (fault === undefined) return
  const why = fault instanceof Error ? fault.message : String(fault)
  throw invalid(place, `its pattern cannot be matched in linear time: ${why}`, fault)
}

/** Keywords that hold values, not schemas. */
const data = new Set(['default', 'const', 'enum', 'examples', 'example'])

/** The JSON pointer of the first object in `schema` that `found` accepts. */
function placeOf(schema: unknown, found: (node: Record<string, unknown>) => boolean): string | undefined {
  const pending: [unknown, string][] = [[schema, '']]
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const [node, place] = next
    if (typeof node !== 'object' || node === null) continue
    if (isObject(node) && found(node)) return place
    for (const [key, child] of Object.entries(node)) {
      if (!data.has(key)) pending.push([child, `${place}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`])
    }
  }
  return undefined
}

/** A copy in which only what a reference may lead to stands beside a `$ref`. */
function withRefsAlone(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(withRefsAlone)
  if (!isObject(node)) return node
  const isKept = (key: string) => typeof node['$ref'] !== 'string' || key === '$ref' || targets.has(key)
  const entries = Object.entries(node).filter(([key]) => isKept(key))
  return Object.fromEntries(
    entries.map(([key, child]) => [key, data.has(key) ? child : withRefsAlone(child)]),
  )
}

const targets = new Set(['definitions', '$defs', '$schema'])

function invalid(place = '', message: string, cause?: unknown): GraphmillError {
  const where = place === '' ? 'at its root' : `at ${place}`
  return new GraphmillError('schema_invalid', `The schema is not valid ${where}: ${message}.`, {
    ...(cause === undefined ? {} : { cause }),
    details: { place },
  })
}

function itemSchema(schema: unknown, ajv: Ajv, validate: ValidateFunction): ItemSchema {
  const { discriminator, branches, required, types, properties } = schemaShape(schema)

  function firstError(value: unknown): ErrorObject | undefined {
    if (validate(value)) return undefined
    const errors = validate.errors ?? []
    const kind = discriminator && isObject(value) ? value[discriminator.property] : undefined
    const branch = typeof kind === 'string' ? (discriminator?.values.indexOf(kind) ?? -1) : -1
    const pointer = branches[branch]
    const validateBranch = pointer === undefined ? undefined : ajv.getSchema(schemaKey + pointer)
    if (validateBranch && !validateBranch(value)) return validateBranch.errors?.[0]
    return errors[0]
  }

  function check(value: unknown): string | undefined {
    const error = firstError(value)
    if (error === undefined) return undefined
    return unknownKind(value) ?? sentenceOf(error)
  }

  /** The clear error of a union: its discriminator is missing or names no branch. */
  function unknownKind(value: unknown): string | undefined {
    if (discriminator === undefined || !isObject(value)) return undefined
    const { property, values } = discriminator
    const kind = value[property]
    if (branches.length === 0 || values.some((each) => each === kind)) return undefined
    const known = values.map((each) => JSON.stringify(each)).join(', ')
    if (kind === undefined) return `/${property}: is missing; it must be one of ${known}`
    return `/${property}: ${short(kind)} is none of ${known}`
  }

  const requiredNames = required.map((way) =>
    way.filter((key) => key !== discriminator?.property).map(folded),
  )
  /** Whether an object has every required key, in some writing. The others cannot be made an item. */
  function hasRequired(value: object): boolean {
    const names = new Set(Object.keys(value).map(folded))
    return requiredNames.some((way) => way.every((name) => names.has(name)))
  }

  const directed: DirectedSchema = {
    root: schema,
    fits: (pointer, value) => ajv.getSchema(schemaKey + pointer)?.(value) === true,
  }

  function adjust(value: unknown, options: DirectOptions): Adjusted {
    if (validate(value)) return { value, repairs: [], error: undefined }
    if (isObject(value) && !hasRequired(value)) return { value, repairs: [], error: check(value) }
    const { value: changed, repairs } = direct(directed, value, options)
    return { value: changed, repairs, error: check(changed) }
  }

  return {
    discriminator,
    types,
    isOfObjects: isObject(schema) && schema['type'] === 'object',
    requires: required.every((way) => way.length > 0),
    ownKeys: required.some((way) => way.length > 0) ? required.flat() : properties,
    lacks: (keys) => required.every((way) => way.some((key) => !keys.includes(key))),
    test: validate,
    check,
    adjust,
  }
}

function sentenceOf(error: ErrorObject): string {
  const place = error.instancePath === '' ? '' : `${error.instancePath}: `
  if (error.keyword === 'additionalProperties') {
    return `${place}must not have the property ${short(error.params['additionalProperty'])}`
  }
  if (error.keyword === 'enum') return `${place}must be one of ${short(error.params['allowedValues'])}`
  if (error.keyword === 'const') return `${place}must be ${short(error.params['allowedValue'])}`
  return place + (error.message ?? error.keyword)
}

function short(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value)
  return text.length > 200 ? `${redactCut(text, 200)}…` : text
}
