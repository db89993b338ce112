// A member of a group on Pulsar: one subscription socket in pull mode, opened again whenever it is lost. The group is the
// subscription: Shared, or Key_Shared when the messages of a key must stay together. The server stores every acknowledgement
// by itself and gives the messages of a lost socket to the group again, so that the window has no marks and one buffer for
// all partitions, which lives as long as the socket.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type GraphmillError, toGraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import { type Delivery, defaultMaxHeldBytes, type Subscription } from '../broker.ts'
import type { Member, MemberOptions } from '../window/consume-loop.ts'
import { InFlightWindow } from '../window/in-flight-window.ts'
import type { IncomingMessage } from '../window/partition-buffer.ts'
import { createQueue } from '../window/queue.ts'
import { isMember, partitionsOf, topicPath } from './admin.ts'
import { type MemberDeaths, noDeaths, noteMember } from './deaths.ts'
import type { Endpoint } from './endpoint.ts'
import { reportExpired } from './expiry.ts'
import { received, type SocketMessage } from './message.ts'
import { Permits } from './permits.ts'
import { openSocket, type PulsarSocket, reopenDelayMs } from './socket.ts'

/** How long a leaving member waits until the server has let it go, and how often it asks. */
const leaveTimeoutMs = 3_000
const leavePollMs = 50
/** The server takes no larger queue. */
const maxReceiverQueue = 1_000

/** The one buffer of the window. */
const buffer = 0

export class PulsarMember implements Member {
  readonly #endpoint: Endpoint
  readonly #subscription: Subscription
  readonly #options: MemberOptions
  /** By this name the server counts us among the members of the group. */
  readonly #name = randomUUID()
  /** Aborts when no socket is wanted any more. */
  readonly #stop = new AbortController()
  readonly #window: InFlightWindow
  /** Messages that the window has no room for yet. */
  readonly #received = createQueue<IncomingMessage>()
  readonly #running: Promise<void>
  #socket: PulsarSocket | undefined
  /** Those of the socket. */
  #permits: Permits | undefined
  /** Whether a message came since the last check. */
  #hasHeard = true
  #deaths: MemberDeaths = noDeaths
  #isDraining = false
  #isReporting = false
  readonly #reported: Parameters<typeof reportExpired>[1]['reported'] = new Map()
  #left: Promise<void> | undefined
  failure: GraphmillError | undefined

  constructor(endpoint: Endpoint, subscription: Subscription, options: MemberOptions) {
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
    // Before the socket: a member that is noted and not connected counts as dead.
    await this.#deaths.leave()
    await this.#socket?.close()
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

  /** Opens the socket again and again. */
  async #run(): Promise<void> {
    const { signal } = this.#stop
    const { topic, group } = this.#subscription
    let failures = 0
    while (!signal.aborted && !this.#isDraining) {
      try {
        const socket = await this.#open()
        failures = 0
        this.#endpoint.availability.connected(socket.closed)
        const closing = await socket.closed
        if (!signal.aborted) this.#note({ topic, group, ...closing }, 'consumer socket was lost', true)
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

  /** Opens one socket, and what lives and dies with it. */
  async #open(): Promise<PulsarSocket> {
    const partitions = await partitionsOf(this.#endpoint, this.#subscription.topic)
    const socket = await openSocket(this.#endpoint, {
      path: this.#path(partitions),
      signal: this.#stop.signal,
      onMessage: (frame) => this.#receive(frame as SocketMessage),
    })
    if (this.#stop.signal.aborted) socket.terminate()
    this.#attach(socket)
    this.#deaths = await noteMember(this.#endpoint, this.#subscription, this.#name)
    if (this.#stop.signal.aborted) await this.#deaths.leave()
    void this.#reportExpired()
    this.#grant()
    return socket
  }

  #path(partitions: number): string {
    const { topic, group, maxInFlight, ordering } = this.#subscription
    // What the server takes from every partition for us, beyond what we asked for.
    const queue = Math.ceil(maxInFlight / Math.max(1, partitions))
    const query = new URLSearchParams({
      subscriptionType: ordering === 'none' ? 'Shared' : 'Key_Shared',
      subscriptionInitialPosition: 'Earliest',
      consumerName: this.#name,
      pullMode: 'true',
      receiverQueueSize: String(Math.min(queue, maxReceiverQueue)),
    })
    return `/consumer${topicPath(this.#endpoint, topic)}/${encodeURIComponent(group)}?${query}`
  }

  #attach(socket: PulsarSocket): void {
    const { maxInFlight, maxBytes = defaultMaxHeldBytes } = this.#subscription
    this.#socket = socket
    this.#permits = new Permits(maxInFlight, maxBytes, (permitMessages) =>
      socket.send(JSON.stringify({ type: 'permit', permitMessages })),
    )
    this.#window.own([buffer])
    this.#hasHeard = true
    const check = setInterval(() => {
      void this.#reportExpired()
      if (!this.#hasHeard) void this.#reopenUnlessMember(socket)
      this.#hasHeard = false
    }, this.#endpoint.pingIntervalMs)
    const look = setInterval(() => void this.#reopenUnlessThere(socket), this.#endpoint.topicCheckMs)
    void socket.closed.then(() => {
      clearInterval(check)
      clearInterval(look)
      this.#socket = undefined
      this.#permits = undefined
      this.#received.clear()
      this.#window.own([])
    })
  }

  #receive(frame: SocketMessage): void {
    this.#hasHeard = true
    const { message } = received(this.#subscription.topic, frame)
    const suspect = this.#deaths.suspectOf(message)
    this.#permits?.received(message.value.byteLength)
    this.#received.push({ offset: 0, message, keyed: true, id: frame.messageId, suspect })
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

  #settled({ id, message }: IncomingMessage): void {
    this.#socket?.send(JSON.stringify({ messageId: id }))
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

  /** A topic that was deleted leaves the socket open and silent. */
  async #reopenUnlessThere(socket: PulsarSocket): Promise<void> {
    // The pings notice a server that cannot be asked.
    if (!(await this.#options.lookup.mayExist(this.#subscription.topic))) socket.terminate()
  }

  /** So does a topic that was deleted and created again. */
  async #reopenUnlessMember(socket: PulsarSocket): Promise<void> {
    const mayStay = await this.#isMember().catch(
      (error: unknown) => toGraphmillError(error).code !== 'topic_missing',
    )
    if (!mayStay) socket.terminate()
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
