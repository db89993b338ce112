// The kinds of values of a column, their names in row schemas, and their JSON Schema.

export type FieldKind = 'text' | 'integer' | 'number' | 'boolean' | 'timestamp' | 'date' | 'time' | 'uuid'

interface KindRules {
  /** The type in JSON. */
  readonly type: 'string' | 'integer' | 'number' | 'boolean'
  /** Further keywords of JSON Schema, for a field of this size. */
  readonly rules: (size: number) => object
}

const format = (name: string) => () => ({ format: name })

/** The JSON form of each kind. Dates and times are ISO 8601 texts; a timestamp may lack time and zone. */
export const fieldKinds: { readonly [K in FieldKind]: KindRules } = {
  text: { type: 'string', rules: (size) => (size > 0 ? { maxLength: size } : {}) },
  integer: { type: 'integer', rules: byteRange },
  number: { type: 'number', rules: () => ({}) },
  boolean: { type: 'boolean', rules: () => ({}) },
  timestamp: {
    type: 'string',
    rules: () => ({ anyOf: [{ format: 'iso-date-time' }, { format: 'date' }, { type: 'null' }] }),
  },
  date: { type: 'string', rules: format('date') },
  time: { type: 'string', rules: format('iso-time') },
  uuid: { type: 'string', rules: format('uuid') },
}

/** Two's complement of 1 to 8 bytes. */
function byteRange(size: number): object {
  if (size < 1 || size > 8) return {}
  const limit = 2 ** (8 * size - 1)
  return { minimum: -limit, maximum: limit - 1 }
}

/** The names of types in row schemas, in lower case. */
export const kindOfType: Readonly<Record<string, FieldKind>> = {
  string: 'text',
  str: 'text',
  text: 'text',
  varchar: 'text',
  char: 'text',
  integer: 'integer',
  int: 'integer',
  long: 'integer',
  short: 'integer',
  bigint: 'integer',
  smallint: 'integer',
  float: 'number',
  double: 'number',
  number: 'number',
  decimal: 'number',
  real: 'number',
  boolean: 'boolean',
  bool: 'boolean',
  timestamp: 'timestamp',
  datetime: 'timestamp',
  'date-time': 'timestamp',
  date: 'date',
  time: 'time',
  uuid: 'uuid',
}
