// A member of a group on Pulsar: one channel for its subscription, opened again whenever it is lost. The group is the
// subscription: Shared, or Key_Shared when the messages of a key must stay together. The server stores every acknowledgement
// by itself and gives the messages of a lost channel to the group again, so that the window has no marks and one buffer for
// all partitions, which lives as long as the channel.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type GraphmillError, toGraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import { type Delivery, defaultMaxHeldBytes, maxMessageBytes, type Subscription } from '../broker.ts'
import type { Member, MemberOptions } from '../window/consume-loop.ts'
import { InFlightWindow } from '../window/in-flight-window.ts'
import type { IncomingMessage } from '../window/partition-buffer.ts'
import { createQueue } from '../window/queue.ts'
import { isMember, partitionsOf } from './admin.ts'
import { type MemberDeaths, noDeaths, noteMember } from './deaths.ts'
import type { Endpoint } from './endpoint.ts'
import { reportExpired } from './expiry.ts'
import type { ReceivedMessage } from './message.ts'
import { Permits } from './permits.ts'
import { type ConsumerChannel, type PulsarTransport, reopenDelayMs } from './transport.ts'

/** How long a leaving member waits until the server has let it go, and how often it asks. */
const leaveTimeoutMs = 3_000
const leavePollMs = 50

/** The one buffer of the window. */
const buffer = 0

export interface PulsarMemberOptions extends MemberOptions {
  readonly transport: PulsarTransport
}

export class PulsarMember implements Member {
  readonly #endpoint: Endpoint
  readonly #subscription: Subscription
  readonly #options: PulsarMemberOptions
  /** By this name the server counts us among the members of the group. */
  readonly #name = randomUUID()
  /** Aborts when no channel is wanted any more. */
  readonly #stop = new AbortController()
  readonly #window: InFlightWindow
  /** Messages that the window has no room for yet. */
  readonly #received = createQueue<IncomingMessage>()
  readonly #running: Promise<void>
  #channel: ConsumerChannel | undefined
  /** Those of the channel. */
  #permits: Permits | undefined
  /** Whether a message came since the last check. */
  #hasHeard = true
  #deaths: MemberDeaths = noDeaths
  #isDraining = false
  #isReporting = false
  readonly #reported: Parameters<typeof reportExpired>[1]['reported'] = new Map()
  #left: Promise<void> | undefined
  failure: GraphmillError | undefined

  constructor(endpoint: Endpoint, subscription: Subscription, options: PulsarMemberOptions) {
    this.#endpoint = endpoint
    this.#subscription = subscription
    this.#options = options
    this.#window = new InFlightWindow(subscription, {
      individualAcks: true,
      changed: () => this.#changed(),
      settled: (settled) => this.#settled(settled),
    })
    this.#running = this.#run()
  }

  get outstanding(): number {
    return this.#window.outstanding
  }

  next(): Delivery | undefined {
    return this.#window.next()
  }

  drain(): void {
    this.#isDraining = true
    this.#window.drain()
  }

  /** Acknowledgements that were sent reach the server; the group gets all other messages again. */
  leave(): Promise<void> {
    this.#left ??= this.#end()
    return this.#left
  }

  async #end(): Promise<void> {
    this.#window.own([])
    this.#stop.abort()
    // Before the channel: a member that is noted and not connected counts as dead.
    await this.#deaths.leave()
    await this.#channel?.close()
    await this.#running
    await this.#released()
  }

  /** Waits until the server has let the member go: what it acknowledged is settled, and the group has the rest again. */
  async #released(): Promise<void> {
    const { closing } = this.#options
    const deadline = performance.now() + leaveTimeoutMs
    while (!closing.aborted && performance.now() < deadline && (await this.#isMember().catch(() => false)))
      await delay(leavePollMs)
  }

  /** Opens the channel again and again. */
  async #run(): Promise<void> {
    const { signal } = this.#stop
    const { topic, group } = this.#subscription
    let failures = 0
    while (!signal.aborted && !this.#isDraining) {
      try {
        const channel = await this.#open()
        failures = 0
        this.#endpoint.availability.connected(channel.closed)
        const closing = await channel.closed
        if (!signal.aborted) this.#note({ topic, group, ...closing }, 'consumer was disconnected', true)
      } catch (thrown) {
        if (signal.aborted) return
        const error = toGraphmillError(thrown)
        if (error.retry !== 'later' && !(await this.#options.lookup.contradicts(error, topic))) {
          if (!this.#isDraining) this.failure = error
          return this.#options.wake()
        }
        const isBroker = error.code === 'broker_unavailable' && this.#endpoint.availability.unavailable(error)
        this.#note({ topic, group, err: error }, 'consumer could not be opened', isBroker)
      }
      failures++
      await pause(reopenDelayMs(failures), signal)
    }
  }

  /** An unavailable broker is reported once for all consumers: what each of them notices is a detail. */
  #note(fields: object, phrase: string, isDetail: boolean): void {
    const { log } = this.#endpoint
    log[isDetail ? 'debug' : 'warn'](fields, phrase)
  }

  /** Opens one channel, and what lives and dies with it. */
  async #open(): Promise<ConsumerChannel> {
    const subscription = this.#subscription
    const channel = await this.#options.transport.openConsumer({
      subscription,
      name: this.#name,
      partitions: await partitionsOf(this.#endpoint, subscription.topic),
      signal: this.#stop.signal,
      onMessage: (received) => this.#receive(received),
    })
    if (this.#stop.signal.aborted) channel.terminate()
    this.#attach(channel)
    this.#deaths = await noteMember(this.#endpoint, this.#subscription, this.#name)
    if (this.#stop.signal.aborted) await this.#deaths.leave()
    void this.#reportExpired()
    this.#grant()
    return channel
  }

  #attach(channel: ConsumerChannel): void {
    const { maxInFlight, maxBytes = defaultMaxHeldBytes } = this.#subscription
    this.#channel = channel
    const ownBytes = Math.max(1, maxBytes - channel.readAhead * maxMessageBytes)
    this.#permits = new Permits(maxInFlight, ownBytes, channel.grant)
    this.#window.own([buffer])
    this.#hasHeard = true
    const check = setInterval(() => {
      void this.#reportExpired()
      if (!this.#hasHeard) void this.#reopenUnlessMember(channel)
      this.#hasHeard = false
    }, this.#endpoint.pingIntervalMs)
    const look = setInterval(() => void this.#reopenUnlessThere(channel), this.#endpoint.topicCheckMs)
    void channel.closed.then(() => {
      clearInterval(check)
      clearInterval(look)
      this.#channel = undefined
      this.#permits = undefined
      this.#received.clear()
      this.#window.own([])
    })
  }

  #receive({ ackId, message }: ReceivedMessage): void {
    this.#hasHeard = true
    const suspect = this.#deaths.suspectOf(message)
    this.#permits?.received(message.value.byteLength)
    this.#received.push({ offset: 0, message, keyed: true, id: ackId, suspect })
    this.#fill()
    this.#grant()
  }

  /** Puts as many of the received messages into the window as there is room for. */
  #fill(): void {
    if (this.#received.peek() !== undefined) this.#window.offer(buffer, this.#takeReceived(), 0)
  }

  /** A message is removed once the next is asked for: the last one may have found no room. */
  *#takeReceived(): Generator<IncomingMessage> {
    for (let next = this.#received.peek(); next !== undefined; next = this.#received.peek()) {
      yield next
      this.#received.shift()
    }
  }

  #settled({ id = '', message }: IncomingMessage): void {
    this.#channel?.ack(id)
    this.#permits?.settled(message.value.byteLength)
    this.#grant()
  }

  #changed(): void {
    this.#fill()
    this.#options.wake()
  }

  #grant(): void {
    if (!this.#isDraining) this.#permits?.grant()
  }

  /** A topic that was deleted leaves the channel open and silent. */
  async #reopenUnlessThere(channel: ConsumerChannel): Promise<void> {
    // The pings notice a server that cannot be asked.
    if (!(await this.#options.lookup.mayExist(this.#subscription.topic))) channel.terminate()
  }

  /** So does a topic that was deleted and created again. */
  async #reopenUnlessMember(channel: ConsumerChannel): Promise<void> {
    const mayStay = await this.#isMember().catch(
      (error: unknown) => toGraphmillError(error).code !== 'topic_missing',
    )
    if (!mayStay) channel.terminate()
  }

  /** One report at a time. What could not be reported is reported the next time. */
  async #reportExpired(): Promise<void> {
    const { topic, group, onLost } = this.#subscription
    if (onLost === undefined || this.#isReporting) return
    this.#isReporting = true
    const reported = this.#reported
    await reportExpired(this.#endpoint, { topic, group, name: this.#name, onLost, reported })
      .catch((err: unknown) =>
        this.#note({ topic, group, err }, 'expired messages could not be reported', true),
      )
      .finally(() => {
        this.#isReporting = false
      })
  }

  #isMember(): Promise<boolean> {
    const { topic, group } = this.#subscription
    return isMember(this.#endpoint, { topic, group, name: this.#name })
  }
}
