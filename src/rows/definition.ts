// From what a file says to a table, or to everything that is wrong with it, each with its place.
import { isObject } from '../is-object.ts'
import { suggest } from '../prompt/catalogue/problem.ts'
import type { KeyPath, Report } from '../prompt/catalogue/source.ts'
import { type FieldKind, fieldKinds, kindOfType } from './field-kind.ts'
import type { RowField, RowTable } from './row-schema.ts'

interface TablePlace {
  readonly at: KeyPath
  readonly report: Report
}

const tableKeys = ['name', 'description', 'fields']
const fieldKeys = [
  'name',
  'type',
  'size',
  'primary_key',
  'primary',
  'description',
  'required',
  'enum',
  'enum_values',
  'indexed',
]
const longestName = 100

/**
 * The table, or undefined after at least one report. `name` goes for a table that does not say its own.
 * Keys that are not known are passed over, unless they look like a slip of the pen.
 */
export function readTable(
  name: string | undefined,
  value: unknown,
  { at, report }: TablePlace,
): RowTable | undefined {
  let isSound = true
  const wrong = (path: KeyPath, message: string) => {
    isSound = false
    report([...at, ...path], message)
  }
  if (!isObject(value)) {
    wrong([], 'a row schema is an object with name, description and fields')
    return undefined
  }
  checkKeys(value, tableKeys, (key, message) => wrong([key], message))
  const tableName = readName(value['name'] ?? name, (message) => wrong(['name'], message))
  const description = readText(value['description'], (message) => wrong(['description'], message))
  const listed = value['fields']
  if (!Array.isArray(listed) || listed.length === 0) wrong(['fields'], 'must be a list of at least one field')
  const fields: RowField[] = []
  for (const [index, each] of (Array.isArray(listed) ? listed : []).entries()) {
    const field = readField(each, (path, message) => wrong(['fields', index, ...path], message))
    if (field === undefined) continue
    if (fields.some((other) => other.name === field.name))
      wrong(['fields', index, 'name'], `there is another field "${field.name}"`)
    fields.push(field)
  }
  return isSound ? { name: tableName, description, fields } : undefined
}

type Wrong = (path: KeyPath, message: string) => void

function readField(value: unknown, wrong: Wrong): RowField | undefined {
  if (!isObject(value)) {
    wrong([], 'a field is an object with at least a name')
    return undefined
  }
  checkKeys(value, fieldKeys, (key, message) => wrong([key], message))
  const flag = (...keys: string[]) =>
    keys.some((key) => readFlag(value[key], (message) => wrong([key], message)))
  const type = value['type'] ?? 'string'
  const kind = readKind(type, (message) => wrong(['type'], message))
  const enumKey = value['enum'] === undefined ? 'enum_values' : 'enum'
  return {
    name: readName(value['name'], (message) => wrong(['name'], message)),
    type: typeof type === 'string' ? type : kind,
    kind,
    size: readSize(value['size'], (message) => wrong(['size'], message)),
    primaryKey: flag('primary_key', 'primary'),
    description: readText(value['description'], (message) => wrong(['description'], message)),
    required: flag('required'),
    enum: readEnum(value[enumKey], kind, (path, message) => wrong([enumKey, ...path], message)),
    indexed: flag('indexed'),
  }
}

type Say = (message: string) => void

function checkKeys(
  value: object,
  known: readonly string[],
  say: (key: string, message: string) => void,
): void {
  for (const key of Object.keys(value)) {
    const near = known.includes(key) ? '' : suggest(key, known)
    if (near !== '') say(key, `is not known${near}`)
  }
}

function readName(value: unknown, say: Say): string {
  if (typeof value !== 'string' || value.trim() === '') say('must be a text that is not empty')
  else if (value.length > longestName) say(`must have at most ${longestName} characters`)
  else if (/[\0-\x1f\x7f]/.test(value) || !value.isWellFormed()) say('must not hold control characters')
  else if (value === '__proto__') say('must be another name')
  else return value
  return ''
}

function readText(value: unknown, say: Say): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'string') return value
  say('must be a text')
  return ''
}

function readFlag(value: unknown, say: Say): boolean {
  if (value !== undefined && value !== null && typeof value !== 'boolean') say('must be true or false')
  return value === true
}

function readKind(type: unknown, say: Say): FieldKind {
  const name = typeof type === 'string' ? type.toLowerCase() : ''
  if (Object.hasOwn(kindOfType, name)) return kindOfType[name]!
  const known = Object.keys(kindOfType)
  say(`there is no type ${JSON.stringify(type)}${suggest(name, known) || `; there are ${known.join(', ')}`}`)
  return 'text'
}

function readSize(value: unknown, say: Say): number {
  if (value === undefined || value === null) return 0
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value
  say('must be a whole number from 0 on')
  return 0
}

/** Texts stand for numbers and booleans, as TrustGraph's lists hold texts only. */
function readEnum(value: unknown, kind: FieldKind, wrong: Wrong): (string | number | boolean)[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) {
    wrong([], 'must be a list of values')
    return []
  }
  return value.map((each: unknown, index) => {
    const typed = enumValue(each, fieldKinds[kind].type)
    if (typed === undefined) wrong([index], `${JSON.stringify(each)} is no ${kind}`)
    return typed ?? ''
  })
}

function enumValue(value: unknown, type: string): string | number | boolean | undefined {
  if (type === 'string')
    return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined
  if (type === 'boolean') {
    const text = typeof value === 'string' ? value.toLowerCase() : JSON.stringify(value)
    return text === 'true' || text === 'false' ? text === 'true' : undefined
  }
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  if (typeof number !== 'number' || !Number.isFinite(number)) return undefined
  return type === 'integer' && !Number.isInteger(number) ? undefined : number
}
