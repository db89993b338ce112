// What consumers, producers and readers of the native client have in common as channels. The client reconnects by itself; here a
// lost connection ends the channel, so that whatever it had in flight is known to be lost.
import { setTimeout as delay } from 'node:timers/promises'
import { GraphmillError } from '../../../errors.ts'
import type { Endpoint } from '../endpoint.ts'
import type { Channel, ChannelClosing } from '../transport.ts'
import type { Connection } from './client.ts'

/** How often a channel asks whether it is connected: the client waits 100 ms before it connects again, and says nothing. */
const pollMs = 40
/** Closing takes no longer; a server that does not answer lets its clients go later. */
const closeTimeoutMs = 5_000

export interface NativeChannel extends Channel {
  readonly isOver: boolean
  /** Whatever is wrong with the channel, it is over. */
  lose(reason: string): void
}

export interface NativeConnection {
  isConnected(): boolean
  close(): Promise<unknown>
}

/** `closing` is where the ends of channels in the background are noted. */
export function createChannel(native: NativeConnection, closing: Set<Promise<unknown>>): NativeChannel {
  const { promise: closed, resolve } = Promise.withResolvers<ChannelClosing>()
  let ending: Promise<void> | undefined
  let isOver = false
  const end = (): Promise<void> => {
    if (ending !== undefined) return ending
    isOver = true
    clearInterval(poll)
    const late = delay(closeTimeoutMs, undefined, { ref: false })
    const ended = Promise.race([native.close().catch(() => {}), late]).then(() => {})
    closing.add(ended)
    void ended.then(() => closing.delete(ended))
    ending = ended
    return ended
  }
  const lose = (reason: string): void => {
    void end()
    resolve({ reason })
  }
  const poll = setInterval(() => {
    if (!native.isConnected()) lose('the connection was lost')
  }, pollMs)
  return {
    get isOver() {
      return isOver
    },
    closed,
    lose,
    terminate: () => lose('given up'),
    async close() {
      await end()
      resolve({ reason: 'closed' })
    },
  }
}

/** What the channels of one connection share. */
export interface Shared {
  readonly endpoint: Endpoint
  readonly connection: Connection
  /** The ends of channels in the background. */
  readonly closing: Set<Promise<unknown>>
}

/** Opens something on a topic. When the signal aborts first, it is closed as soon as it is open. */
export async function open<T extends NativeConnection>(
  { connection, closing }: Shared,
  signal: AbortSignal,
  topic: string,
  operation: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const opening = connection.run(`access to ${topic}`, operation)
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => aborted.reject(new GraphmillError('aborted', `${topic} is not wanted any more`))
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([opening, aborted.promise])
  } catch (thrown) {
    const late = opening.then((native) => native.close()).catch(() => {})
    closing.add(late)
    void late.then(() => closing.delete(late))
    throw thrown
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
