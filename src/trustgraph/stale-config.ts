// What must be fetched of TrustGraph's configuration: its rules of versions, and two more, since its notices can be lost.
import type { ConfigPush } from './config-service.ts'

export interface ConfigPair {
  readonly workspace: string
  readonly type: string
}

/** What to do next: fetch everything, ask whether the version is still the same, or fetch pairs. */
export type Due = 'everything' | 'version' | readonly NotedPair[]

interface NotedPair extends ConfigPair {
  /** Of the notice that named it. */
  readonly version: number
}

export interface StaleConfig {
  readonly types: readonly string[]
  /** The newest version that was seen; notices of it, and of older ones, are ignored. */
  readonly version: number
  /** Whether the values of a pair are of interest. */
  readonly isFollowed: (pair: ConfigPair) => boolean
  note(push: ConfigPush): void
  /** A notice may have been lost. */
  suspect(): void
  /** Compares the service's version with the one that was seen. */
  compare(version: number): void
  /** Everything was fetched, at this version or a later one. */
  fetchedAll(version: number): void
  /** What to do next; undefined when nothing is stale. */
  take(): Due | undefined
  /** A fetch failed. */
  putBack(due: Due): void
}

/** Where TrustGraph registers its workspaces, as keys. */
export const registryPair: ConfigPair = { workspace: '__workspaces__', type: 'workspace' }

/** At first everything is stale. */
export function createStaleConfig(types: readonly string[]): StaleConfig {
  let version = 0
  let everything = true
  /** Whether everything was fetched once. */
  let isComplete = false
  let suspected = false
  const pairs = new Map<string, NotedPair>()

  function isFollowed({ workspace, type }: ConfigPair): boolean {
    if (type === registryPair.type) return workspace === registryPair.workspace
    return types.includes(type) && !workspace.startsWith('_')
  }

  function add(pair: NotedPair): void {
    const key = JSON.stringify([pair.workspace, pair.type])
    if (isFollowed(pair) && (pairs.get(key)?.version ?? -1) < pair.version) pairs.set(key, pair)
  }

  return {
    types,
    get version() {
      return version
    },
    isFollowed,
    note(push) {
      if (push.version <= version) return
      const { changes, workspace_changes: workspaces } = push
      const isEmpty = Object.keys(changes).length === 0 && workspaces === null
      // After a gap: a notice was lost, or two changes at a time were both announced under the version of the second.
      // The service writes an empty notice when it starts.
      if (isComplete && (isEmpty || push.version > version + 1)) everything = true
      version = push.version
      for (const [type, changed] of Object.entries(changes))
        for (const workspace of changed) add({ workspace, type, version })
      if (workspaces !== null) add({ ...registryPair, version })
      for (const workspace of workspaces?.created ?? [])
        for (const type of types) add({ workspace, type, version })
    },
    suspect() {
      suspected = true
    },
    compare(found) {
      // An older one, too: the service has lost what it stored.
      everything ||= found !== version
      version = Math.min(version, found)
    },
    fetchedAll(fetched) {
      isComplete = true
      version = Math.max(version, fetched)
      for (const [key, pair] of pairs) if (pair.version <= fetched) pairs.delete(key)
    },
    take() {
      const noted = [...pairs.values()]
      if (everything) {
        everything = false
        suspected = false
        return 'everything'
      }
      if (noted.length > 0) {
        pairs.clear()
        return noted
      }
      if (!suspected) return undefined
      suspected = false
      return 'version'
    },
    putBack(due) {
      if (due === 'everything') everything = true
      else if (due === 'version') suspected = true
      else for (const pair of due) add(pair)
    },
  }
}
