// Chunking: a part of a document becomes chunks, and an entry on `progress` says how many there are and which units each must pass.
// With provenance, triples describe the document and the place of each chunk in it. A chunk of a document with a version is named by its
// text, and is not sent to the extractors when the version before has it.
import { hash } from 'node:crypto'
import { codePoints } from '../src/code-points.ts'
import { splitText, type TextChunk } from '../src/documents/split.ts'
import { type PartPlan, planPart, planRemoval } from '../src/flow/contents.ts'
import { expectedUnits } from '../src/flow/expected-units.ts'
import type { MessageOf } from '../src/flow/ports.ts'
import { type Context, defineProcessor, type Outputs } from '../src/flow/processor.ts'
import { pageAt } from '../src/pages.ts'
import { chunkProvenance, documentProvenance } from '../src/rdf/provenance.ts'
import { version } from '../src/version.ts'

const component = 'chunk-text'

type Written = Outputs<'chunk' | 'progress' | 'triples' | 'contents'>

export const chunkText = defineProcessor({
  name: component,
  inputs: ['document'],
  outputs: ['chunk', 'progress', 'triples', 'contents'],
  // What a version sends depends on what the parts before it have sent.
  ordering: 'key',
  // One is cut while the chunks of the other are stored: a part may have half a megabyte.
  maxInFlight: 2,
  async *handle(message, context): Written {
    const { documentId, payload } = message
    const { text, part } = payload
    if (payload.removed) return yield* remove(message, payload.removed, context)
    const { chunkSize, chunkOverlap } = context.settings
    const chunks = await splitText(text, { chunkSize, chunkOverlap })
    const units = expectedUnits(context.settings)
    const plan = message.versionTime > 0 ? await plans(message, chunks, context) : 'too_many'
    if (!plan) return context.log.info({ documentId }, 'a part of a superseded version is passed over')
    const known = plan === 'too_many' ? undefined : plan
    if (known) await (yield { to: 'contents', payload: known.contents })
    const keys = known ? { keys: known.keys } : {}
    // Stored before any chunk: readers of progress know the units before the first reply.
    await (yield { to: 'progress', payload: { kind: 'part', part, chunks: chunks.length, units, ...keys } })
    yield* send(message, chunks, { known, context })
  },
})

interface Known extends PartPlan {
  /** In their order. */
  readonly chunkIds: readonly string[]
}

/** By their text: equal texts of a part are told apart by their number. */
async function plans(
  message: MessageOf<'document'>,
  chunks: readonly TextChunk[],
  context: Context,
): Promise<Known | 'too_many' | undefined> {
  const repeats = new Map<string, number>()
  const chunkIds = chunks.map(({ text }) => {
    const id = `${message.documentId}/${hash('sha256', text).slice(0, 16)}`
    const count = (repeats.get(id) ?? 0) + 1
    repeats.set(id, count)
    return count > 1 ? `${id}/${count}` : id
  })
  const plan = await planPart(message, chunkIds, context)
  return plan === undefined || plan === 'too_many' ? plan : { ...plan, chunkIds }
}

/** Sends the chunks, and says where each stands. */
async function* send(
  message: MessageOf<'document'>,
  chunks: readonly TextChunk[],
  { known, context }: { readonly known: Known | undefined; readonly context: Context },
): Written {
  const { documentId, payload } = message
  const { text, part, offset } = payload
  const { chunkSize, chunkOverlap, provenance } = context.settings
  if (provenance === 'subgraph' && part === 0)
    yield { to: 'triples', payload: { triples: documentProvenance({ documentId, ...payload }) } }
  // If the loader did not count code points, only the part that begins at offset 0 has a known place.
  let point = payload.start ?? (offset === 0 ? 0 : null)
  let counted = 0
  for (const [index, chunk] of chunks.entries()) {
    const chunkId = known?.chunkIds[index] ?? `${documentId}/${part}/${index}`
    const start = offset + chunk.offset
    const page = pageAt(payload, start)
    const place = { part, index, offset: start, length: chunk.text.length, page }
    const pages = payload.pages.filter((page) => page > start && page < start + chunk.text.length)
    if (point !== null) point += codePoints(text, counted, chunk.offset)
    counted = chunk.offset
    if (!known || known.toSend.has(chunkId))
      yield { to: 'chunk', chunkId, payload: { ...place, text: chunk.text, start: point, pages } }
    if (provenance !== 'subgraph') continue
    const cutting = { size: chunkSize, overlap: chunkOverlap, component, version, startedAt: message.time }
    const triples = chunkProvenance({ documentId, chunkId, ...place, ...cutting })
    // Where a chunk stands is a statement of this version of the document, also when an earlier version sent the chunk.
    yield { to: 'triples', chunkId: known ? '' : chunkId, payload: { triples } }
  }
}

/** Passes the removal on to the ledger, which withdraws what the document states. */
async function* remove(message: MessageOf<'document'>, reason: string, context: Context): Written {
  const versionTime = await planRemoval(message, context)
  if (versionTime === undefined) return
  context.log.info({ documentId: message.documentId, reason }, 'a document is removed')
  const header = { version: '', versionTime }
  await (yield { to: 'contents', ...header, payload: { cause: message.id } })
  yield { to: 'progress', ...header, payload: { kind: 'removed', reason } }
}
