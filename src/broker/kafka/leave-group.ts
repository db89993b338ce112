// Leaves a group on behalf of a session that crashed. kafkajs joins again as a new member, and the coordinator would wait
// for the old one at every rebalance until its session times out.
import { setTimeout as delay } from 'node:timers/promises'
import type { Kafka } from 'kafkajs'
import type { BrokerLog } from '../availability.ts'
import { findCoordinator, openCluster } from './quirks.ts'

/** A coordinator that has just started is still loading the group. */
const attempts = 20
const betweenMs = 500

/** Resolves when the member has left, when that failed (logged at debug), or when `signal` aborts. */
export async function leaveFor(
  kafka: Kafka,
  { group, memberId }: { readonly group: string; readonly memberId: string },
  { log, signal }: { readonly log: BrokerLog; readonly signal: AbortSignal },
): Promise<void> {
  const cluster = openCluster(kafka)
  try {
    await cluster.connect()
    for (let attempt = 1; !signal.aborted; attempt++) {
      try {
        const coordinator = await findCoordinator(cluster, group)
        await coordinator.leaveGroup({ groupId: group, memberId })
        return log.debug({ group, memberId }, 'kafka left the group for a member')
      } catch (error) {
        if (isGone(error)) return
        if (attempt === attempts) throw error
      }
      await delay(betweenMs, undefined, { signal })
    }
  } catch (err) {
    log.debug({ group, memberId, err }, 'kafka could not leave the group for a member')
  } finally {
    await cluster.disconnect().catch(() => {})
  }
}

function isGone(error: unknown): boolean {
  return (error as { type?: unknown }).type === 'UNKNOWN_MEMBER_ID'
}
