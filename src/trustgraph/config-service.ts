// A client of TrustGraph's configuration service: requests, whose answers are found by id, and the notices of changes. Answers and
// notices are read without a group, since every client must see all of them.
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { jitteredBackoffMs } from '../backoff.ts'
import type { Broker, ReadMessage } from '../broker/broker.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { pause } from '../wait.ts'
import { readRecord, writeRecord } from './records.ts'

/** A value of the configuration. `workspace` is empty when the request named one. */
export interface ConfigValue {
  readonly type: string
  readonly key: string
  readonly value: string
  readonly workspace: string
}

export interface ConfigAnswer {
  readonly version: number
  readonly values: readonly ConfigValue[]
}

export interface ConfigRequest {
  readonly operation: 'getkeys-all-ws' | 'getvalues'
  readonly type: string
  readonly workspace?: string
}

/** Says what has changed, without values. */
export interface ConfigPush {
  readonly version: number
  /** Workspaces by type. */
  readonly changes: Readonly<Record<string, readonly string[]>>
  readonly workspace_changes: {
    readonly created: readonly string[]
    readonly deleted: readonly string[]
  } | null
}

export interface ConfigService {
  /** Throws `configuration_unavailable` when no answer comes or the service refuses, and what publishing throws. */
  ask(request: ConfigRequest): Promise<ConfigAnswer>
}

export interface ConfigServiceOptions {
  readonly broker: Pick<Broker, 'ensureTopics' | 'publish' | 'read'>
  /** The names of its topics on the broker. */
  readonly topics: { readonly request: string; readonly response: string; readonly notify: string }
  readonly onPush: (push: ConfigPush) => void
  readonly log: Logger
  /** How long an answer may take, in milliseconds. Default 20,000. */
  readonly timeoutMs?: number
}

/** The retention that TrustGraph gives these topics, in milliseconds. */
const retentionMs = 5 * 60_000

/** Reads answers and notices until `signal` aborts. */
export function openConfigService(options: ConfigServiceOptions, signal: AbortSignal): ConfigService {
  const { broker, topics, log, onPush, timeoutMs = 20_000 } = options
  const waiting = new Map<string, PromiseWithResolvers<ConfigAnswer>>()
  const specs = Object.values(topics).map((name) => ({ name, partitions: 1, retentionMs }))

  let made: Promise<void> | undefined

  /** Makes the topics that are missing; again after each failure of what uses them. */
  function makeTopics(): Promise<void> {
    made ??= broker.ensureTopics(specs)
    return made
  }

  function takeAnswer({ headers, value }: ReadMessage): void {
    const answer = waiting.get(headers['id'] ?? '')
    if (answer === undefined) return // another client's
    try {
      answer.resolve(answerIn(value))
    } catch (thrown) {
      answer.reject(thrown)
    }
  }

  function takePush({ value }: ReadMessage): void {
    try {
      onPush(readRecord('ConfigPush', value) as unknown as ConfigPush)
    } catch (thrown) {
      log.warn({ err: toGraphmillError(thrown), topic: topics.notify }, 'a notice of TrustGraph is not read')
    }
  }

  /** A topic that is missing is made again, and then read from its beginning. */
  async function listen(topic: string, take: (message: ReadMessage) => void): Promise<void> {
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        await makeTopics()
        for await (const message of broker.read({ topic, from: 'earliest', until: 'never' }, signal)) {
          failures = 0
          take(message)
        }
      } catch (thrown) {
        made = undefined
        if (signal.aborted) return
        log.warn({ err: toGraphmillError(thrown), topic }, 'a topic of TrustGraph cannot be read')
      }
      await pause(jitteredBackoffMs(failures, { firstMs: 1000, mostMs: 30_000 }), signal)
    }
  }

  void listen(topics.response, takeAnswer)
  void listen(topics.notify, takePush)

  return {
    async ask(request) {
      const id = randomUUID()
      const answer = Promise.withResolvers<ConfigAnswer>()
      answer.promise.catch(() => undefined)
      const fail = () => answer.reject(signal.aborted ? signal.reason : noAnswer(timeoutMs))
      const timer = setTimeout(fail, timeoutMs)
      signal.addEventListener('abort', fail, { once: true })
      waiting.set(id, answer)
      try {
        signal.throwIfAborted()
        await makeTopics()
        const value = writeRecord('ConfigRequest', { ...request })
        await broker.publish({ topic: topics.request, key: '', value, headers: { id } })
        return await answer.promise
      } catch (thrown) {
        made = undefined
        throw thrown
      } finally {
        waiting.delete(id)
        clearTimeout(timer)
        signal.removeEventListener('abort', fail)
      }
    },
  }
}

function answerIn(body: Uint8Array): ConfigAnswer {
  const { version, values, error } = readRecord('ConfigResponse', body) as unknown as ConfigAnswer & {
    readonly error: { readonly type: string; readonly message: string } | null
  }
  if (error === null) return { version, values }
  throw new GraphmillError(
    'configuration_unavailable',
    `TrustGraph's configuration service refused: ${error.type}: ${error.message}`,
  )
}

const noAnswer = (timeoutMs: number) =>
  new GraphmillError(
    'configuration_unavailable',
    `TrustGraph's configuration service did not answer within ${timeoutMs / 1000} s.`,
  )
