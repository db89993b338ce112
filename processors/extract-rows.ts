// Rows: for each row schema of the flow, the rows of its table that a chunk contains. Each schema is a unit of work of its own.
import { GraphmillError } from '../src/errors.ts'
import { rowUnit } from '../src/flow/expected-units.ts'
import { defineUnitExtractor } from '../src/flow/extractor.ts'
import { readRow } from '../src/rows/row.ts'
import type { RowSchema } from '../src/rows/row-schema.ts'

/** The most characters of a chunk that a row's source span quotes. */
const spanText = 100

export const extractRows = defineUnitExtractor({
  name: 'extract-rows',
  prompt: 'extract-rows',
  outputs: ['rows'],
  *requests({ payload: { text, offset } }, { settings }) {
    for (const schema of settings.rowSchemas ?? [])
      yield {
        unit: rowUnit(schema.name),
        terms: { text, schema: schema.term },
        grounding: { names: namesOf(schema) },
        context: {
          schema: schema.name,
          offset: String(offset),
          text: text.slice(0, spanText).replace(/[\ud800-\udbff]$/, ''),
        },
      }
  },
  reader({ context }, { settings }) {
    const schemaName = context['schema'] ?? ''
    const schema = settings.rowSchemas?.find(({ name }) => name === schemaName)
    if (!schema)
      throw new GraphmillError('row_schema_unknown', `There is no row schema ${schemaName} any more.`)
    const sourceSpan = {
      offset: Number(context['offset']),
      length: Number(context['length']),
      text: context['text'] ?? '',
    }
    return {
      fact(item) {
        const read = readRow(item, schema)
        return 'refused' in read ? read : { to: 'rows', fact: read.row }
      },
      payload: (rows) => ({
        schemaName,
        sourceSpan,
        values: rows.map(({ values }) => values),
        typed: rows.map(({ typed }) => typed),
        groundings: rows.flatMap(({ grounding }) => grounding ?? []),
      }),
    }
  },
})

/** Fields whose values must stand in the text. Words of an enumeration, booleans and clock times need not stand there as they are. */
function namesOf({ fields }: RowSchema): string[] {
  return fields
    .filter((field) => field.enum.length === 0 && field.kind !== 'boolean' && field.kind !== 'time')
    .map(({ name }) => name)
}
