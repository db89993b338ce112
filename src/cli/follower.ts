// Follows TrustGraph's configuration service for as long as an entry of the flows file asks for it: one client for the process.
import type { Logger } from 'pino'
import type { Broker } from '../broker/broker.ts'
import type { Config } from '../config/config.ts'
import { type GraphmillError, toGraphmillError } from '../errors.ts'
import type { Circuits } from '../flow/runner/circuits.ts'
import { openConfigService } from '../trustgraph/config-service.ts'
import { configSnapshots } from '../trustgraph/config-snapshots.ts'
import { followedTypes } from '../trustgraph/followed-flow.ts'
import { topicNaming } from '../trustgraph/wire.ts'
import { entriesOf } from './flows.ts'
import { isFollowing } from './followed-flows.ts'
import type { FollowedState } from './prepare-flows.ts'

export interface Follower {
  readonly state: FollowedState
  /** Begins to follow; `changed` is called when there is a new snapshot. */
  start(broker: Broker, changed: () => Promise<void>): void
  /** The flows file has changed. */
  refresh(): void
  /** Whether flows wait for the first snapshot. */
  isStarting(): boolean
}

/** Open while the service does not answer. */
const circuit = 'trustgraph:config'

export function createFollower(
  { config, log, circuits }: { readonly config: Config; readonly log: Logger; readonly circuits: Circuits },
  signal: AbortSignal,
): Follower {
  const state: FollowedState = { snapshot: undefined, last: new Map(), refusals: new Map() }
  let opened: { readonly broker: Broker; readonly changed: () => Promise<void> } | undefined
  let following: { readonly types: readonly string[]; readonly stop: AbortController } | undefined

  function noteAttempt(error?: GraphmillError): void {
    if (error === undefined) circuits.succeeded(circuit)
    else {
      circuits.failed(circuit, error, 1)
      log.warn(
        { err: error, version: state.snapshot?.version },
        "waiting for TrustGraph's configuration service",
      )
    }
  }

  async function follow(types: readonly string[], until: AbortSignal): Promise<void> {
    const { broker, changed } = opened!
    const nameOf = topicNaming(config.options.broker)
    const topics = {
      request: nameOf('request:tg:config'),
      response: nameOf('response:tg:config'),
      notify: nameOf('notify:tg:config'),
    }
    log.info({ types }, "following TrustGraph's configuration service")
    const snapshots = configSnapshots(
      {
        open: (onPush) => openConfigService({ broker, topics, log, onPush }, until),
        types,
        onAttempt: noteAttempt,
      },
      until,
    )
    for await (const snapshot of snapshots) {
      state.snapshot = snapshot
      const before = state.refusals
      await changed()
      log.info({ version: snapshot.version }, "TrustGraph's configuration has changed")
      for (const [flow, error] of state.refusals)
        if (before.get(flow)?.message !== error.message)
          log.error(
            { flow, err: error },
            'the change is refused; the previous version of the flow stays in use',
          )
    }
  }

  function refresh(): void {
    if (opened === undefined || signal.aborted) return
    const types = typesOf(config, following?.types)
    if (types?.join() === following?.types.join()) return
    following?.stop.abort()
    following = types && { types, stop: new AbortController() }
    if (following === undefined) {
      state.snapshot = undefined
      circuits.succeeded(circuit)
      return
    }
    const until = AbortSignal.any([signal, following.stop.signal])
    follow(following.types, until).catch((thrown) => {
      if (!until.aborted)
        log.error({ err: toGraphmillError(thrown) }, "TrustGraph's configuration is not followed")
    })
  }

  return {
    state,
    start(broker, changed) {
      opened = { broker, changed }
      refresh()
    },
    refresh,
    isStarting: () => following !== undefined && state.snapshot === undefined,
  }
}

/** The types that the flows file needs; undefined when no entry follows the service. While the file cannot be read, those `before`. */
function typesOf(config: Config, before: readonly string[] | undefined): readonly string[] | undefined {
  try {
    const entries = entriesOf(config).filter(isFollowing)
    return entries.length > 0 ? followedTypes(entries.map(({ trustgraph }) => trustgraph)) : undefined
  } catch {
    return before
  }
}
