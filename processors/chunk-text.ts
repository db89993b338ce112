// Chunking: a part of a document becomes chunks, and an entry on `progress` says how many there are and which units each must pass.
// With provenance, triples describe the document and the place of each chunk in it. A chunk of a document with a version is named by its
// text, and is not sent to the extractors when the version before has it.
import { hash } from 'node:crypto'
import { codePoints } from '../src/code-points.ts'
import { splitText, type TextChunk } from '../src/documents/split.ts'
import {
  addContents,
  noContents,
  overwrittenContents,
  type PartPlan,
  planLoss,
  planPart,
  planRemoval,
  timeOfUnversioned,
} from '../src/flow/contents.ts'
import { expectedUnits } from '../src/flow/expected-units.ts'
import type { MessageOf } from '../src/flow/ports.ts'
import { type Context, defineProcessor, type Outputs } from '../src/flow/processor.ts'
import type { Contents } from '../src/messages/generated.ts'
import { pageAt } from '../src/pages.ts'
import { chunkProvenance, documentProvenance } from '../src/rdf/provenance.ts'
import { version } from '../src/version.ts'

const component = 'chunk-text'

type Written = Outputs<'chunk' | 'progress' | 'triples' | 'contents'>

export const chunkText = defineProcessor({
  name: component,
  inputs: ['document'],
  outputs: ['chunk', 'progress', 'triples', 'contents'],
  reads: ['contents'],
  // What a version sends depends on what the parts before it have sent.
  ordering: 'key',
  // Of long parts, which have half a megabyte, one is cut while the chunks of the other are stored.
  maxBytes: 1.25 * 1024 * 1024,
  async *handle(given, context): Written {
    const { removed } = given.payload
    if (removed) return yield* remove(given, removed, context)
    const versionTime = given.versionTime || (await timeOfUnversioned(given, context))
    if (versionTime === undefined) return yield* passOver(given, context)
    const message = { ...given, versionTime }
    const { documentId, payload } = message
    const { text, part } = payload
    const { chunkSize, chunkOverlap } = context.settings
    const chunks = await splitText(text, { chunkSize, chunkOverlap })
    const units = expectedUnits(context.settings)
    const chunkIds = idsByText(documentId, chunks)
    const plan = versionTime > 0 ? await planPart(message, chunkIds, context) : unknown
    if (!plan) return yield* passOver(message, context)
    yield* storeAgain(context)
    if (plan !== unknown) yield* store(message, plan.contents, context)
    const { toSend, keys } = plan
    if (!toSend && versionTime > 0)
      context.log.warn({ documentId, part }, 'a document with very many chunks is extracted again completely')
    const entry = { kind: 'part', part, chunks: chunks.length, units, keys }
    // Stored before any chunk: readers of progress know the units before the first reply.
    await (yield { to: 'progress', versionTime, payload: entry })
    yield* send(message, chunks, { known: toSend && { chunkIds, toSend }, context })
  },

  async *onDead(message, _error, context) {
    if (message.versionTime === 0 || message.payload.removed) return
    const contents = await planLoss(message, context)
    if (contents) yield* store(message, contents, context)
  },
})

/** Of a part of a document without a version. */
const unknown: PartPlan = { toSend: undefined, keys: Buffer.of(), contents: noContents }

/** A part of an older version, or of a document that was removed since. */
async function* passOver(
  { documentId, version, versionTime, payload: { part } }: MessageOf<'document'>,
  { log }: Context,
): Outputs<'progress'> {
  log.warn({ documentId, version, versionTime, part }, 'a part of an older version is passed over')
  yield { to: 'progress', payload: { kind: 'late', part } }
}

async function* store(
  { documentId, collection, version, versionTime }: MessageOf<'document'>,
  payload: Contents,
  { scope }: Context,
): Outputs<'contents'> {
  const header = { documentId, collection, version, versionTime }
  await (yield { to: 'contents', ...header, payload })
  addContents(scope, { ...header, payload })
}

async function* storeAgain({ scope }: Context): Outputs<'contents'> {
  for (const contents of overwrittenContents(scope)) await (yield { to: 'contents', ...contents })
}

/** By their text: equal texts of a part are told apart by their number. */
function idsByText(documentId: string, chunks: readonly TextChunk[]): string[] {
  const repeats = new Map<string, number>()
  return chunks.map(({ text }) => {
    const id = `${documentId}/${hash('sha256', text).slice(0, 16)}`
    const count = (repeats.get(id) ?? 0) + 1
    repeats.set(id, count)
    return count > 1 ? `${id}/${count}` : id
  })
}

/** The chunks that are known by their text, and which of them are sent. */
interface Known {
  /** In their order. */
  readonly chunkIds: readonly string[]
  readonly toSend: ReadonlySet<string>
}

/** Sends the chunks, and says where each stands. */
async function* send(
  message: MessageOf<'document'>,
  chunks: readonly TextChunk[],
  { known, context }: { readonly known: Known | undefined; readonly context: Context },
): Written {
  const { documentId, versionTime, payload } = message
  const { text, part, offset } = payload
  const { chunkSize, chunkOverlap, provenance } = context.settings
  if (provenance === 'subgraph' && part === 0)
    yield { to: 'triples', versionTime, payload: { triples: documentProvenance({ documentId, ...payload }) } }
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
      yield {
        to: 'chunk',
        chunkId,
        versionTime,
        payload: { ...place, text: chunk.text, start: point, pages },
      }
    if (provenance !== 'subgraph') continue
    const cutting = { size: chunkSize, overlap: chunkOverlap, component, version, startedAt: message.time }
    const triples = chunkProvenance({ documentId, chunkId, ...place, start: point, versionTime, ...cutting })
    // Where a chunk stands is a statement of this version of the document, also when an earlier version sent the chunk.
    yield { to: 'triples', chunkId: known ? '' : chunkId, versionTime, payload: { triples } }
  }
}

/** Passes the removal on to the ledger, which withdraws what the document states. */
async function* remove(message: MessageOf<'document'>, reason: string, context: Context): Written {
  const plan = await planRemoval(message, context)
  yield* storeAgain(context)
  if (!plan) return yield { to: 'progress', payload: { kind: 'late' } }
  context.log.info({ documentId: message.documentId, reason }, 'a document is removed')
  const header = { version: '', versionTime: plan.versionTime }
  yield* store({ ...message, ...header }, plan.contents, context)
  yield { to: 'progress', ...header, payload: { kind: 'removed', reason } }
}
