// Leaves a group on behalf of a session that crashed. kafkajs joins again as a new member, and the coordinator would wait
// for the old one at every rebalance, until the session of that one times out.
import { setTimeout as delay } from 'node:timers/promises'
import type { Broker, Kafka } from 'kafkajs'
import { type KafkaLog, openCluster } from './client.ts'

/** A coordinator that has just started is still loading the group. */
const attempts = 20
const betweenMs = 500

/** The types of kafkajs do not tell that brokers have it. */
type Coordinator = Broker & {
  leaveGroup(member: { readonly groupId: string; readonly memberId: string }): Promise<unknown>
}

/** Resolves when the member is gone; or could not be told off, which the log says at debug; or `signal` aborts. */
export async function leaveFor(
  kafka: Kafka,
  { group, memberId }: { readonly group: string; readonly memberId: string },
  { log, signal }: { readonly log: KafkaLog; readonly signal: AbortSignal },
): Promise<void> {
  const cluster = openCluster(kafka)
  try {
    await cluster.connect()
    for (let attempt = 1; !signal.aborted; attempt++) {
      try {
        const coordinator = (await cluster.findGroupCoordinator({ groupId: group })) as Coordinator
        await coordinator.leaveGroup({ groupId: group, memberId })
        return log.debug({ group, memberId }, 'kafka member left for')
      } catch (error) {
        if (isGone(error)) return
        if (attempt === attempts) throw error
      }
      await delay(betweenMs, undefined, { signal })
    }
  } catch (err) {
    log.debug({ group, memberId, err }, 'kafka member could not be left for')
  } finally {
    await cluster.disconnect().catch(() => {})
  }
}

function isGone(error: unknown): boolean {
  return (error as { type?: unknown }).type === 'UNKNOWN_MEMBER_ID'
}
