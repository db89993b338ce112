// A stand-in of TrustGraph's configuration service on a broker: it answers and gives notice as TrustGraph 2.11.1 does, in the same
// JSON, and remembers what it was asked.
import type { Broker } from '../../src/broker/broker.ts'
import type { ConfigSnapshot } from '../../src/trustgraph/config-snapshots.ts'

export interface ConfigStandIn extends AsyncDisposable {
  /** Each request, as its JSON says it. */
  readonly asked: ConfigRequestJson[]
  readonly version: number
  /** Stores values, and gives notice of them unless it is to be lost. */
  put(
    workspace: string,
    type: string,
    values: Readonly<Record<string, unknown>>,
    notice?: 'lost',
  ): Promise<void>
  delete(workspace: string, type: string, keys: readonly string[]): Promise<void>
  /** Publishes a notice as it is given. */
  push(notice: unknown): Promise<void>
  /** Answers with an error from now on, or as usual again. */
  refuse(message: string | undefined): void
}

export interface ConfigRequestJson {
  readonly operation: string
  readonly workspace: string
  readonly keys: readonly unknown[]
  readonly type: string
  readonly values: readonly unknown[]
}

export interface StandInTopics {
  readonly request: string
  readonly response: string
  readonly notify: string
}

/** A text is stored as it is, anything else as JSON text. */
const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))

/** A snapshot from values by workspace and type; a value that is no text becomes JSON text. */
export function snapshotOf(content: Record<string, Record<string, Record<string, unknown>>>): ConfigSnapshot {
  return {
    version: 1,
    workspaces: Object.keys(content).sort(),
    values: (workspace, type) =>
      new Map(Object.entries(content[workspace]?.[type] ?? {}).map(([key, value]) => [key, textOf(value)])),
  }
}
export async function startConfigStandIn(broker: Broker, topics: StandInTopics): Promise<ConfigStandIn> {
  const store = new Map<string, Map<string, Map<string, string>>>()
  const asked: ConfigRequestJson[] = []
  const stop = new AbortController()
  let version = 1
  let refusal: string | undefined
  await broker.ensureTopics(Object.values(topics).map((name) => ({ name, partitions: 1 })))

  const answer = (values: object[]) => ({ version, values, directory: [], config: {}, error: null })
  const error = (message: string) => ({ ...answer([]), version: 0, error: { type: 'config-error', message } })

  function respond({ operation, type, workspace }: ConfigRequestJson): object {
    if (refusal !== undefined) return error(refusal)
    if (operation === 'getkeys-all-ws')
      return answer(
        [...store].flatMap(([name, types]) =>
          [...(types.get(type)?.keys() ?? [])].map((key) => ({ type, key, value: '', workspace: name })),
        ),
      )
    if (operation === 'getvalues' && workspace !== '')
      return answer(
        [...(store.get(workspace)?.get(type) ?? [])].map(([key, value]) => ({
          type,
          key,
          value,
          workspace: '',
        })),
      )
    return error('Bad operation')
  }

  const send = (topic: string, value: unknown, headers: Record<string, string>) =>
    broker.publish({ topic, key: '', value: Buffer.from(JSON.stringify(value)), headers })

  async function serve(): Promise<void> {
    const subscription = { group: 'config-svc', topic: topics.request, maxInFlight: 10 } as const
    for await (const delivery of broker.consume(
      { ...subscription, from: 'earliest', ordering: 'none' },
      stop.signal,
    )) {
      const request = JSON.parse(Buffer.from(delivery.value).toString()) as ConfigRequestJson
      asked.push(request)
      await send(topics.response, respond(request), { id: delivery.headers['id']! })
      await delivery.ack()
    }
  }
  const served = serve()

  async function notice(
    workspace: string,
    type: string,
    keys: readonly string[],
    event: 'created' | 'deleted',
  ) {
    const isRegistry = workspace === '__workspaces__' && type === 'workspace'
    await send(
      topics.notify,
      {
        version,
        changes: workspace.startsWith('_') ? {} : { [type]: [workspace] },
        workspace_changes: isRegistry ? { created: [], deleted: [], [event]: keys } : null,
      },
      {},
    )
  }

  return {
    asked,
    get version() {
      return version
    },
    async put(workspace, type, values, lost) {
      const types = store.get(workspace) ?? new Map<string, Map<string, string>>()
      store.set(workspace, types)
      const texts = Object.entries(values).map(([key, value]) => [key, textOf(value)] as const)
      types.set(type, new Map([...(types.get(type) ?? []), ...texts]))
      version++
      if (lost === undefined) await notice(workspace, type, Object.keys(values), 'created')
    },
    async delete(workspace, type, keys) {
      for (const key of keys) store.get(workspace)?.get(type)?.delete(key)
      version++
      await notice(workspace, type, keys, 'deleted')
    },
    push: (value) => send(topics.notify, value, {}),
    refuse(message) {
      refusal = message
    },
    async [Symbol.asyncDispose]() {
      stop.abort()
      await served
    },
  }
}
