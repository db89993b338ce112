// Publishes to one Pulsar topic over one channel: many messages in flight, each settled by the server's answer to it.
// Messages that a lost channel left unanswered are sent again in their order, for as long as a message may wait.
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import type { OutgoingBytes } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import { createQueue } from '../window/queue.ts'
import { partitionsOf } from './admin.ts'
import type { Endpoint } from './endpoint.ts'
import { codeOfRefusal } from './refusal.ts'
import {
  type ChannelClosing,
  type ProducerChannel,
  type PublishAnswer,
  type PulsarTransport,
  reopenDelayMs,
  windowMessages,
} from './transport.ts'

/** At most so many bytes and `windowMessages` are unanswered on the channel; further messages wait, in order. */
const windowBytes = 16 * 1024 * 1024

/** A producer that was idle for this long is closed, so that the topics of clients that left cost nothing. */
const idleMs = 300_000

interface OutgoingEntry {
  readonly message: OutgoingBytes
  /** By `performance.now()`. */
  readonly deadline: number
  resolve(): void
  reject(error: GraphmillError): void
}

export interface PulsarProducerOptions {
  readonly transport: PulsarTransport
  readonly lookup: TopicLookup
  /** Called when the producer is no longer needed: it was idle for long, or its topic is missing or refused. */
  readonly onUseless: () => void
}

export class PulsarProducer {
  readonly #endpoint: Endpoint
  readonly #topic: string
  readonly #abort = new AbortController()
  readonly #transport: PulsarTransport
  readonly #lookup: TopicLookup
  readonly #onUseless: () => void
  #waiting = createQueue<OutgoingEntry>()
  /** Sent and unanswered, by context id, oldest first. */
  #inFlight = new Map<string, OutgoingEntry>()
  #inFlightBytes = 0
  #nextContext = 1
  #channel: ProducerChannel | undefined
  #connecting: Promise<void> | undefined
  #usedAt = performance.now()
  readonly #timer: NodeJS.Timeout

  constructor(endpoint: Endpoint, topic: string, options: PulsarProducerOptions) {
    const { transport, lookup, onUseless } = options
    this.#endpoint = endpoint
    this.#topic = topic
    this.#transport = transport
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

  /** Ends the channel; whatever is unanswered rejects with `broker_unavailable`. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#abort.abort()
    const text = `the broker was closed before ${this.#topic} took the message`
    this.#rejectAll(new GraphmillError('broker_unavailable', text))
    await this.#connecting
    await this.#channel?.close()
  }

  /** Sends as many messages as the bounds allow; opens the channel when there is none. */
  #flush(): void {
    const channel = this.#channel
    if (channel === undefined) {
      const pointless = this.#connecting !== undefined || this.#isEmpty() || this.#abort.signal.aborted
      if (!pointless) this.#connecting = this.#connect()
      return
    }
    while (this.#hasRoom()) {
      const entry = this.#waiting.shift()
      if (entry === undefined) return
      const context = String(this.#nextContext++)
      this.#inFlight.set(context, entry)
      this.#inFlightBytes += entry.message.value.byteLength
      channel.send(entry.message, context)
    }
  }

  #hasRoom(): boolean {
    return (
      this.#inFlight.size === 0 || (this.#inFlight.size < windowMessages && this.#inFlightBytes < windowBytes)
    )
  }

  #isEmpty(): boolean {
    return this.#inFlight.size === 0 && this.#waiting.peek() === undefined
  }

  /**
   * Tries until the channel is open, nothing is left to send, or waiting cannot help. `#connecting` is cleared in the
   * same step, so that a message that is published after that is sent.
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
    await partitionsOf(this.#endpoint, this.#topic) // with automatic creation on, the server would create the topic
    const onAnswer = (answer: PublishAnswer): void => this.#settle(answer)
    const channel = await this.#transport.openProducer({ topic: this.#topic, signal, onAnswer })
    if (signal.aborted) channel.terminate()
    this.#channel = channel
    void channel.closed.then((closing) => this.#lose(closing))
  }

  #settle(answer: PublishAnswer): void {
    const entry = this.#inFlight.get(answer.context)
    if (entry === undefined) return
    // The server's own producer is gone, because the topic was deleted or moved: a new channel shows which.
    if (answer.result !== 'ok' && answer.errorMsg.includes('AlreadyClosed')) {
      this.#channel?.terminate()
      return
    }
    this.#forget(answer.context, entry)
    if (answer.result === 'ok') entry.resolve()
    else entry.reject(refusalOf(this.#topic, answer))
    this.#flush()
  }

  #forget(context: string, entry: OutgoingEntry): void {
    this.#inFlight.delete(context)
    this.#inFlightBytes -= entry.message.value.byteLength
  }

  #lose(closing: ChannelClosing): void {
    this.#channel = undefined
    if (closing.tooLarge) this.#rejectLargest(closing.reason)
    for (const entry of this.#takeAll()) this.#waiting.push(entry)
    this.#flush()
  }

  /** The server does not say which frame was too large; it is at least the largest one. */
  #rejectLargest(reason: string): void {
    const sizeOf = ({ message }: OutgoingEntry): number => message.value.byteLength
    const [largest] = [...this.#inFlight].sort(([, one], [, other]) => sizeOf(other) - sizeOf(one))
    if (largest === undefined) return
    const [context, entry] = largest
    this.#forget(context, entry)
    const text = `Pulsar refused a message of ${sizeOf(entry)} bytes for ${this.#topic}: ${reason}`
    entry.reject(new GraphmillError('message_too_large', text))
  }

  #rejectAll(error: GraphmillError): void {
    for (const entry of this.#takeAll()) entry.reject(error)
  }

  /** Removes all messages, in the order in which they were published. */
  #takeAll(): OutgoingEntry[] {
    const entries = [...this.#inFlight.values()]
    this.#inFlight.clear()
    this.#inFlightBytes = 0
    for (let entry = this.#waiting.shift(); entry !== undefined; entry = this.#waiting.shift())
      entries.push(entry)
    return entries
  }

  /** Once a second: rejects messages that waited too long, and closes an idle producer. */
  #tick(): void {
    const now = performance.now()
    if (this.#isEmpty()) {
      if (now - this.#usedAt >= idleMs) this.#onUseless()
      return
    }
    const isLate = (entry: OutgoingEntry): boolean => entry.deadline <= now
    const timeout = (): GraphmillError =>
      new GraphmillError('broker_unavailable', `Pulsar did not store a message for ${this.#topic} in time`, {
        circuit: `topic:${this.#topic}`,
      })
    for (const [context, entry] of this.#inFlight) {
      if (!isLate(entry)) break
      this.#forget(context, entry)
      entry.reject(timeout())
    }
    for (
      let first = this.#waiting.peek();
      first !== undefined && isLate(first);
      first = this.#waiting.peek()
    ) {
      this.#waiting.shift()
      first.reject(timeout())
    }
    this.#flush()
  }
}

function refusalOf(topic: string, { errorMsg }: PublishAnswer): GraphmillError {
  return new GraphmillError(codeOfRefusal(errorMsg), `Pulsar refused a message for ${topic}: ${errorMsg}`)
}
