// A JSON Schema, compiled once: whether a value is an item, what is wrong with it, and the few changes that the schema
// itself asks for. A value that already validates is never changed.
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { redactCut } from '../redact.ts'
import { assumedDialects, type Dialect, dialectNamed, dialectNames } from './dialect.ts'
import type { RepairName } from './item.ts'
import { addLinearKeywords } from './linear-keywords.ts'
import { linearPattern } from './pattern.ts'
import { type Discriminator, schemaShape } from './schema-shape.ts'
import { isChangedInteger, type NumberSource } from './value.ts'

const addFormats = ajvFormats.default

export interface Adjusted {
  /** What was changed, in place; empty when nothing was. */
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
  /** Whether some key is required in every item. */
  readonly requires: boolean
  /** Whether an object with these keys so far still lacks one that every item requires. */
  lacks(keys: readonly string[]): boolean
  test(value: unknown): boolean
  /** What is wrong with `value`, in one sentence that begins with its place; undefined when nothing is. */
  check(value: unknown): string | undefined
  /** Changes `value` in place as the schema says: the case of `type`, numbers and booleans given as strings, or the reverse. */
  adjust(value: unknown, numbers: readonly NumberSource[]): Adjusted
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
const maxMends = 64

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
  const { discriminator, branches, required, types } = schemaShape(schema)

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

  function adjust(value: unknown, numbers: readonly NumberSource[]): Adjusted {
    const repairs = new Set<RepairName>()
    if (validate(value)) return { repairs: [], error: undefined }
    if (discriminator && isObject(value) && foldKind(value, discriminator)) repairs.add('discriminator')
    for (let count = 0; count < maxMends; count++) {
      const error = firstError(value)
      if (error === undefined) return { repairs: [...repairs], error: undefined }
      if (!coerce(value, error, numbers)) break
      repairs.add('coerced')
    }
    return { repairs: [...repairs], error: check(value) }
  }

  return {
    discriminator,
    types,
    requires: required.every((way) => way.length > 0),
    lacks: (keys) => required.every((way) => way.some((key) => !keys.includes(key))),
    test: validate,
    check,
    adjust,
  }
}

/** Gives `type` the case of the schema, or the only value that the schema knows. */
function foldKind(value: Record<string, unknown>, { property, values }: Discriminator): boolean {
  const kind = value[property]
  if (kind === undefined && values.length === 1 && values[0] !== undefined) {
    value[property] = values[0]
    return true
  }
  if (typeof kind !== 'string' || values.includes(kind)) return false
  const folded = values.filter((each) => each.toLowerCase() === kind.toLowerCase())
  if (folded.length !== 1) return false
  value[property] = folded[0]
  return true
}

/** Changes the value that `error` is about to the type that it asks for, if nothing is lost. */
function coerce(root: unknown, error: ErrorObject, numbers: readonly NumberSource[]): boolean {
  if (error.keyword !== 'type' || error.instancePath === '') return false
  const path = error.instancePath.slice(1).split('/')
  let holder: unknown = root
  for (const part of path.slice(0, -1)) holder = (holder as Record<string, unknown>)[unescapePart(part)]
  const object = holder as Record<string, unknown>
  const key = unescapePart(path.at(-1) ?? '')
  const types = [error.params['type']].flat() as unknown[]
  const source = numbers.find((number) => number.holder === object && number.key === key)?.source
  const coerced = coerceTo(object[key], types, source)
  if (coerced === undefined) return false
  object[key] = coerced
  return true
}

function unescapePart(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~')
}

function coerceTo(value: unknown, types: readonly unknown[], source: string | undefined): unknown {
  if (typeof value === 'string') {
    if ((types.includes('number') || types.includes('integer')) && isExactNumber(value)) return Number(value)
    if (types.includes('boolean') && /^(?:true|false)$/i.test(value)) return value.toLowerCase() === 'true'
  } else if (types.includes('string')) {
    if (typeof value === 'number') return source ?? String(value)
    if (typeof value === 'boolean') return String(value)
  }
  return undefined
}

function isExactNumber(text: string): boolean {
  if (!/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text)) return false
  const value = Number(text)
  return Number.isFinite(value) && !isChangedInteger(value, text)
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
