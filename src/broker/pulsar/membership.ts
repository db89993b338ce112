// What one consumer socket has brought and is not settled yet: bounds, order by key, redelivery in this process.
// It dies with its socket, because the server then gives the messages to the group again.
import { longestTimerMs } from '../../wait.ts'
import type { Delivery, ReadMessage, Subscription, Suspect } from '../broker.ts'
import { maxMessageBytes } from '../broker.ts'

/** Commands to the server; each is one frame. */
export interface MembershipPort {
  /** Allows the server to send this many more messages. */
  permit(messages: number): void
  ack(messageId: string): void
  /** Something changed: `take` may give another delivery, or `inHand` is less. */
  changed(): void
}

interface Held {
  readonly message: ReadMessage
  /** The server's name for it. */
  readonly messageId: string
  readonly suspect: Suspect | undefined
  attempt: number
  /** Whether it was handed out once: then its bytes count, also while it waits to be delivered again. */
  counted: boolean
  /** Whether somebody works on it now. */
  inFlight: boolean
  settled: boolean
  readonly ownership: AbortController
  retry: NodeJS.Timeout | undefined
}

export class Membership {
  readonly #subscription: Subscription
  readonly #maxBytes: number
  readonly #port: MembershipPort
  readonly #held = new Set<Held>()
  #ready: Held[] = []
  /** With order by key: what waits behind the unsettled message of its key. */
  readonly #behind = new Map<string, Held[]>()
  #permits = 0
  #heldBytes = 0
  #countedBytes = 0
  #inHand = 0
  #leaving = false
  #lost = false

  constructor(subscription: Subscription, maxBytes: number, port: MembershipPort) {
    this.#subscription = subscription
    this.#maxBytes = maxBytes
    this.#port = port
  }

  /** Deliveries that somebody works on. */
  get inFlight(): number {
    return this.#inHand
  }

  /** Asks for as many messages as the bounds allow. Their sizes are not known before: each is taken for the largest of ours. */
  grant(): void {
    if (this.#leaving || this.#lost) return
    const { maxInFlight } = this.#subscription
    const byCount = maxInFlight - this.#held.size - this.#permits
    const room = this.#maxBytes - this.#heldBytes
    const byBytes = Math.max(Math.floor(room / maxMessageBytes), room > 0 ? 1 : 0) - this.#permits
    const more = Math.min(byCount, byBytes)
    // asks again when half of what may come is on its way: few frames, with many permits each
    if (more < 1 || more < this.#permits) return
    this.#permits += more
    this.#port.permit(more)
  }

  /** A message came from the server. */
  add(message: ReadMessage, messageId: string, suspect?: Suspect): void {
    const held: Held = {
      message,
      messageId,
      suspect,
      attempt: 1,
      counted: false,
      inFlight: false,
      settled: false,
      ownership: new AbortController(),
      retry: undefined,
    }
    this.#permits--
    this.#held.add(held)
    this.#heldBytes += message.value.byteLength
    const behind = this.#behind.get(message.key)
    if (behind !== undefined) behind.push(held)
    else {
      if (this.#subscription.ordering === 'key') this.#behind.set(message.key, [])
      this.#ready.push(held)
      this.#port.changed()
    }
    this.grant()
  }

  /** The next delivery, when there is one within the bounds. */
  take(): Delivery | undefined {
    const [held] = this.#ready
    if (held === undefined || this.#leaving || this.#lost) return undefined
    const size = held.message.value.byteLength
    if (!held.counted && this.#countedBytes > 0 && this.#countedBytes + size > this.#maxBytes)
      return undefined
    this.#ready.shift()
    if (!held.counted) this.#countedBytes += size
    held.counted = true
    held.inFlight = true
    this.#inHand++
    return this.#deliveryOf(held)
  }

  /** Takes nothing more and lets go of all that nobody works on. */
  leave(): void {
    this.#leaving = true
    for (const held of this.#held) clearTimeout(held.retry)
  }

  /** The socket is gone, and every message with it. */
  lose(): void {
    this.#lost = true
    this.#inHand = 0
    for (const held of this.#held) {
      clearTimeout(held.retry)
      held.settled = true
      held.ownership.abort()
    }
    this.#held.clear()
    this.#port.changed()
  }

  #deliveryOf(held: Held): Delivery {
    const { attempt } = held
    /** Whether this delivery may still decide: once, and only while it is the present attempt. */
    const putDown = (): boolean => {
      if (held.settled || !held.inFlight || held.attempt !== attempt) return false
      held.inFlight = false
      this.#inHand--
      return true
    }
    return {
      ...held.message,
      attempt,
      suspect: held.suspect,
      signal: held.ownership.signal,
      ack: async () => {
        if (putDown()) this.#settle(held)
      },
      retryLater: async (delayMs) => {
        if (!putDown()) return
        if (!this.#leaving)
          held.retry = setTimeout(() => this.#redeliver(held), Math.min(delayMs, longestTimerMs))
        this.#port.changed()
      },
    }
  }

  #redeliver(held: Held): void {
    held.attempt++
    this.#ready.push(held)
    this.#port.changed()
  }

  #settle(held: Held): void {
    const { key, value } = held.message
    held.settled = true
    this.#held.delete(held)
    this.#heldBytes -= value.byteLength
    this.#countedBytes -= value.byteLength
    this.#port.ack(held.messageId)
    if (this.#subscription.ordering === 'key') {
      const next = this.#behind.get(key)?.shift()
      if (next === undefined) this.#behind.delete(key)
      else this.#ready.push(next)
    }
    this.grant()
    this.#port.changed()
  }
}
