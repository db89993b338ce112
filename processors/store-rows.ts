// Rows are appended to the files of their tables. A message is acked when its rows are on the disk.
import { GraphmillError } from '../src/errors.ts'
import { defineSink } from '../src/flow/sink.ts'
import { rowValues } from '../src/rows/row-text.ts'

export const storeRows = defineSink({
  name: 'store-rows',
  input: 'rows',
  async write(batch, signal, { rowStore, scope, settings }) {
    if (!rowStore) throw new GraphmillError('configuration_invalid', 'No folder for rows is named (rows).')
    const rows = batch.flatMap(({ collection, documentId, chunkId, payload }) =>
      rowValues(payload).map((values) => ({
        ...{ collection, documentId, chunkId, values },
        table: payload.schemaName,
      })),
    )
    await rowStore.write(rows, settings.rowSchemas ?? [], scope, signal)
  },
})
