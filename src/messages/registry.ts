// The schemas of the messages: the records of schemas/, composed into one envelope schema per payload, and every released version
// from schemas/archive/, by its fingerprint.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { avroType } from './avro-types.ts'
import type { Payloads } from './generated.ts'
import { type ComposedSchema, fingerprintOf } from './wire.ts'

/** A record of schemas/, as in its file. */
export interface RecordSchema {
  readonly type: 'record'
  readonly name: string
  readonly namespace: string
  readonly doc: string
  /** Whether it travels in an envelope of its own. */
  readonly message?: boolean
  readonly fields: readonly {
    readonly name: string
    readonly type: unknown
    readonly doc: string
    readonly default?: unknown
  }[]
}

export type PayloadName = keyof Payloads

/** The folder of the schemas, in the source tree and in dist. */
export const schemasFolder = fileURLToPath(new URL('../../schemas/', import.meta.url))

/** The records of a folder, by name. */
export function readRecords(folder: string = schemasFolder): Map<string, RecordSchema> {
  const records = new Map<string, RecordSchema>()
  for (const file of readdirSync(folder).sort()) {
    if (!file.endsWith('.avsc')) continue
    const record = JSON.parse(readFileSync(`${folder}/${file}`, 'utf8')) as RecordSchema
    records.set(record.name, record)
  }
  return records
}

/** `graphmill.<Payload>Envelope`: the fields of the envelope, then the payload, with every record inlined where it is first named. */
export function composeEnvelope(records: ReadonlyMap<string, RecordSchema>, payload: string): ComposedSchema {
  const envelope = records.get('Envelope')
  const record = records.get(payload)
  if (!envelope || !record) throw new Error(`no schema for ${payload}`)
  const seen = new Set<string>()
  const inline = (schema: unknown): unknown => {
    if (Array.isArray(schema)) return schema.map(inline)
    if (typeof schema === 'string') {
      const named = records.get(schema)
      if (!named) return schema
      if (seen.has(schema)) return `graphmill.${schema}`
      seen.add(schema)
      const { message: _, ...rest } = named
      return { ...rest, fields: named.fields.map((field) => ({ ...field, type: inline(field.type) })) }
    }
    const { items, values } = schema as { items?: unknown; values?: unknown }
    if (items !== undefined) return { ...(schema as object), items: inline(items) }
    if (values !== undefined) return { ...(schema as object), values: inline(values) }
    return schema
  }
  return {
    type: 'record',
    name: `${payload}Envelope`,
    namespace: 'graphmill',
    doc: `An envelope round ${payload}.`,
    fields: [...envelope.fields, { name: 'payload', type: inline(payload), doc: record.doc }],
  }
}

/** The names of the records that travel in envelopes. */
export function messageNames(records: ReadonlyMap<string, RecordSchema>): PayloadName[] {
  return [...records.values()].filter((record) => record.message).map((record) => record.name as PayloadName)
}

/** The schemas that this build writes and reads, and those of the archive that it can still read. */
export interface SchemaSet {
  readonly current: ReadonlyMap<PayloadName, ComposedSchema>
  /** Every known writer's schema by fingerprint (16 hexadecimal digits): the archive and the current ones. */
  readonly byFingerprint: ReadonlyMap<string, ComposedSchema>
}

/** Reads schemas/ and schemas/archive/. */
export function loadSchemas(folder: string = schemasFolder): SchemaSet {
  const records = readRecords(folder)
  const current = new Map(messageNames(records).map((name) => [name, composeEnvelope(records, name)]))
  const byFingerprint = new Map<string, ComposedSchema>()
  for (const file of readdirSync(`${folder}/archive`).sort()) {
    if (!file.endsWith('.avsc')) continue
    const schema = JSON.parse(readFileSync(`${folder}/archive/${file}`, 'utf8')) as ComposedSchema
    byFingerprint.set(fingerprintOf(avroType(schema)), schema)
  }
  for (const schema of current.values()) byFingerprint.set(fingerprintOf(avroType(schema)), schema)
  return { current, byFingerprint }
}
