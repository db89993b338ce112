// A flow in this process, on the memory broker: for what reads documents and ends with them.
import { createMemoryCluster } from '../broker/memory/memory.ts'
import { parseTopic } from '../broker/topics.ts'
import { GraphmillError } from '../errors.ts'
import { systemClock, uuids } from '../flow/clock.ts'
import type { SourceOptions } from '../flow/load-document.ts'
import { inputGroup, inputTopic, type MessageOf, outputRoute } from '../flow/ports.ts'
import type { AnyProcessor, FlowSettings, Scope } from '../flow/processor.ts'
import { type FlowRuntimeOptions, run } from '../flow/run.ts'
import { wait } from '../wait.ts'

/** Bytes that may wait on a topic before its publishers are held up. */
const maxTopicBytes = 32 * 1024 * 1024

/** The roles of topics whose messages are dropped when no processor reads them. */
const unread: ReadonlySet<string> = new Set([
  'rejected',
  'rows',
  'triples',
  'entity-contexts',
  'progress',
  'schemas',
])

export interface LocalFlowOptions
  extends Omit<FlowRuntimeOptions, 'broker' | 'flows' | 'wire' | 'codec' | 'registry'> {
  readonly flows: readonly [Scope & { readonly settings: FlowSettings }]
  readonly collection: string
  /** The program's name in the envelopes. */
  readonly source: string
}

export type LocalFlow = Awaited<ReturnType<typeof openLocalFlow>>

/** Starts the processors. `signal` ends the waiting and the reading, not the flow: that is what `close` does. */
export async function openLocalFlow(options: LocalFlowOptions, signal: AbortSignal) {
  const { processors, collection, source, space = 'gm', clock = systemClock, ids = uuids } = options
  const [{ workspace, flow }] = options.flows
  const scope = { workspace, flow }
  if (options.llm.usesService)
    throw new GraphmillError('llm_not_configured', 'A flow in this process has no text-completion service.')
  const broker = createMemoryCluster({
    dropSettled: true,
    maxTopicBytes,
    discard: (topic) => unread.has(parseTopic(topic)?.role ?? ''),
  }).connect()
  const runtime = await run({ ...options, broker }, signal)

  /** Whether the processors have settled all that was published for them. */
  async function isIdle(some: readonly AnyProcessor[] = processors): Promise<boolean> {
    const flowTopics = { space, ...scope }
    for (const { name, inputs } of some)
      for (const port of inputs) {
        const { total } = await broker.lag(
          inputGroup(port, flowTopics, name),
          inputTopic(port, flowTopics, name),
        )
        if (total > 0) return false
      }
    return true
  }

  return {
    circuits: runtime.circuits,
    /** The options for loading documents. */
    source: {
      broker,
      clock,
      ids,
      space,
      codec: runtime.codec,
      circuits: runtime.circuits,
      scope,
      collection,
      source,
    } satisfies SourceOptions,
    async *messages<P extends 'progress' | 'rejected'>(port: P): AsyncGenerator<MessageOf<P>> {
      const { topic } = outputRoute(port, { space, ...scope })
      for await (const { value, headers } of broker.read({ topic, from: 'earliest', until: 'never' }, signal))
        yield runtime.codec.decode(value, headers) as MessageOf<P>
    },
    async untilIdle(some: readonly AnyProcessor[]): Promise<void> {
      while (!(await isIdle(some))) await wait(20, signal)
    },
    /** Resolves when `hasEnded` is true and no message is left. */
    async untilDone(hasEnded: () => boolean): Promise<void> {
      // `hasEnded` is asked again afterwards, because the last message may have led to more.
      while (!(hasEnded() && (await isIdle()) && hasEnded())) await wait(20, signal)
    },
    /** Ends the flow at once; its store stays open. */
    async close(): Promise<void> {
      await runtime.stop(0)
      await broker.close()
    },
  }
}
