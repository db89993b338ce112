// The outputs of one handler: each gets its id, is published and counted; a message is published again for as long as its broker is
// unavailable. The number and bytes of outputs that are not stored yet are bounded.
import { hash } from 'node:crypto'
import type { OutgoingBytes } from '../../broker/broker.ts'
import { toGraphmillError } from '../../errors.ts'
import { type Header, inherit, type TypedPayload } from '../../messages/envelope.ts'
import { redactAll } from '../../redact.ts'
import { wait } from '../../wait.ts'
import { inputTopic, isReply, outputRoute, payloadOf, replyRoute } from '../ports.ts'
import type { Output } from '../processor.ts'
import type { RunnerResources } from './resources.ts'
import { backoff } from './retry.ts'

/** The most outputs of one handler that are not stored yet. */
const maxPending = 64
const maxPendingBytes = 4 * 1024 * 1024

/** The key of messages without a document: those without any key would spread over the partitions. */
const noKey = '-'

type OutboxResources = Pick<RunnerResources, 'broker' | 'codec' | 'circuits' | 'clock' | 'space' | 'signer'>

export interface Outbox {
  /** Resolves when the broker has stored the output. */
  put(output: Output): Promise<void>
  /** Resolves when there is room for more; undefined when there is some. */
  room(): Promise<void> | undefined
  /** Resolves when all outputs are stored; rejects with the first failure. */
  flush(): Promise<void>
}

export interface OutboxOptions {
  /** The message that the outputs follow from. */
  readonly cause: Header
  /** The processor's name. */
  readonly source: string
  readonly signal: AbortSignal
  /** Called when a message can't be published; returns the error that the outbox fails with. */
  readonly onFailure: (thrown: unknown, topic: string) => unknown
  /** Called when the broker has stored a message. */
  readonly onStored: (output: Output, topic: string) => void
}

export function createOutbox(resources: OutboxResources, options: OutboxOptions): Outbox {
  const { signal, onFailure, onStored } = options
  const seal = createSeal(resources, options)
  /** The number and bytes of the outputs that are not stored. */
  let pending = 0
  let bytes = 0
  let failure: unknown
  /** Called when one of them is stored or has failed. */
  let changed: (() => void) | undefined

  async function publish(message: OutgoingBytes, output: Output): Promise<void> {
    pending++
    bytes += message.value.length
    try {
      await publishUntilStored(message, resources, signal)
      onStored(output, message.topic)
    } catch (thrown) {
      // The reason of an abort is a failure of another message: its topic says nothing about this one's.
      const error = signal.aborted && thrown === signal.reason ? thrown : onFailure(thrown, message.topic)
      failure ??= error
      throw error
    } finally {
      pending--
      bytes -= message.value.length
      changed?.()
    }
  }

  async function until(condition: () => boolean): Promise<void> {
    while (!condition())
      await new Promise<void>((resolve) => {
        changed = resolve
      })
    if (failure !== undefined) throw failure
  }

  const hasRoom = () => pending < maxPending && bytes < maxPendingBytes
  const mayPut = () => hasRoom() || failure !== undefined

  return {
    put(output) {
      const stored = publish(seal(output), output)
      stored.catch(() => {}) // the handler and flush see the rejection
      return stored
    },
    room: () => (hasRoom() && failure === undefined ? undefined : until(mayPut)),
    flush: () => until(() => pending === 0),
  }
}

/** From an output to its message: route, envelope, id and, for requests, the signed context. */
function createSeal(
  { codec, clock, space, signer }: OutboxResources,
  { cause, source }: Pick<OutboxOptions, 'cause' | 'source'>,
): (output: Output) => OutgoingBytes {
  const { workspace, flow } = cause
  const flowTopics = { space, workspace, flow }
  const repeats = new Map<string, number>()

  // Of two equal outputs of one cause the second is another message: its number among its equals goes into the id.
  function idOf(digest: string): string {
    const before = repeats.get(digest) ?? 0
    repeats.set(digest, before + 1)
    return before === 0 ? digest : hash('sha256', `${digest}#${before}`, 'hex').slice(0, 32)
  }

  return (output) => {
    const route = isReply(output.to)
      ? replyRoute(cause.replyTo, flowTopics)
      : outputRoute(output.to, flowTopics)
    const header = inherit(cause, { ...output, source, time: clock.now() })
    // A rejected text may be what a server echoed, with secrets. Errors are redacted already, and all else is content.
    const shown = output.to === 'rejected' ? redactAll(output.payload) : output.payload
    const typed = { type: payloadOf[output.to], payload: shown } as TypedPayload
    const sealing = {
      topic: route.topic,
      key: route.key === 'id' ? undefined : header[route.key] || noKey,
      salt: `${cause.id}\n${source}\n${route.topic}\n`,
      id: idOf,
      startsCorrelation: route.key === 'id',
    }
    const message = codec.encode(header, typed, sealing)
    const { replyTo } = header
    if (typed.type !== 'PromptRequest' || replyTo !== inputTopic('prompt-reply', flowTopics, source))
      return message
    // The signature covers the id of the unsigned request: so no key, and no change of keys, changes ids.
    const id = message.headers['id']!
    const context = signer.sign(typed.payload, { ...header, correlationId: id, replyTo })
    if (context === typed.payload.context) return message
    const payload = { ...typed.payload, context }
    return codec.encode(header, { type: typed.type, payload }, { ...sealing, id: () => id })
  }
}

/** Publishes, and tries again with full jitter for as long as the failure is one that passes. */
export async function publishUntilStored(
  message: OutgoingBytes,
  { broker, circuits }: Pick<RunnerResources, 'broker' | 'circuits'>,
  signal: AbortSignal,
): Promise<void> {
  const circuit = `topic:${message.topic}`
  for (let failures = 0; ; failures++) {
    const closed = circuits.enter(circuit, signal)
    if (closed) await closed
    signal.throwIfAborted()
    try {
      await broker.publish(message)
      circuits.succeeded(circuit)
      return
    } catch (thrown) {
      const error = toGraphmillError(thrown)
      if (error.retry !== 'later' || error.code === 'aborted') throw error
      circuits.failed(circuit, error)
      await wait(backoff(failures), signal)
    }
  }
}
