// Chunking: a part of a document becomes chunks, and an entry on `progress` says how many there are and which units each must pass.
// With provenance, triples describe the document and the place of each chunk in it.

import { codePoints } from '../src/code-points.ts'
import { splitText } from '../src/documents/split.ts'
import { expectedUnits } from '../src/flow/expected-units.ts'
import { defineProcessor } from '../src/flow/processor.ts'
import { pageAt } from '../src/pages.ts'
import { chunkProvenance, documentProvenance } from '../src/rdf/provenance.ts'
import { version } from '../src/version.ts'

const component = 'chunk-text'

export const chunkText = defineProcessor({
  name: component,
  inputs: ['document'],
  outputs: ['chunk', 'progress', 'triples'],
  // One is cut while the chunks of the other are stored: a part may have half a megabyte.
  maxInFlight: 2,
  async *handle(message, context) {
    const { documentId, payload } = message
    const { text, part, offset } = payload
    const { chunkSize, chunkOverlap, provenance } = context.settings
    const chunks = await splitText(text, { chunkSize, chunkOverlap })
    const units = expectedUnits(context.settings)
    // Stored before any chunk: readers of progress know the units before the first reply.
    await (yield { to: 'progress', payload: { kind: 'part', part, chunks: chunks.length, units } })
    if (provenance === 'subgraph' && part === 0)
      yield { to: 'triples', payload: { triples: documentProvenance({ documentId, ...payload }) } }
    // If the loader did not count code points, only the part that begins at offset 0 has a known place.
    let point = payload.start ?? (offset === 0 ? 0 : null)
    let counted = 0
    for (const [index, chunk] of chunks.entries()) {
      const chunkId = `${documentId}/${part}/${index}`
      const start = offset + chunk.offset
      const page = pageAt(payload, start)
      const place = { part, index, offset: start, length: chunk.text.length, page }
      const pages = payload.pages.filter((page) => page > start && page < start + chunk.text.length)
      if (point !== null) point += codePoints(text, counted, chunk.offset)
      counted = chunk.offset
      yield { to: 'chunk', chunkId, payload: { ...place, text: chunk.text, start: point, pages } }
      if (provenance !== 'subgraph') continue
      const cutting = { size: chunkSize, overlap: chunkOverlap, component, version, startedAt: message.time }
      const triples = chunkProvenance({ documentId, chunkId, ...place, ...cutting })
      yield { to: 'triples', chunkId, payload: { triples } }
    }
  },
})
