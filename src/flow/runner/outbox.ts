// What the handling of one message gives out: each output gets its id, is published and counted, and a message is
// published again for as long as its broker is away. At most a window of outputs is on its way at once.
import { hash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Broker, OutgoingBytes } from '../../broker/broker.ts'
import { toGraphmillError } from '../../errors.ts'
import type { Codec } from '../../messages/codec.ts'
import { type Header, inherit, type TypedPayload } from '../../messages/envelope.ts'
import { redactAll } from '../../redact.ts'
import type { ContextSigner } from '../context-signature.ts'
import { inputTopic, isReply, outputRoute, payloadOf, replyRoute } from '../ports.ts'
import type { Clock, Output } from '../processor.ts'
import type { Circuits } from './circuits.ts'
import { backoff } from './retry.ts'

/** Outputs of one handler on their way at once, at most. */
const windowMessages = 64
const windowBytes = 4 * 1024 * 1024

/** The key of what is of no document: it must not spread over partitions as messages without a key do. */
const noKey = '-'

export interface OutboxOptions {
  readonly broker: Broker
  readonly codec: Codec
  readonly circuits: Circuits
  readonly clock: Clock
  readonly space: string
  readonly signer: ContextSigner
  /** The processor that gives out. */
  readonly source: string
}

export interface Outbox {
  /** Resolves when the broker has stored it. A rejection also aborts the outbox. */
  put(output: Output): Promise<void>
  /** Resolves when there is room for more. */
  room(): Promise<void>
  /** Resolves when all is stored; rejects with the first failure. */
  flush(): Promise<void>
}

/** What the outbox tells its owner, and is told. */
export interface OutboxHooks {
  readonly signal: AbortSignal
  /** Called for every message that could not be published; returns what the outbox fails with. */
  fail(error: unknown, topic: string): unknown
  /** Called for every message that the broker has stored. */
  stored?(output: Output, topic: string): void
}

/** The outbox for what `cause` leads to. */
export function createOutbox(cause: Header, options: OutboxOptions, hooks: OutboxHooks): Outbox {
  const pending = new Set<Promise<void>>()
  const repeats = new Map<string, number>()
  let bytes = 0
  let failure: unknown

  // The second of two equal outputs of one cause is another message: its place among its equals goes into the id.
  function idOf(digest: string): string {
    const before = repeats.get(digest) ?? 0
    repeats.set(digest, before + 1)
    return before === 0 ? digest : hash('sha256', `${digest}#${before}`, 'hex').slice(0, 32)
  }

  function seal(output: Output): OutgoingBytes {
    const place = { space: options.space, workspace: cause.workspace, flow: cause.flow }
    const route = isReply(output.to) ? replyRoute(cause.replyTo, place) : outputRoute(output.to, place)
    const header = inherit(cause, { ...output, source: options.source, time: options.clock.now() })
    // What a server echoed may be what was rejected; what errors say is clean, and all else is content.
    const shown = output.to === 'rejected' ? redactAll(output.payload) : output.payload
    const typed = { type: payloadOf[output.to], payload: shown } as TypedPayload
    const sealing = {
      topic: route.topic,
      key: route.key === 'id' ? undefined : header[route.key] || noKey,
      salt: `${cause.id}\n${options.source}\n${route.topic}\n`,
      id: idOf,
      startsCorrelation: route.key === 'id',
    }
    const message = options.codec.encode(header, typed, sealing)
    const { replyTo } = header
    if (typed.type !== 'PromptRequest' || replyTo !== inputTopic('prompt-reply', place, options.source))
      return message
    // The signature covers the id, which is that of the request without it: no key, and no other key, changes ids.
    const id = message.headers['id']!
    const context = options.signer.sign(typed.payload, { ...header, correlationId: id, replyTo })
    if (context === typed.payload.context) return message
    const payload = { ...typed.payload, context }
    return options.codec.encode(header, { type: typed.type, payload }, { ...sealing, id: () => id })
  }

  async function publish(message: OutgoingBytes, output: Output): Promise<void> {
    try {
      await publishUntilStored(message, options, hooks.signal)
      hooks.stored?.(output, message.topic)
    } catch (thrown) {
      const error = hooks.fail(thrown, message.topic)
      failure ??= error
      throw error
    }
  }

  return {
    put(output) {
      const message = seal(output)
      bytes += message.value.length
      const stored = publish(message, output)
      pending.add(stored)
      const over = () => {
        pending.delete(stored)
        bytes -= message.value.length
      }
      stored.then(over, over) // whoever awaits it, and flush, sees the rejection
      return stored
    },
    async room() {
      while (pending.size >= windowMessages || bytes >= windowBytes) await Promise.race(pending)
      if (failure !== undefined) throw failure
    },
    async flush() {
      await Promise.allSettled(pending)
      if (failure !== undefined) throw failure
    },
  }
}

/** Publishes, and again with full jitter for as long as the failure is of the kind that passes. */
export async function publishUntilStored(
  message: OutgoingBytes,
  { broker, circuits }: Pick<OutboxOptions, 'broker' | 'circuits'>,
  signal: AbortSignal,
): Promise<void> {
  const circuit = `topic:${message.topic}`
  for (let failures = 0; ; failures++) {
    await circuits.enter(circuit, signal)
    signal.throwIfAborted()
    try {
      await broker.publish(message)
      circuits.succeeded(circuit)
      return
    } catch (thrown) {
      const error = toGraphmillError(thrown)
      if (error.retry !== 'later' || error.code === 'aborted') throw error
      circuits.failed(circuit, error)
      await wait(backoff(failures), undefined, { signal })
    }
  }
}
