// Asks the text-completion service of a flow, ours or TrustGraph's, for a model that is reached in no other way. Requests are not
// streamed: a reply that came twice could not be told from a longer one.
import { randomBytes } from 'node:crypto'
import type { ReadMessage } from '../broker/broker.ts'
import { topicName, topicSpec } from '../broker/topics.ts'
import { type ErrorCode, errorTable, GraphmillError, toGraphmillError } from '../errors.ts'
import type { AskService, Llm, ServiceReply } from '../llm/llm.ts'
import type { Codec } from '../messages/codec.ts'
import { emptyHeader } from '../messages/envelope.ts'
import type { Error as ErrorPayload, TextCompletionResponse } from '../messages/generated.ts'
import { unlessAborted } from '../wait.ts'
import type { SourceOptions } from './load-document.ts'
import { outputRoute } from './ports.ts'
import type { Scope } from './processor.ts'
import { publishUntilStored } from './runner/outbox.ts'

type TextServicesOptions = Pick<SourceOptions, 'broker' | 'codec' | 'circuits' | 'clock' | 'ids' | 'space'>

export interface TextServices {
  /** The same model, which asks the service of this flow. Each flow has a circuit of its own. */
  modelOf(scope: Scope): Llm
  /** Gives up pending requests and removes the reply topics. */
  close(): Promise<void>
}

interface TextServiceClient {
  readonly ask: AskService
  close(): Promise<void>
}

interface PendingReply extends PromiseWithResolvers<ServiceReply> {
  run: string
  /** The parts of the reply by their `seq`, which may be any number: ours answers a long one in several. */
  texts: Map<number, string>
}

/** The text-completion services of flows, for a model that is reached through them. */
export function createTextServices(llm: Llm, options: TextServicesOptions): TextServices {
  const clients = new Map<string, TextServiceClient>()
  return {
    modelOf(scope) {
      const name = `${scope.workspace}/${scope.flow}`
      const client = clients.get(name) ?? createClient(scope, options)
      clients.set(name, client)
      const service = client.ask
      const circuit = `${llm.circuit} ${name}`
      return { ...llm, circuit, stream: (request, signal) => llm.stream({ ...request, service }, signal) }
    },
    async close() {
      await Promise.all([...clients.values()].map((client) => client.close()))
    },
  }
}

/** Its reply topic is made, and read, when it is first used. */
function createClient(scope: Scope, options: TextServicesOptions): TextServiceClient {
  const { broker, codec, circuits, clock, ids, space } = options
  const requests = outputRoute('text-completion', { space, ...scope }).topic
  const receiver = `prompt-${randomBytes(6).toString('hex')}`
  const replyTo = topicName({ space, class: 'response', role: 'text-completion', receiver, ...scope })
  const pending = new Map<string, PendingReply>()
  const closing = new AbortController()
  let opened: Promise<void> | undefined
  let reading = Promise.resolve()

  async function open(): Promise<void> {
    await broker.ensureTopics([topicSpec(replyTo, { partitions: 1 }), topicSpec(requests)])
    reading = read()
  }

  async function read(): Promise<void> {
    let failure = new GraphmillError(
      'aborted',
      'The replies of the text-completion service are no longer read.',
    )
    try {
      for await (const entry of broker.read(
        { topic: replyTo, from: 'earliest', until: 'never' },
        closing.signal,
      ))
        take(entry)
    } catch (thrown) {
      failure = toGraphmillError(thrown)
    }
    opened = undefined
    for (const { reject } of pending.values()) reject(failure)
  }

  function take({ value, headers, topic, timestamp }: ReadMessage): void {
    let message: ReturnType<Codec['decode']>
    try {
      message = codec.decode(value, headers, { topic, timestamp })
    } catch {
      return // its request ends with its timeout
    }
    const waiting = pending.get(message.correlationId)
    if (waiting && message.type === 'TextCompletionResponse') addPart(waiting, message.payload)
  }

  function encode(
    id: string,
    payload: { readonly system: string; readonly prompt: string },
    deadline: number,
  ) {
    const header = { ...emptyHeader, ...scope, source: 'prompt', time: clock.now(), collection: '' }
    return codec.encode(
      { ...header, correlationId: id, replyTo, deadline },
      { type: 'TextCompletionRequest', payload },
      { topic: requests, key: id, salt: '', id: () => id },
    )
  }

  return {
    async ask({ system, prompt, timeoutMs }, signal) {
      opened ??= open()
      await opened.catch((thrown: unknown) => {
        opened = undefined
        throw thrown
      })
      const id = ids.next()
      const waiting: PendingReply = { ...Promise.withResolvers<ServiceReply>(), run: '', texts: new Map() }
      waiting.promise.catch(() => undefined)
      const timer = setTimeout(() => waiting.reject(silent(requests, timeoutMs)), timeoutMs)
      pending.set(id, waiting)
      try {
        const message = encode(id, { system, prompt }, clock.now() + timeoutMs)
        await publishUntilStored(message, { broker, circuits }, signal)
        return await unlessAborted(waiting.promise, signal)
      } finally {
        clearTimeout(timer)
        pending.delete(id)
      }
    },
    async close() {
      closing.abort()
      if (opened === undefined) return
      await reading
      await broker.deleteTopics([replyTo])
    },
  }
}

function addPart(waiting: PendingReply, { run, seq, ...part }: TextCompletionResponse): void {
  if (part.error) waiting.reject(serviceError(part.error))
  // Another attempt begins from its first part.
  if (run.id !== waiting.run) Object.assign(waiting, { run: run.id, texts: new Map() })
  waiting.texts.set(seq, part.response)
  if (!part.endOfStream) return
  const { promptTokens = null, completionTokens = null, totalTokens = null } = part.usage ?? {}
  const usage = { promptTokens, completionTokens, totalTokens }
  const texts = [...waiting.texts].sort(([one], [other]) => one - other)
  waiting.resolve({ text: texts.map(([, text]) => text).join(''), usage, model: part.model ?? undefined })
}

/** TrustGraph's errors have one type, and the message of the model's client library. */
function serviceError({ type, message }: ErrorPayload): GraphmillError {
  const said = `The text-completion service says: ${message}`
  if (Object.hasOwn(errorTable, type) && type !== 'deadline_exceeded')
    return new GraphmillError(type as ErrorCode, said)
  const isRefused = /\b(?:error code|status(?: code)?):? *(?:400|404|413|422)\b/i.test(message)
  return new GraphmillError(isRefused ? 'llm_request_invalid' : 'llm_unavailable', said)
}

const silent = (topic: string, timeoutMs: number) =>
  new GraphmillError('llm_unavailable', `No reply to a request on ${topic} within ${timeoutMs / 1000} s.`)
