// Messages that Pulsar expired (a time to live, `expire-messages`) before a group had read them. Pulsar settles them by itself, and
// counts them by group as long as it has the topic loaded. A property of the subscription says what was reported.
import type { LostRange } from '../broker.ts'
import { changeProperty, expiriesOf, parseProperty, readProperties, type SubscriptionName } from './admin.ts'
import type { Endpoint } from './endpoint.ts'

/** Holds, by partition, the time of the last expiry that was reported, and the count that Pulsar had then. */
const property = 'graphmill-expired'

interface ReportingMember extends SubscriptionName {
  /** The server knows the member by it. */
  readonly name: string
  readonly onLost: (lost: LostRange) => Promise<void>
  /** What this member has reported, by partition, in case the server does not allow it to set the property. */
  readonly reported: Map<number, ReportedExpiry>
}

type ReportedExpiry = readonly [time: number, total: number]

/** Reports what has expired since the last report. Only the first member of a group by name does so. */
export async function reportExpired(endpoint: Endpoint, member: ReportingMember): Promise<void> {
  const { topic, group, name, onLost, reported } = member
  const partitions = await expiriesOf(endpoint, topic, group)
  const [first] = partitions.flatMap(({ consumers }) => consumers).sort()
  if (first !== name) return
  for (const [partition, { total, time }] of partitions.entries()) {
    if (total === 0 || reported.get(partition)?.[0] === time) continue
    // When the server does not allow us to read the properties, twice is better than never.
    const properties = await readProperties(endpoint, { topic, group }).catch(() => undefined)
    const noted = parseProperty<Partial<Record<number, ReportedExpiry>>>(properties?.[property])[partition]
    const [reportedTime, reportedTotal] = reported.get(partition) ?? noted ?? [0, 0]
    if (time === reportedTime) continue
    // The count begins at 0 again when another server loads the topic: then all of it is new.
    const count = total >= reportedTotal ? total - reportedTotal : total
    await onLost({
      topic,
      partition,
      first: undefined,
      next: new Date(time).toISOString(),
      count: count > 0 ? count : undefined,
      before: time,
    })
    reported.set(partition, [time, total])
    await changeProperty(endpoint, { topic, group }, property, (value) =>
      JSON.stringify({ ...parseProperty(value), [partition]: [time, total] }),
    )
  }
}
