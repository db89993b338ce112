// TrustGraph's configuration as snapshots: all of it at first, then the pairs of workspace and type that a notice names. When a fetch
// fails, the last snapshot stays in use, and the fetch is repeated until it succeeds.
import { isDeepStrictEqual } from 'node:util'
import { jitteredBackoffMs } from '../backoff.ts'
import { batches } from '../batches.ts'
import { createWake } from '../broker/window/wake.ts'
import { type GraphmillError, toGraphmillError } from '../errors.ts'
import { pause } from '../wait.ts'
import type { ConfigPush, ConfigService } from './config-service.ts'
import { type ConfigPair, createStaleConfig, registryPair, type StaleConfig } from './stale-config.ts'

/** The configuration at one version. It never changes. */
export interface ConfigSnapshot {
  readonly version: number
  /** The workspaces that exist, sorted, without those that TrustGraph reserves. */
  readonly workspaces: readonly string[]
  /** The JSON texts of a type in a workspace, by key; empty when there are none. */
  values(workspace: string, type: string): ReadonlyMap<string, string>
}

export interface ConfigSnapshotsOptions {
  /** `onPush` is to be called for each notice. */
  readonly open: (onPush: (push: ConfigPush) => void) => ConfigService
  /** The types of interest. */
  readonly types: readonly string[]
  /** Called after each attempt to fetch, with its error if it failed. */
  readonly onAttempt: (error?: GraphmillError) => void
  /** How often the version is asked for, since a notice can be lost, in milliseconds. Default: a minute. */
  readonly pollMs?: number
  /** Of the pauses between attempts. Default `Math.random`. */
  readonly random?: () => number
}

/** Yields a snapshot after the first fetch and after each change, until `signal` aborts. */
export async function* configSnapshots(
  { open, types, onAttempt, pollMs = 60_000, random = Math.random }: ConfigSnapshotsOptions,
  signal: AbortSignal,
): AsyncGenerator<ConfigSnapshot, void> {
  const wake = createWake()
  const stale = createStaleConfig([registryPair.type, ...types])
  const notify = (act: () => void) => {
    act()
    wake.notify()
  }
  const service = open((push) => notify(() => stale.note(push)))
  const poll = setInterval(() => notify(stale.suspect), pollMs)
  signal.addEventListener('abort', wake.notify, { once: true })
  let values: Values | undefined
  try {
    for (let failures = 0; !signal.aborted; ) {
      const due = stale.take()
      if (due === undefined) {
        await wake.wait()
        continue
      }
      try {
        const fetched =
          due === 'version'
            ? await checkVersion(service, stale, values)
            : due === 'everything'
              ? await fetchAll(service, stale)
              : await fetchPairs(service, due, values)
        failures = 0
        onAttempt()
        if (fetched === undefined || isDeepStrictEqual(fetched, values)) continue
        values = fetched
        yield snapshotOf(values, stale.version)
      } catch (thrown) {
        if (signal.aborted) return
        stale.putBack(due)
        onAttempt(toGraphmillError(thrown))
        await pause(jitteredBackoffMs(failures++, { firstMs: 1000, mostMs: 30_000 }, random), signal)
      }
    }
  } finally {
    clearInterval(poll)
    signal.removeEventListener('abort', wake.notify)
  }
}

/** By workspace, type and key. */
type Values = ReadonlyMap<string, ReadonlyMap<string, ReadonlyMap<string, string>>>

const noValues: ReadonlyMap<string, string> = new Map()

/** Requests that wait for their answers at a time. */
const concurrent = 16

async function checkVersion(
  service: ConfigService,
  stale: StaleConfig,
  values: Values | undefined,
): Promise<Values | undefined> {
  const { version } = await service.ask({ operation: 'getkeys-all-ws', type: registryPair.type })
  stale.compare(version)
  return values
}

async function fetchAll(service: ConfigService, stale: StaleConfig): Promise<Values> {
  const answers = await Promise.all(
    stale.types.map((type) => service.ask({ operation: 'getkeys-all-ws', type })),
  )
  const found = answers.flatMap(({ values }, at) =>
    values.map(({ workspace }) => ({ workspace, type: stale.types[at]! })),
  )
  const pairs = new Map(found.filter(stale.isFollowed).map((pair) => [JSON.stringify(pair), pair]))
  const values = await fetchPairs(service, [...pairs.values()], new Map())
  // The oldest of the versions: what changed between the answers is fetched again.
  stale.fetchedAll(Math.min(...answers.map(({ version }) => version)))
  return values
}

async function fetchPairs(
  service: ConfigService,
  pairs: readonly ConfigPair[],
  values: Values = new Map(),
): Promise<Values> {
  const fetched = new Map(values)
  for (const batch of batches(pairs, { maxItems: concurrent }))
    await Promise.all(
      batch.map(async ({ workspace, type }) => {
        const answer = await service.ask({ operation: 'getvalues', workspace, type })
        const texts = new Map(answer.values.map(({ key, value }) => [key, value]))
        fetched.set(workspace, new Map(fetched.get(workspace)).set(type, texts))
      }),
    )
  return fetched
}

function snapshotOf(values: Values, version: number): ConfigSnapshot {
  const registered = values.get(registryPair.workspace)?.get(registryPair.type) ?? noValues
  // A service that registers no workspace has those that hold something.
  const workspaces = [...(registered.size > 0 ? registered : values).keys()]
  return {
    version,
    workspaces: workspaces.filter((workspace) => !workspace.startsWith('_')).sort(),
    values: (workspace, type) => values.get(workspace)?.get(type) ?? noValues,
  }
}
