// A table: a row schema in TrustGraph's form, with the JSON Schema that is derived from it and compiled once. A row is checked for
// everything that the row schema says: types, required fields, sizes, allowed values, the primary key.
import { compileSchema, type ItemSchema } from '../items/validate.ts'
import { type FieldKind, fieldKinds } from './field-kind.ts'

/** A column. */
export interface RowField {
  readonly name: string
  /** The type in the file, such as `int` or `string`. */
  readonly type: string
  readonly kind: FieldKind
  /** For texts the longest length in characters, for integers the bytes (1 to 8). 0 means no limit. Ignored for other kinds. */
  readonly size: number
  /** Part of the primary key: never null, never a blank text. */
  readonly primaryKey: boolean
  readonly description: string
  /** Never absent, never null. */
  readonly required: boolean
  /** The allowed values, of the field's kind; empty when all are allowed. */
  readonly enum: readonly (string | number | boolean)[]
  readonly indexed: boolean
}

/** A table, as in its file. */
export interface RowTable {
  readonly name: string
  readonly description: string
  readonly fields: readonly RowField[]
}

/** A table to extract, from `loadRowSchemas`. */
export interface RowSchema extends RowTable {
  /** JSON Schema of one row. Unknown fields are allowed. */
  readonly jsonSchema: object
  /** The same, compiled. */
  readonly items: ItemSchema
  /** The value of `schema` in the prompt: TrustGraph's form. */
  readonly term: object
}

/** Derives and compiles the JSON Schema of a table. */
export function rowSchema(table: RowTable): RowSchema {
  const jsonSchema = deriveJsonSchema(table)
  return { ...table, jsonSchema, items: compileSchema(jsonSchema), term: promptTerm(table) }
}

function deriveJsonSchema({ name, description, fields }: RowTable): object {
  return {
    title: name,
    ...(description && { description }),
    type: 'object',
    required: fields.filter(isMandatory).map((field) => field.name),
    properties: Object.fromEntries(fields.map((field) => [field.name, deriveField(field)])),
  }
}

const isMandatory = ({ required, primaryKey }: RowField) => required || primaryKey

function deriveField(field: RowField): object {
  const { kind, size, description, primaryKey } = field
  const { type, rules } = fieldKinds[kind]
  const mandatory = isMandatory(field)
  const allowed: unknown[] = mandatory ? [...field.enum] : [...field.enum, null]
  return {
    ...(description && { description }),
    type: mandatory ? type : [type, 'null'],
    ...rules(size),
    ...(primaryKey && type === 'string' && { minLength: 1, pattern: '\\S' }),
    ...(field.enum.length > 0 && { enum: allowed }),
  }
}

function promptTerm({ name, description, fields }: RowTable): object {
  return {
    name,
    description,
    fields: fields.map((field) => ({
      name: field.name,
      type: field.type,
      size: field.size,
      primary: field.primaryKey,
      description: field.description,
      required: field.required,
      indexed: field.indexed,
      ...(field.enum.length > 0 && { enum_values: field.enum.map(String) }),
    })),
  }
}
