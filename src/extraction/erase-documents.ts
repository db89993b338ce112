// `eraseDocuments` of the library: what `graphmill erase` does.
import { type Erasure, type ErasureOptions, eraseDocuments as erase } from '../flow/erasure.ts'
import type { AnyProcessor } from '../flow/processor.ts'
import { groupsOf } from '../flow/run.ts'
import { type FlowPlace, openFlow } from './load-document.ts'

/** How documents are erased. */
export interface EraseDocumentsOptions
  extends FlowPlace,
    Pick<ErasureOptions, 'by' | 'ignoredGroups' | 'withOthers' | 'dryRun' | 'replies' | 'onWaiting'> {
  /** The processors of the flow: their groups are waited for also when they have never read. Default: none. */
  readonly processors?: readonly AnyProcessor[]
  /** How long to wait for groups that are behind, in milliseconds. Default one hour. */
  readonly timeoutMs?: number
}

/**
 * Removes documents, waits until everything before is settled, and deletes their texts from the topics of the flow. When it was
 * interrupted, or `complete` is false, call it again.
 *
 * Throws `document_unknown` when neither a status nor a message is of a document, `erasure_refused` when settled messages of other
 * documents would be deleted without `withOthers`, and what the broker refuses.
 * @example const { complete } = await eraseDocuments(['page-7'], { broker, by: 'privacy desk', withOthers: true })
 */
export async function eraseDocuments(
  documentIds: readonly string[],
  options: EraseDocumentsOptions,
): Promise<Erasure> {
  const { processors = [], timeoutMs = 3_600_000, signal = new AbortController().signal, ...how } = options
  const { target, known } = await openFlow(options, 'erase', signal)
  const groups = groupsOf(processors, { space: target.space, ...target.scope })
  const documents = documentIds.map((documentId) => ({
    documentId,
    newestTime: known.documents.get(documentId)?.versionTime,
  }))
  return erase(documents, { ...how, ...target, timeoutMs, groups }, signal)
}
