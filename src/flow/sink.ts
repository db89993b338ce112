// A sink: the end of a flow. Messages that are in flight together are written as one batch, and each is acked only when its batch is
// written. Under load batches keep a pace, so that messages that come one by one are not a batch each.
import { createPace, type Pace } from '../broker/window/pace.ts'
import { toGraphmillError } from '../errors.ts'
import { pause } from '../wait.ts'
import type { InputPort, MessageOf } from './ports.ts'
import { type Context, defineProcessor, type Processor, type Scope } from './processor.ts'

/** The end of a flow: what is read, and how a batch of it is written. */
export interface SinkOptions<I extends InputPort> {
  readonly name: string
  readonly input: I
  /** The most messages of a batch; twice as many may be in flight. Default 96. */
  readonly maxBatch?: number
  /**
   * Resolves when the batch is durable. Called for one batch at a time per flow. `signal` and `context` are those of the
   * batch's first message.
   */
  readonly write: (batch: readonly MessageOf<I>[], signal: AbortSignal, context: Context) => Promise<void>
}

/** When batches are not full, they are this far apart. The first ones after a time with few do not wait. */
const underLoad = { everyMs: 50, burst: 10 }

/** The messages of one flow that wait to be written. */
interface FlowQueue<I extends InputPort> {
  readonly waiting: WaitingMessage<I>[]
  readonly pace: Pace
  writing: boolean
}

interface WaitingMessage<I extends InputPort> {
  readonly message: MessageOf<I>
  readonly context: Context
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Declares a sink. Messages that arrive while a batch is written form the next one.
 * @example
 * export const store = defineSink({ name: 'store', input: 'triples', write: async (batch, signal) => insert(batch, { signal }) })
 */
export function defineSink<const I extends InputPort>(options: SinkOptions<I>): Processor<I, never> {
  const { maxBatch = 96 } = options
  // By scope, which is one object for all contexts of a flow of a runtime: other runtimes of the process have stores of their own.
  const queues = new WeakMap<Scope, FlowQueue<I>>()

  async function writeAll(queue: FlowQueue<I>): Promise<void> {
    if (queue.writing) return
    queue.writing = true
    // Deliveries that are already here join the first batch.
    await new Promise(setImmediate)
    for (let next = queue.waiting[0]; next !== undefined; next = queue.waiting[0]) {
      if (queue.waiting.length < maxBatch) {
        const waitMs = queue.pace.delay()
        if (waitMs > 0) await pause(waitMs, next.context.signal)
        queue.pace.started()
      }
      await writeBatch(queue.waiting.splice(0, maxBatch))
    }
    queue.writing = false
  }

  async function writeBatch(batch: readonly WaitingMessage<I>[]): Promise<void> {
    const { context } = batch[0]!
    try {
      await options.write(
        batch.map(({ message }) => message),
        context.signal,
        context,
      )
      for (const { resolve } of batch) resolve()
    } catch (error) {
      // A message that can't be written must not fail the others of its batch.
      if (batch.length > 1 && toGraphmillError(error).retry === 'never')
        for (const alone of batch) await writeBatch([alone])
      else for (const { reject } of batch) reject(error)
    }
  }

  return defineProcessor<I, never>({
    name: options.name,
    inputs: [options.input],
    outputs: [],
    maxInFlight: 2 * maxBatch,
    async *handle(message, context) {
      const queue = queues.get(context.scope) ?? { waiting: [], pace: createPace(underLoad), writing: false }
      queues.set(context.scope, queue)
      await new Promise<void>((resolve, reject) => {
        queue.waiting.push({ message, context, resolve, reject })
        void writeAll(queue)
      })
    },
  })
}
