// A source: where documents enter a flow. Each part is a message, and `progress` is told how many there are.
import type { Broker } from '../broker/broker.ts'
import { pagesWithin } from '../documents/pages.ts'
import { cutParts } from '../documents/parts.ts'
import { documentId, documentPlaceId, type TextSource } from '../documents/read.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import type { Codec } from '../messages/codec.ts'
import type { TypedPayload } from '../messages/envelope.ts'
import { startSpan } from '../observe/trace.ts'
import { outputRoute } from './ports.ts'
import type { Clock, Ids, Scope } from './processor.ts'
import type { Circuits } from './runner/circuits.ts'
import { publishUntilStored } from './runner/outbox.ts'

export interface SourceOptions {
  readonly broker: Broker
  readonly codec: Codec
  readonly circuits: Circuits
  readonly clock: Clock
  readonly ids: Ids
  readonly space: string
  readonly scope: Scope
  readonly collection: string
  /** The program's name for the envelopes. */
  readonly source: string
}

export interface LoadedDocument {
  readonly documentId: string
  readonly parts: number
}

/** How long the word that a document was not loaded may take where the rest was stopped, in milliseconds. */
const lastWordMs = 5000

/**
 * Publishes a document part by part, its title first. One that can't be read, or holds no text, is said on `progress` and thrown:
 * the `document_` errors. So is whatever else keeps it from being published whole, such as the reason of the signal.
 */
export async function loadDocument(
  text: TextSource,
  options: SourceOptions,
  signal: AbortSignal,
): Promise<LoadedDocument> {
  const { codec, scope, space, ids, clock } = options
  let id = documentPlaceId(text)
  let parts = 0
  const span = startSpan(`${options.source} document`, {
    kind: 'producer',
    attributes: () => ({
      'messaging.operation.type': 'send',
      'messaging.destination.name': outputRoute('document', { space, ...scope }).topic,
      'graphmill.workspace': scope.workspace,
      'graphmill.flow': scope.flow,
      'graphmill.document.title': text.title,
    }),
  })

  function publish(port: 'document' | 'progress', typed: TypedPayload, until = signal): Promise<void> {
    const route = outputRoute(port, { space, ...scope })
    const messageId = ids.next()
    const header = {
      source: options.source,
      time: clock.now(),
      ...scope,
      collection: options.collection,
      documentId: id,
      chunkId: '',
      correlationId: messageId,
      causationId: '',
      replyTo: null,
      deadline: null,
      traceparent: span.traceparent,
    }
    const message = codec.encode(header, typed, {
      topic: route.topic,
      key: id,
      salt: '',
      id: () => messageId,
    })
    return publishUntilStored(message, options, until)
  }

  try {
    const ready = (await text.prepare?.(signal)) ?? text
    id = await documentId(ready)
    await publish('progress', { type: 'Progress', payload: { kind: 'loading', title: text.title } })
    let blank = true
    for await (const part of cutParts(ready.text())) {
      if (part.text.trim() !== '') blank = false
      const { title, uri, mediaType, pages = [] } = ready
      const payload = { title, uri, mediaType, ...part, ...pagesWithin(pages, part) }
      await publish('document', { type: 'TextDocument', payload })
      parts++
    }
    if (blank) throw new GraphmillError('document_empty', `${text.title}: it holds no text.`)
    await publish('progress', { type: 'Progress', payload: { kind: 'document', parts, title: text.title } })
    span.end()
    return { documentId: id, parts }
  } catch (thrown) {
    const error = toGraphmillError(thrown)
    span.end(error)
    const isOfDocument = error.code.startsWith('document_')
    const message = isOfDocument ? error.message : `Loading it ended after ${parts} parts: ${error.message}`
    const payload = { kind: 'failed', title: text.title, error: { type: error.code, message } }
    const saying = publish(
      'progress',
      { type: 'Progress', payload },
      isOfDocument && !signal.aborted ? signal : AbortSignal.timeout(lastWordMs),
    )
    // What can't be said either is thrown all the same.
    await (isOfDocument ? saying : saying.catch(() => undefined))
    throw error
  }
}
