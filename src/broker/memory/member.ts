// One consumption: a member of a group, that is given messages of the partitions it owns within its bounds, one for
// each call of `next`, and ends when it is told to and has nothing in hand.
import { longestTimerMs } from '../../wait.ts'
import type { Delivery, Subscription } from '../broker.ts'
import { defaultMaxHeldBytes } from '../broker.ts'
import { settledAboveMarkOf } from '../window/offsets.ts'
import type { MemoryClaim } from './assignment.ts'
import type { MemoryGroup } from './group.ts'
import type { StoredMessage } from './log.ts'

/** A message that is out for delivery, or waits to be delivered again. */
interface InFlight {
  readonly claim: MemoryClaim
  readonly message: StoredMessage
  attempt: number
  state: 'delivered' | 'waiting' | 'gone'
  /** When it is to be delivered again, by `performance.now()`. */
  due: number
}

interface Waiter {
  readonly resolve: (result: IteratorResult<Delivery>) => void
  readonly reject: (error: unknown) => void
}

/** The client that consumes. */
interface Client {
  /** Called at the first `next`; throws what `next` rejects with. */
  joining(member: MemoryMember): MemoryGroup
  ended(member: MemoryMember): void
}

export class MemoryMember implements AsyncIterableIterator<Delivery> {
  readonly #client: Client
  readonly #subscription: Subscription
  readonly #signal: AbortSignal
  readonly #maxBytes: number
  readonly #byKey: boolean
  readonly #drain = () => this.#beginEnd()
  #group: MemoryGroup | undefined
  #claims: MemoryClaim[] = []
  /** Whose turn it is among the claims. */
  #turn = 0
  #inFlight = 0
  #heldBytes = 0
  /** To be delivered again: later, by due time, and as soon as somebody asks. */
  #later: InFlight[] = []
  #again: InFlight[] = []
  #timer: NodeJS.Timeout | undefined
  #waiters: Waiter[] = []
  #over = false
  /** What the next `next` throws. */
  #failure: unknown

  constructor(client: Client, subscription: Subscription, signal: AbortSignal) {
    this.#client = client
    this.#subscription = subscription
    this.#signal = signal
    this.#maxBytes = subscription.maxBytes ?? defaultMaxHeldBytes
    this.#byKey = subscription.ordering === 'key'
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<Delivery>> {
    if (this.#group === undefined && !this.#over) this.#begin()
    if (this.#failure !== undefined) {
      const failure = this.#failure
      this.#failure = undefined
      throw failure
    }
    if (this.#over) return { value: undefined, done: true }
    const delivery = this.#waiters.length === 0 ? this.#takeNext() : undefined
    if (delivery !== undefined) return { value: delivery, done: false }
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject })
    })
  }

  async return(): Promise<IteratorResult<Delivery>> {
    this.end()
    return { value: undefined, done: true }
  }

  /** Whether it takes new messages. */
  get taking(): boolean {
    return !this.#over && !this.#signal.aborted
  }

  /** Offsets that may be settled above the mark of a partition. */
  get maxSettled(): number {
    return settledAboveMarkOf(this.#subscription)
  }

  get over(): boolean {
    return this.#over
  }

  own(claim: MemoryClaim): void {
    this.#claims.push(claim)
    this.pump()
  }

  lost(claim: MemoryClaim): void {
    this.#claims = this.#claims.filter((one) => one !== claim)
    this.#later = this.#later.filter((one) => one.claim !== claim)
    this.#again = this.#again.filter((one) => one.claim !== claim)
    this.#count(-claim.held, -claim.heldBytes)
    this.#goOn()
  }

  /** Gives what there is to those who wait for it. */
  pump(): void {
    while (this.#waiters.length > 0) {
      const delivery = this.#takeNext()
      if (delivery === undefined) return
      this.#waiters.shift()!.resolve({ value: delivery, done: false })
    }
  }

  /**
   * Leaves at once: what is in hand goes to others. With an error, the iteration throws it: the topic is gone, and nobody
   * else is given what is in hand.
   */
  end(error?: unknown): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#timer)
    this.#signal.removeEventListener('abort', this.#drain)
    if (error === undefined) this.#group?.leave(this)
    this.#client.ended(this)
    const waiters = this.#waiters
    this.#waiters = []
    const [first] = waiters
    if (first === undefined) this.#failure = error
    else if (error !== undefined) waiters.shift()?.reject(error)
    for (const waiter of waiters) waiter.resolve({ value: undefined, done: true })
  }

  #begin(): void {
    if (this.#signal.aborted) {
      this.#over = true
      return
    }
    try {
      this.#group = this.#client.joining(this)
    } catch (error) {
      this.#over = true
      throw error
    }
    this.#signal.addEventListener('abort', this.#drain, { once: true })
    this.#group.join(this)
  }

  #beginEnd(): void {
    for (const one of [...this.#later, ...this.#again]) this.#letGo(one)
    this.#later = []
    this.#again = []
    clearTimeout(this.#timer)
    this.#goOn()
    this.#group?.topic.letPublishersGoOn() // they do not wait for a group that takes nothing
  }

  #takeNext(): Delivery | undefined {
    if (!this.taking) return undefined
    const again = this.#again.shift()
    if (again !== undefined) return this.#deliver(again)
    if (this.#inFlight >= this.#subscription.maxInFlight) return undefined
    for (let step = 0; step < this.#claims.length; step++) {
      const turn = (this.#turn + step) % this.#claims.length
      const claim = this.#claims[turn]!
      const message = claim.peek(this.#byKey)
      if (message === undefined) continue
      const bytes = message.value.byteLength
      // The next one waits for room even if others would fit: a large message must have its turn too.
      if (this.#inFlight > 0 && this.#heldBytes + bytes > this.#maxBytes) return undefined
      this.#turn = turn + 1
      claim.take(message, this.#byKey)
      this.#count(1, bytes)
      return this.#deliver({ claim, message, attempt: 0, state: 'delivered', due: 0 })
    }
    return undefined
  }

  #deliver(one: InFlight): Delivery {
    const { claim, message } = one
    const attempt = ++one.attempt
    one.state = 'delivered'
    const inFlight = () => one.state === 'delivered' && one.attempt === attempt && !claim.signal.aborted
    return {
      topic: this.#subscription.topic,
      partition: claim.partition,
      position: String(message.offset),
      key: message.key,
      value: message.value,
      headers: message.headers,
      timestamp: message.timestamp,
      signal: claim.signal,
      attempt,
      ack: async () => {
        if (inFlight()) this.#settle(one)
      },
      retryLater: async (delayMs) => {
        if (!inFlight()) return
        if (this.#signal.aborted) {
          this.#letGo(one)
          this.#goOn()
        } else this.#wait(one, delayMs)
      },
    }
  }

  #settle(one: InFlight): void {
    one.state = 'gone'
    this.#count(-1, -one.message.value.byteLength)
    one.claim.settle(one.message)
    this.#goOn()
  }

  #letGo(one: InFlight): void {
    one.state = 'gone'
    this.#count(-1, -one.message.value.byteLength)
    one.claim.letGo(one.message)
  }

  #wait(one: InFlight, delayMs: number): void {
    one.state = 'waiting'
    one.due = performance.now() + delayMs
    const place = this.#later.findLastIndex((other) => other.due <= one.due) + 1
    this.#later.splice(place, 0, one)
    if (place === 0) this.#setTimer()
  }

  /** One timer for all that wait, set to the first of them. */
  #setTimer(): void {
    clearTimeout(this.#timer)
    const first = this.#later[0]
    if (first === undefined) return
    const delay = Math.min(Math.max(0, Math.ceil(first.due - performance.now())), longestTimerMs)
    this.#timer = setTimeout(() => {
      const now = performance.now()
      while (this.#later.length > 0 && this.#later[0]!.due <= now) this.#again.push(this.#later.shift()!)
      this.#setTimer()
      this.pump()
    }, delay)
  }

  #goOn(): void {
    if (this.#over) return
    if (!this.#signal.aborted) this.pump()
    else if (this.#inFlight === 0) this.end()
  }

  #count(messages: number, bytes: number): void {
    this.#inFlight += messages
    this.#heldBytes += bytes
  }
}
