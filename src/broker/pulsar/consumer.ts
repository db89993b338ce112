// A member of a group on Pulsar: one subscription socket in pull mode, opened again whenever it is lost.
// The group is the subscription: Shared, or Key_Shared where the messages of a key must stay together.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type GraphmillError, toGraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import { type Delivery, defaultMaxHeldBytes, type Subscription } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import { createWake } from '../window/wake.ts'
import { isMember, partitionsOf, topicPath } from './admin.ts'
import { type MemberDeaths, noDeaths, noteMember } from './deaths.ts'
import type { Endpoint } from './endpoint.ts'
import { reportExpired } from './expiry.ts'
import { Membership } from './membership.ts'
import { received, type SocketMessage } from './message.ts'
import { openSocket, type PulsarSocket, reopenDelayMs } from './socket.ts'

/** How long a leaving member waits until the server has let it go, and how often it asks. */
const leaveTimeoutMs = 3_000
const leavePollMs = 50
/** The server takes no larger queue. */
const maxReceiverQueue = 1_000

export class PulsarMember {
  readonly #endpoint: Endpoint
  readonly #subscription: Subscription
  readonly #lookup: TopicLookup
  /** By this name the server counts us among the members of the group. */
  readonly #name = randomUUID()
  /** Aborted when no socket is wanted any more. */
  readonly #stop = new AbortController()
  readonly #wake = createWake()
  readonly #running: Promise<void>
  #socket: PulsarSocket | undefined
  #membership: Membership | undefined
  #deaths: MemberDeaths = noDeaths
  #leaving = false
  #isReporting = false
  readonly #reported: Parameters<typeof reportExpired>[1]['reported'] = new Map()
  #failure: GraphmillError | undefined

  constructor(endpoint: Endpoint, subscription: Subscription, lookup: TopicLookup) {
    this.#endpoint = endpoint
    this.#lookup = lookup
    this.#subscription = subscription
    this.#running = this.#run()
  }

  /** The next delivery; undefined when the member has left or was closed. Throws what waiting cannot mend. */
  async next(): Promise<Delivery | undefined> {
    for (;;) {
      if (this.#stop.signal.aborted) return undefined
      if (this.#leaving && (this.#membership?.inFlight ?? 0) === 0) return undefined
      if (this.#failure !== undefined) throw this.#failure
      const delivery = this.#membership?.take()
      if (delivery !== undefined) return delivery
      await this.#wake.wait()
    }
  }

  /** Nothing new is delivered; `next` ends when nothing is in hand. */
  leave(): void {
    this.#leaving = true
    this.#membership?.leave()
    this.#wake.notify()
  }

  /** Ends at once. What was acked reaches the server; what is in hand is lost to the group. */
  async close(): Promise<void> {
    if (this.#stop.signal.aborted) return this.#running
    this.#membership?.lose()
    this.#stop.abort()
    this.#wake.notify()
    // Before the socket: a member that is noted and not connected counts as dead.
    await this.#deaths.leave()
    await this.#socket?.close()
    await this.#running
  }

  /** Waits, after `close`, until the server has let the member go: what it acked is settled, the rest is the group's again. */
  async released(): Promise<void> {
    const deadline = performance.now() + leaveTimeoutMs
    while (performance.now() < deadline && (await this.#isMember().catch(() => false)))
      await delay(leavePollMs)
  }

  /** Opens the socket again and again. */
  async #run(): Promise<void> {
    const { signal } = this.#stop
    const { topic, group } = this.#subscription
    let failures = 0
    while (!signal.aborted && !this.#leaving) {
      try {
        const socket = await this.#open()
        failures = 0
        this.#endpoint.availability.connected(socket.closed)
        const closing = await socket.closed
        if (!signal.aborted) this.#note({ topic, group, ...closing }, 'consumer socket was lost', true)
      } catch (thrown) {
        if (signal.aborted) return
        const error = toGraphmillError(thrown)
        if (error.retry !== 'later' && !(await this.#isThereAfterAll(error))) {
          this.#failure = error
          this.#wake.notify()
          return
        }
        const isBroker = error.code === 'broker_unavailable' && this.#endpoint.availability.away(error)
        this.#note({ topic, group, err: error }, 'consumer could not be opened', isBroker)
      }
      failures++
      await pause(reopenDelayMs(failures), signal)
    }
  }

  /** That the broker is away is told once for all consumers: what each notices of it is a detail. */
  #note(fields: object, phrase: string, isDetail: boolean): void {
    const { log } = this.#endpoint
    if (isDetail && log.debug) log.debug(fields, phrase)
    else log.warn(fields, phrase)
  }

  /** Opens one socket, and what lives and dies with it. */
  async #open(): Promise<PulsarSocket> {
    const { topic, group, maxInFlight, maxBytes = defaultMaxHeldBytes, ordering } = this.#subscription
    const partitions = await partitionsOf(this.#endpoint, topic)
    // what the server takes from every partition for us, beyond what we asked for
    const queue = Math.ceil(maxInFlight / Math.max(1, partitions))
    const query = new URLSearchParams({
      subscriptionType: ordering === 'none' ? 'Shared' : 'Key_Shared',
      subscriptionInitialPosition: 'Earliest',
      consumerName: this.#name,
      pullMode: 'true',
      receiverQueueSize: String(Math.min(queue, maxReceiverQueue)),
    })
    let heard = true
    const socket = await openSocket(this.#endpoint, {
      path: `/consumer${topicPath(this.#endpoint, topic)}/${encodeURIComponent(group)}?${query}`,
      signal: this.#stop.signal,
      onMessage: (frame) => {
        heard = true
        const { messageId } = frame as SocketMessage
        const { message } = received(topic, frame as SocketMessage)
        membership.add(message, messageId, this.#deaths.suspectOf(message))
      },
    })
    if (this.#stop.signal.aborted) socket.terminate()
    const membership = new Membership(this.#subscription, maxBytes, {
      permit: (permitMessages) => socket.send(JSON.stringify({ type: 'permit', permitMessages })),
      ack: (messageId) => socket.send(JSON.stringify({ messageId })),
      changed: () => this.#wake.notify(),
    })
    const check = setInterval(() => {
      void this.#reportExpired()
      if (!heard) void this.#reopenUnlessMember(socket)
      heard = false
    }, this.#endpoint.pingIntervalMs)
    const look = setInterval(() => void this.#reopenUnlessThere(socket), this.#endpoint.topicCheckMs)
    void socket.closed.then(() => {
      clearInterval(check)
      clearInterval(look)
      membership.lose()
      this.#membership = undefined
      this.#socket = undefined
    })
    this.#socket = socket
    this.#membership = membership
    this.#deaths = await noteMember(this.#endpoint, this.#subscription, this.#name)
    if (this.#stop.signal.aborted) await this.#deaths.leave()
    void this.#reportExpired()
    if (this.#leaving) membership.leave()
    membership.grant()
    return socket
  }

  /** A topic that was deleted leaves the socket open and silent. */
  async #reopenUnlessThere(socket: PulsarSocket): Promise<void> {
    // a server that cannot be asked is noticed by the pings
    const mayStay = await this.#lookup.look(this.#subscription.topic).catch(() => true)
    if (!mayStay) socket.terminate()
  }

  /** So does one that was deleted and made again. */
  async #reopenUnlessMember(socket: PulsarSocket): Promise<void> {
    const mayStay = await this.#isMember().catch(
      (error: unknown) => toGraphmillError(error).code !== 'topic_missing',
    )
    if (!mayStay) socket.terminate()
  }

  /** Whether a topic that one answer called missing is found by another look. */
  async #isThereAfterAll({ code }: GraphmillError): Promise<boolean> {
    return code === 'topic_missing' && (await this.#lookup.look(this.#subscription.topic).catch(() => true))
  }

  /** Once at a time. What could not be reported is so the next time. */
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
