// A client of the prompt service for programs: publish a request, read the streamed reply. Its private reply topic is made
// when it connects and removed when it closes; a client that goes away harms nobody.
import { randomBytes } from 'node:crypto'
import type { Broker, ReadMessage } from '../broker/broker.ts'
import { topicName, topicSpec } from '../broker/topics.ts'
import { type ErrorCode, errorTable, GraphmillError, toGraphmillError } from '../errors.ts'
import { type Codec, createCodec } from '../messages/codec.ts'
import type { Message } from '../messages/envelope.ts'
import type { PromptResponse } from '../messages/generated.ts'
import { loadSchemas } from '../messages/registry.ts'
import type { SchemaRegistry } from '../messages/schema-registry.ts'
import { type Span, startSpan } from '../observe/trace.ts'
import { unlessAborted } from '../wait.ts'
import { systemClock, uuids } from './clock.ts'
import { outputRoute } from './ports.ts'
import type { Clock, Ids } from './processor.ts'
import { createCircuits } from './runner/circuits.ts'
import { publishUntilStored } from './runner/outbox.ts'
import { createSchemasTopic, type SchemasTopic } from './schemas-topic.ts'

export interface PromptClientOptions {
  readonly broker: Broker
  /** Default: UUIDv7. */
  readonly ids?: Ids
  /** Default: the system's. */
  readonly clock?: Clock
  /** Where the flow writes in the format of a schema registry. */
  readonly registry?: SchemaRegistry
  /** Default `gm`. */
  readonly space?: string
  /** Default `default`. */
  readonly workspace?: string
  /** Default `default`. */
  readonly flow?: string
  /** `prompt-live` (default) has slots of its own; `prompt` waits behind the chunks. */
  readonly lane?: 'prompt-live' | 'prompt'
}

export interface AskPromptOptions {
  /** Parts while the model writes. Default false. */
  readonly streaming?: boolean
  /** After this long the request is given up, here and in the flow. Default 120,000. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
  readonly context?: Readonly<Record<string, string>>
}

interface Waiting {
  readonly parts: PromptResponse[]
  readonly seen: Set<string>
  wake: () => void
  /** Gives up, for the reason that it is aborted with. */
  readonly over: AbortController
}

/**
 * @example
 * const client = await PromptClient.connect({ broker })
 * for await (const part of client.ask('summarise', { text }, { streaming: true })) process.stdout.write(part.text ?? '')
 * await client.close()
 */
export class PromptClient {
  readonly #options: Required<Omit<PromptClientOptions, 'registry'>>
  readonly #codec: Codec
  readonly #replyTo: string
  readonly #waiting = new Map<string, Waiting>()
  readonly #closing = new AbortController()
  /** With the reason why no reply can come any more. */
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
    this.#options = { ...options, space, workspace, flow, lane, clock, ids }
    this.#codec = createCodec(loadSchemas())
    this.#schemas = createSchemasTopic(options.broker, this.#codec, space, options.registry)
    this.#circuits = createCircuits()
    const receiver = `client-${randomBytes(6).toString('hex')}`
    this.#replyTo = topicName({ space, class: 'response', role: 'prompt', receiver, workspace, flow })
  }

  /** Makes the reply topic and begins to read it. The broker stays the caller's to close. */
  static async connect(options: PromptClientOptions): Promise<PromptClient> {
    const client = new PromptClient(options)
    const { broker } = client.#options
    await broker.ensureTopics([topicSpec(client.#replyTo, { partitions: 1 }), topicSpec(client.#requests())])
    await client.#schemas.announce(client.#closing.signal)
    client.#reading = client.#read()
    return client
  }

  /**
   * Publishes a request and yields the parts of its reply, up to the last. Parts of one run have one `run.id`; when it changes,
   * the model was asked anew, and what came before is of an attempt that was cut off.
   * Throws the reply's error, `deadline_exceeded` after the timeout, also while the broker is away, and the signal's reason.
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
    const waiting: Waiting = { parts: [], seen: new Set(), wake: () => {}, over }
    this.#waiting.set(id, waiting)
    over.signal.addEventListener('abort', () => waiting.wake())
    const timer = setTimeout(
      () => over.abort(this.#timeout(timeoutMs, { begun: waiting.seen.size > 0 })),
      timeoutMs,
    )
    const cancel = () => over.abort(options.signal?.reason)
    options.signal?.addEventListener('abort', cancel)
    const span = this.#startSpan(promptId, id)
    let failure: GraphmillError | undefined
    try {
      options.signal?.throwIfAborted()
      this.#ended.signal.throwIfAborted()
      const request = { promptId, terms, streaming, context }
      const sent = this.#send(id, request, { timeoutMs, traceparent: span.traceparent, signal: over.signal })
      await unlessAborted(sent, over.signal)
      for (;;) {
        const part = waiting.parts.shift()
        if (part) {
          if (part.error) throw replyError(part.error)
          yield part
          if (part.endOfStream) return
          continue
        }
        over.signal.throwIfAborted()
        await new Promise<void>((resolve) => (waiting.wake = resolve))
      }
    } catch (thrown) {
      failure = toGraphmillError(thrown)
      throw thrown
    } finally {
      span.end(failure)
      clearTimeout(timer)
      options.signal?.removeEventListener('abort', cancel)
      this.#waiting.delete(id)
    }
  }

  /** Gives up what is still waiting and removes the reply topic. */
  async close(): Promise<void> {
    this.#end(new GraphmillError('aborted', 'The prompt client was closed.'))
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
      source: 'prompt-client',
      time: now,
      workspace,
      flow,
      collection: 'default',
      documentId: '',
      chunkId: '',
      correlationId: id,
      causationId: '',
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
      this.#end(toGraphmillError(thrown))
    }
  }

  async #take(entry: ReadMessage): Promise<void> {
    let message: Message
    try {
      message = await this.#schemas.decode(entry, this.#closing.signal)
    } catch (error) {
      // What can't be read is still known by its header, and must not leave its caller waiting.
      this.#waiting.get(entry.headers['correlationId'] ?? '')?.over.abort(error)
      return
    }
    const waiting = this.#waiting.get(message.correlationId)
    if (!waiting || message.type !== 'PromptResponse') return
    const place = `${message.payload.run.id} ${message.payload.seq}`
    if (waiting.seen.has(place)) return
    waiting.seen.add(place)
    waiting.parts.push(message.payload)
    waiting.wake()
  }

  /** No reply comes any more: what waits is given up, and what is asked from now on. */
  #end(reason: GraphmillError): void {
    this.#ended.abort(reason)
    for (const { over } of this.#waiting.values()) over.abort(reason)
  }
}

function replyError({ type, message }: { readonly type: string; readonly message: string }): GraphmillError {
  return new GraphmillError(Object.hasOwn(errorTable, type) ? (type as ErrorCode) : 'unexpected', message)
}
