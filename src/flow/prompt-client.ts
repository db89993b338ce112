// A client of the prompt processor for programs: it publishes a request and reads the streamed reply. Its private reply topic is made
// when it connects and removed when it closes. A client that disappears affects no other one.
import { randomBytes } from 'node:crypto'
import type { Broker, ReadMessage } from '../broker/broker.ts'
import { topicName, topicSpec } from '../broker/topics.ts'
import { type ErrorCode, errorTable, GraphmillError, toGraphmillError } from '../errors.ts'
import { type Codec, createCodec } from '../messages/codec.ts'
import { emptyHeader, type Message } from '../messages/envelope.ts'
import type { PromptResponse } from '../messages/generated.ts'
import { loadSchemas } from '../messages/registry.ts'
import type { SchemaRegistry } from '../messages/schema-registry.ts'
import { type Span, startSpan } from '../observe/trace.ts'
import { trustGraphBroker } from '../trustgraph/broker.ts'
import { liveSuffix, type Wire } from '../trustgraph/wire.ts'
import { trustGraphCodec } from '../trustgraph/wire-codec.ts'
import { unlessAborted } from '../wait.ts'
import { systemClock, uuids } from './clock.ts'
import { outputRoute } from './ports.ts'
import type { Clock, Ids } from './processor.ts'
import { createCircuits } from './runner/circuits.ts'
import { publishUntilStored } from './runner/outbox.ts'
import { createSchemasTopic, type SchemasTopic } from './schemas-topic.ts'

/** How a client of the prompt service connects. */
export interface PromptClientOptions {
  readonly broker: Broker
  /** Default: UUIDv7. */
  readonly ids?: Ids
  /** Default: the system's. */
  readonly clock?: Clock
  /** Needed when the flow writes in the format of a schema registry. */
  readonly registry?: SchemaRegistry
  /** Default `gm`. */
  readonly space?: string
  /** Default `default`. */
  readonly workspace?: string
  /** Default `default`. */
  readonly flow?: string
  /** When the flow is on TrustGraph's topics. Either side's prompt processor may answer. */
  readonly wire?: Wire
  /** `prompt-live` (default) has slots of its own; requests of `prompt` wait behind the chunks. */
  readonly lane?: 'prompt-live' | 'prompt'
}

/** How a prompt is asked. */
export interface AskPromptOptions {
  /** Whether parts of the reply come while the model writes. Default false. */
  readonly streaming?: boolean
  /** After this time the request is given up, here and in the flow. In milliseconds; default 120,000. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
  readonly context?: Readonly<Record<string, string>>
}

/** A request whose reply has not ended. */
interface PendingReply {
  readonly replyParts: PromptResponse[]
  readonly seen: Set<string>
  wake: () => void
  /** Gives the request up, with the error that it is aborted with. */
  readonly over: AbortController
}

/**
 * @example
 * const client = await PromptClient.connect({ broker })
 * for await (const part of client.ask('summarise', { text }, { streaming: true })) process.stdout.write(part.text ?? '')
 * await client.close()
 */
export class PromptClient {
  readonly #options: Required<Omit<PromptClientOptions, 'registry' | 'wire'>>
  readonly #codec: Codec
  readonly #replyTo: string
  readonly #pending = new Map<string, PendingReply>()
  readonly #closing = new AbortController()
  /** Aborted, with the reason, when no reply can come any more. */
  readonly #ended = new AbortController()
  readonly #schemas: SchemasTopic
  readonly #circuits
  #reading: Promise<void> = Promise.resolve()

  private constructor(options: PromptClientOptions) {
    const {
      space = 'gm',
      workspace = 'default',
      flow = 'default',
      lane = 'prompt-live',
      clock = systemClock,
      ids = uuids,
    } = options
    const { wire } = options
    const broker = wire ? trustGraphBroker(options.broker, wire) : options.broker
    this.#options = { ...options, broker, space, workspace, flow, lane, clock, ids }
    const codec = createCodec(loadSchemas())
    this.#codec = wire ? trustGraphCodec(codec, wire) : codec
    this.#schemas = createSchemasTopic(broker, this.#codec, space, options.registry)
    this.#circuits = createCircuits()
    const name = `client-${randomBytes(6).toString('hex')}`
    // Each lane has replies of its own there.
    const receiver = wire && lane === 'prompt-live' ? name + liveSuffix : name
    this.#replyTo = topicName({ space, class: 'response', role: 'prompt', receiver, workspace, flow })
  }

  /** Makes the reply topic and begins to read it. The caller closes the broker. */
  static async connect(options: PromptClientOptions): Promise<PromptClient> {
    const client = new PromptClient(options)
    const { broker } = client.#options
    const own = { ...options.wire?.settingsOf(client.#replyTo), partitions: 1 }
    await broker.ensureTopics([topicSpec(client.#replyTo, own), topicSpec(client.#requests())])
    await client.#schemas.announce(client.#closing.signal)
    client.#reading = client.#read()
    return client
  }

  /**
   * Publishes a request and yields the parts of its reply, up to the last. The parts of one run have the same `run.id`. When it
   * changes, the model was asked again, and the earlier parts are of an attempt that was cut off.
   * Throws the reply's error, `deadline_exceeded` after the timeout (also while the broker is unavailable), and the signal's reason.
   */
  async *ask(
    promptId: string,
    terms: Readonly<Record<string, unknown>>,
    options: AskPromptOptions = {},
  ): AsyncGenerator<PromptResponse, void> {
    const texts = Object.fromEntries(
      Object.entries(terms).map(([name, value]) => [name, JSON.stringify(value)]),
    )
    yield* this.askEncoded(promptId, texts, options)
  }

  /** As `ask`, for terms that are JSON text already. */
  async *askEncoded(
    promptId: string,
    terms: Readonly<Record<string, string>>,
    options: AskPromptOptions = {},
  ): AsyncGenerator<PromptResponse, void> {
    const { timeoutMs = 120_000, streaming = false, context = {} } = options
    const id = this.#options.ids.next()
    const over = new AbortController()
    const pending: PendingReply = { replyParts: [], seen: new Set(), wake: () => {}, over }
    this.#pending.set(id, pending)
    const signal = AbortSignal.any([
      over.signal,
      this.#ended.signal,
      ...(options.signal ? [options.signal] : []),
    ])
    const wake = () => pending.wake()
    signal.addEventListener('abort', wake)
    const timer = setTimeout(
      () => over.abort(this.#timeout(timeoutMs, { begun: pending.seen.size > 0 })),
      timeoutMs,
    )
    const span = this.#startSpan(promptId, id)
    let failure: GraphmillError | undefined
    try {
      signal.throwIfAborted()
      const request = { promptId, terms, streaming, context, grounding: null, repeat: false }
      const sent = this.#send(id, request, { timeoutMs, traceparent: span.traceparent, signal })
      await unlessAborted(sent, signal)
      for (;;) {
        const replyPart = pending.replyParts.shift()
        if (replyPart) {
          if (replyPart.error) throw replyError(replyPart.error)
          yield replyPart
          if (replyPart.endOfStream) return
          continue
        }
        signal.throwIfAborted()
        await new Promise<void>((resolve) => (pending.wake = resolve))
      }
    } catch (thrown) {
      failure = toGraphmillError(thrown)
      throw thrown
    } finally {
      span.end(failure)
      clearTimeout(timer)
      signal.removeEventListener('abort', wake) // else the client's own signals keep every request
      this.#pending.delete(id)
    }
  }

  /** Gives up pending requests and removes the reply topic. */
  async close(): Promise<void> {
    this.#ended.abort(new GraphmillError('aborted', 'The prompt client was closed.'))
    this.#closing.abort()
    await this.#reading
    await this.#options.broker.deleteTopics([this.#replyTo])
  }

  #timeout(timeoutMs: number, { begun }: { readonly begun: boolean }): GraphmillError {
    const { workspace, flow } = this.#options
    return new GraphmillError(
      'deadline_exceeded',
      begun
        ? `The reply did not end within ${timeoutMs / 1000} s: the model is slower than that.`
        : `No reply within ${timeoutMs / 1000} s: no prompt processor runs for the flow ${workspace}/${flow}, or its model is slower than that.`,
    )
  }

  #requests(): string {
    return outputRoute(this.#options.lane, this.#options).topic
  }

  #startSpan(promptId: string, id: string): Span {
    const { workspace, flow } = this.#options
    const attributes = () => ({
      'messaging.operation.type': 'send',
      'messaging.destination.name': this.#requests(),
      'messaging.message.id': id,
      'graphmill.workspace': workspace,
      'graphmill.flow': flow,
      'graphmill.prompt.id': promptId,
    })
    return startSpan('prompt-client ask', { kind: 'client', attributes })
  }

  async #send(
    id: string,
    payload: Message<'PromptRequest'>['payload'],
    how: { readonly timeoutMs: number; readonly traceparent: string; readonly signal: AbortSignal },
  ): Promise<void> {
    const { timeoutMs, traceparent, signal } = how
    const { broker, clock, workspace, flow } = this.#options
    const now = clock.now()
    const header = {
      ...emptyHeader,
      source: 'prompt-client',
      time: now,
      workspace,
      flow,
      collection: 'default',
      correlationId: id,
      replyTo: this.#replyTo,
      deadline: now + timeoutMs,
      traceparent,
    }
    const sealing = { topic: this.#requests(), key: id, salt: '', id: () => id }
    const message = this.#codec.encode(header, { type: 'PromptRequest', payload }, sealing)
    await publishUntilStored(message, { broker, circuits: this.#circuits }, signal)
  }

  async #read(): Promise<void> {
    const range = { topic: this.#replyTo, from: 'earliest', until: 'never' } as const
    try {
      for await (const entry of this.#options.broker.read(range, this.#closing.signal))
        await this.#take(entry)
    } catch (thrown) {
      this.#ended.abort(toGraphmillError(thrown))
    }
  }

  async #take(entry: ReadMessage): Promise<void> {
    let message: Message
    try {
      message = await this.#schemas.decode(entry, this.#closing.signal)
    } catch (error) {
      // The header still names the request of a reply that can't be decoded, and its caller must not wait for ever.
      this.#pending.get(entry.headers['correlationId'] ?? '')?.over.abort(error)
      return
    }
    const pending = this.#pending.get(message.correlationId)
    if (!pending || message.type !== 'PromptResponse') return
    const key = `${message.payload.run.id} ${message.payload.seq}`
    if (pending.seen.has(key)) return
    pending.seen.add(key)
    pending.replyParts.push(message.payload)
    pending.wake()
  }
}

function replyError({ type, message }: { readonly type: string; readonly message: string }): GraphmillError {
  return new GraphmillError(Object.hasOwn(errorTable, type) ? (type as ErrorCode) : 'unexpected', message)
}
