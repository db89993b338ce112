// Writes src/messages/generated.ts from schemas/*.avsc, and puts composed schemas that are new into schemas/archive/.
// `node scripts/schemas.ts --check` writes nothing and fails when something is stale.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { avroType } from '../src/messages/avro-types.ts'
import {
  composeEnvelope,
  messageNames,
  type RecordSchema,
  readRecords,
  schemasFolder,
} from '../src/messages/registry.ts'
import { fingerprintOf } from '../src/messages/wire.ts'

const primitives: Record<string, string> = {
  string: 'string',
  int: 'number',
  long: 'number',
  boolean: 'boolean',
  double: 'number',
  bytes: 'Uint8Array',
}

function typeScript(schema: unknown, suffix: string): string {
  if (typeof schema === 'string')
    return schema === 'null' ? 'null' : (primitives[schema] ?? `${schema}${suffix}`)
  if (Array.isArray(schema))
    return schema
      .map((branch) => typeScript(branch, suffix))
      .reverse()
      .join(' | ')
  const { type, items, values } = schema as { type: string; items?: unknown; values?: unknown }
  if (type === 'array') return `readonly ${typeScript(items, suffix)}[]`
  if (type === 'map') return `{ readonly [key: string]: ${typeScript(values, suffix)} }`
  return typeScript(type, suffix)
}

function interfaces(record: RecordSchema): string {
  const read = record.fields.map(
    (field) => `  /** ${field.doc} */\n  readonly ${field.name}: ${typeScript(field.type, '')}`,
  )
  return (
    `/** ${record.doc} */\nexport interface ${record.name} {\n${read.join('\n')}\n}\n\n` +
    `/** A ${record.name} to be written: fields with a default may be left out. */\n${initOf(record)}\n`
  )
}

/** The type of a record to be written. Fields that hold records hold them as they are written; the others are as they are read. */
function initOf({ name, fields }: RecordSchema): string {
  const names = (list: RecordSchema['fields']) => list.map((field) => `'${field.name}'`).join(' | ')
  const holdsRecords = ({ type }: { type: unknown }) => typeScript(type, '') !== typeScript(type, 'Init')
  const own = fields.filter(holdsRecords)
  const defaulted = fields.filter((field) => !holdsRecords(field) && field.default !== undefined)
  const members = own.map((field) => {
    const [mark, more] = field.default === undefined ? ['', ''] : ['?', ' | undefined']
    return `  readonly ${field.name}${mark}: ${typeScript(field.type, 'Init')}${more}\n`
  })
  const rest = own.length > 0 ? `Omit<${name}, ${names(own)}>` : name
  const base = defaulted.length > 0 ? `Defaulted<${rest}, ${names(defaulted)}>` : rest
  if (own.length === 0) return `export type ${name}Init = ${base}`
  const parent = own.length === fields.length ? '' : ` extends ${base}`
  return `export interface ${name}Init${parent} {\n${members.join('')}}`
}

const defaultedType = `/** A record whose fields \`K\` may be left out. */
type Defaulted<T, K extends keyof T> = Omit<T, K> & { readonly [P in K]?: T[P] | undefined }
`

/** The text of src/messages/generated.ts. */
export function generateTypes(records: ReadonlyMap<string, RecordSchema>): string {
  const names = messageNames(records)
  return [
    '// Generated from schemas/*.avsc by `npm run schemas`. Not for editing.\n',
    defaultedType,
    ...[...records.values()].map(interfaces),
    `/** Every message by name, as it is read. */\nexport interface Payloads {\n${names.map((name) => `  readonly ${name}: ${name}`).join('\n')}\n}\n`,
    `/** Every message by name, as it is written. */\nexport interface PayloadInits {\n${names.map((name) => `  readonly ${name}: ${name}Init`).join('\n')}\n}\n`,
  ].join('\n')
}

/** The archive's files for the current schemas: path and text. */
export function archiveFiles(records: ReadonlyMap<string, RecordSchema>): { path: string; text: string }[] {
  return messageNames(records).map((name) => {
    const schema = composeEnvelope(records, name)
    const path = `${schemasFolder}archive/${name}Envelope.${fingerprintOf(avroType(schema))}.avsc`
    return { path, text: `${JSON.stringify(schema)}\n` }
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const records = readRecords()
  const target = fileURLToPath(new URL('../src/messages/generated.ts', import.meta.url))
  const types = generateTypes(records)
  if (process.argv.includes('--check')) {
    const stale = [
      ...(existsSync(target) && readFileSync(target, 'utf8') === types ? [] : [target]),
      ...archiveFiles(records)
        .filter(({ path }) => !existsSync(path))
        .map(({ path }) => path),
    ]
    for (const path of stale) console.error(`stale: ${path} (run npm run schemas)`)
    process.exitCode = stale.length > 0 ? 1 : 0
  } else {
    writeFileSync(target, types)
    for (const { path, text } of archiveFiles(records)) if (!existsSync(path)) writeFileSync(path, text)
  }
}
