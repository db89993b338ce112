// Publishes to one Pulsar topic over one socket: many messages in flight, each settled by the server's answer to it.
// What a lost socket left unanswered is sent again in the old order, for as long as a message may wait.
import { type ErrorCode, GraphmillError, toGraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import type { OutgoingBytes } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import { partitionsOf, topicPath } from './admin.ts'
import type { Endpoint } from './endpoint.ts'
import { type Closing, openSocket, type PulsarSocket, reopenDelayMs } from './socket.ts'

/** What may be unanswered on the socket; further messages wait here, in order. */
const windowMessages = 2_000
const windowBytes = 16 * 1024 * 1024

/** A producer that had nothing to do for this long is closed, so that topics of long gone clients cost nothing. */
const idleMs = 300_000

/** The close code of a server that found a frame too large. */
const frameTooLarge = 1009

interface Entry {
  readonly message: OutgoingBytes
  /** By `performance.now()`. */
  readonly deadline: number
  resolve(): void
  reject(error: GraphmillError): void
}

export interface PulsarProducerOptions {
  readonly lookup: TopicLookup
  /** Called when the producer is no longer of use: it was idle for long, or its topic is missing or refused. */
  readonly onUseless: () => void
}

export class PulsarProducer {
  readonly #endpoint: Endpoint
  readonly #topic: string
  readonly #abort = new AbortController()
  readonly #lookup: TopicLookup
  readonly #onUseless: () => void
  #waiting: Entry[] = []
  /** Everything before this index of `#waiting` has left it. */
  #head = 0
  /** Sent and unanswered, by context id, oldest first. */
  #inFlight = new Map<string, Entry>()
  #inFlightBytes = 0
  #nextContext = 1
  #socket: PulsarSocket | undefined
  #connecting: Promise<void> | undefined
  #usedAt = performance.now()
  readonly #timer: NodeJS.Timeout

  constructor(endpoint: Endpoint, topic: string, { lookup, onUseless }: PulsarProducerOptions) {
    this.#endpoint = endpoint
    this.#topic = topic
    this.#lookup = lookup
    this.#onUseless = onUseless
    this.#timer = setInterval(() => this.#tick(), 1_000)
    this.#timer.unref()
  }

  publish(message: OutgoingBytes): Promise<void> {
    this.#usedAt = performance.now()
    return new Promise((resolve, reject) => {
      this.#waiting.push({
        message,
        deadline: this.#usedAt + this.#endpoint.publishTimeoutMs,
        resolve,
        reject,
      })
      this.#flush()
    })
  }

  /** Ends the socket; whatever is unanswered rejects with `broker_unavailable`. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#abort.abort()
    this.#rejectAll(
      new GraphmillError(
        'broker_unavailable',
        `the broker was closed before ${this.#topic} took the message`,
      ),
    )
    await this.#connecting
    await this.#socket?.close()
  }

  /** Sends what fits into the window; opens the socket when there is none. */
  #flush(): void {
    const socket = this.#socket
    if (socket === undefined) {
      const pointless = this.#connecting !== undefined || this.#isEmpty() || this.#abort.signal.aborted
      if (!pointless) this.#connecting = this.#connect()
      return
    }
    while (this.#head < this.#waiting.length && this.#hasRoom()) {
      const entry = this.#waiting[this.#head++] as Entry
      const context = String(this.#nextContext++)
      this.#inFlight.set(context, entry)
      this.#inFlightBytes += entry.message.value.byteLength
      socket.send(frameOf(entry.message, context))
    }
    if (this.#head === this.#waiting.length || this.#head > 10_000) {
      this.#waiting.splice(0, this.#head)
      this.#head = 0
    }
  }

  #hasRoom(): boolean {
    return (
      this.#inFlight.size === 0 || (this.#inFlight.size < windowMessages && this.#inFlightBytes < windowBytes)
    )
  }

  #isEmpty(): boolean {
    return this.#inFlight.size === 0 && this.#head === this.#waiting.length
  }

  /**
   * Tries until the socket is open, nothing is left to send, or waiting cannot help.
   * `#connecting` is cleared in the same step, so that whoever publishes after that is not overlooked.
   */
  async #connect(): Promise<void> {
    const { signal } = this.#abort
    for (let attempt = 1; !signal.aborted && !this.#isEmpty(); attempt++) {
      try {
        await this.#open(signal)
        break
      } catch (thrown) {
        const error = toGraphmillError(thrown)
        if (error.retry !== 'later' && !(await this.#lookup.contradicts(error, this.#topic))) {
          this.#rejectAll(error)
          if (error.code === 'topic_missing' || error.code === 'topic_refused') this.#onUseless()
          break
        }
        this.#endpoint.log.warn({ topic: this.#topic, attempt, err: error }, 'producer could not be opened')
        await pause(reopenDelayMs(attempt), signal)
      }
    }
    this.#connecting = undefined
    this.#flush()
  }

  async #open(signal: AbortSignal): Promise<void> {
    await partitionsOf(this.#endpoint, this.#topic) // a server with automatic creation on would make the topic
    const path = `/producer${topicPath(this.#endpoint, this.#topic)}`
    const onMessage = (answer: unknown): void => this.#settle(answer as Answer)
    const socket = await openSocket(this.#endpoint, { path, signal, onMessage })
    if (signal.aborted) socket.terminate()
    this.#socket = socket
    void socket.closed.then((closing) => this.#lose(closing))
  }

  #settle(answer: Answer): void {
    const entry = this.#inFlight.get(answer.context)
    if (entry === undefined) return
    // the server's own producer is gone (its topic was deleted or moved): a new socket tells which
    if (answer.result !== 'ok' && answer.errorMsg.includes('AlreadyClosed')) {
      this.#socket?.terminate()
      return
    }
    this.#forget(answer.context, entry)
    if (answer.result === 'ok') entry.resolve()
    else entry.reject(refusalOf(this.#topic, answer))
    this.#flush()
  }

  #forget(context: string, entry: Entry): void {
    this.#inFlight.delete(context)
    this.#inFlightBytes -= entry.message.value.byteLength
  }

  #lose(closing: Closing): void {
    this.#socket = undefined
    if (closing.code === frameTooLarge) this.#rejectLargest(closing.reason)
    this.#waiting = [...this.#inFlight.values(), ...this.#waiting.slice(this.#head)]
    this.#head = 0
    this.#inFlight.clear()
    this.#inFlightBytes = 0
    this.#flush()
  }

  /** The server does not say which frame was too large, but no other can be if the largest was not. */
  #rejectLargest(reason: string): void {
    let largest: [string, Entry] | undefined
    for (const sent of this.#inFlight) {
      if (largest === undefined || sent[1].message.value.byteLength > largest[1].message.value.byteLength)
        largest = sent
    }
    if (largest === undefined) return
    this.#forget(...largest)
    const size = largest[1].message.value.byteLength
    largest[1].reject(
      new GraphmillError(
        'message_too_large',
        `Pulsar refused a message of ${size} bytes for ${this.#topic}: ${reason}`,
      ),
    )
  }

  #rejectAll(error: GraphmillError): void {
    const entries = [...this.#inFlight.values(), ...this.#waiting.slice(this.#head)]
    this.#inFlight.clear()
    this.#inFlightBytes = 0
    this.#waiting = []
    this.#head = 0
    for (const entry of entries) entry.reject(error)
  }

  /** Once a second: rejects what has waited too long, and closes what is of no use. */
  #tick(): void {
    const now = performance.now()
    if (this.#isEmpty()) {
      if (now - this.#usedAt < idleMs) return
      this.#onUseless()
      return
    }
    const late = (entry: Entry): boolean => entry.deadline <= now
    const timeout = (): GraphmillError =>
      new GraphmillError('broker_unavailable', `Pulsar did not store a message for ${this.#topic} in time`, {
        circuit: `topic:${this.#topic}`,
      })
    for (const [context, entry] of this.#inFlight) {
      if (!late(entry)) break
      this.#forget(context, entry)
      entry.reject(timeout())
    }
    while (this.#head < this.#waiting.length && late(this.#waiting[this.#head] as Entry)) {
      ;(this.#waiting[this.#head++] as Entry).reject(timeout())
    }
    this.#flush()
  }
}

/** What the server says of one message. */
interface Answer {
  readonly result: string
  readonly context: string
  /** A Java exception, where `result` is not `ok`. */
  readonly errorMsg: string
}

/** Base64 needs no escapes, so the payload, which is nearly all of it, is not scanned for any. */
function frameOf({ key, value, headers }: OutgoingBytes, context: string): string {
  const payload = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')
  return `{"payload":"${payload}","key":${JSON.stringify(key)},"properties":${JSON.stringify(headers)},"context":"${context}"}`
}

const refusals: readonly (readonly [RegExp, ErrorCode])[] = [
  [/exceed.*(size|bytes)/i, 'message_too_large'],
  [/NotFound|DoesNotExist/, 'topic_missing'],
  [/Authoriz|Terminated|NotAllowed/, 'topic_refused'],
  [/Authentic/, 'broker_refused'],
  [/Timeout|NotConnected|QueueIsFull|Quota|TooMany|Connect|Lookup|MemoryBuffer/, 'broker_unavailable'],
]

function refusalOf(topic: string, { errorMsg }: Answer): GraphmillError {
  const code = refusals.find(([pattern]) => pattern.test(errorMsg))?.[1] ?? 'unexpected'
  return new GraphmillError(code, `Pulsar refused a message for ${topic}: ${errorMsg}`)
}
