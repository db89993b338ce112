// How many messages the server may send to one consumer socket, within the bounds of the subscription. Their sizes are not
// known before they come: each counts as one of the largest that graphmill writes.
import { maxMessageBytes } from '../broker.ts'

export class Permits {
  readonly #maxMessages: number
  readonly #maxBytes: number
  readonly #send: (messages: number) => void
  /** Messages that the server may still send. */
  #open = 0
  /** Received and not settled. */
  #messages = 0
  #bytes = 0

  /** `send` allows the server to send that many more messages; each call is one frame. */
  constructor(maxMessages: number, maxBytes: number, send: (messages: number) => void) {
    this.#maxMessages = maxMessages
    this.#maxBytes = maxBytes
    this.#send = send
  }

  received(bytes: number): void {
    this.#open--
    this.#messages++
    this.#bytes += bytes
  }

  settled(bytes: number): void {
    this.#messages--
    this.#bytes -= bytes
  }

  /** Asks for as many messages as the bounds allow, when these are at least as many as may still come: so frames are few. */
  grant(): void {
    const byCount = this.#maxMessages - this.#messages - this.#open
    const room = this.#maxBytes - this.#bytes
    const byBytes = Math.max(Math.floor(room / maxMessageBytes), room > 0 ? 1 : 0) - this.#open
    const more = Math.min(byCount, byBytes)
    if (more < 1 || more < this.#open) return
    this.#open += more
    this.#send(more)
  }
}
