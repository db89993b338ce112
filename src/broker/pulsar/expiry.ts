// Messages that Pulsar expired (a time to live, `expire-messages`) before a group had read them. Pulsar counts them by group for as
// long as it has the topic loaded, and settles them by itself. What was reported stands in a property of the subscription.
import type { LostRange } from '../broker.ts'
import { expiriesOf, readProperties, writeProperties } from './admin.ts'
import type { Endpoint } from './endpoint.ts'

/** Holds, by partition, the time of the last expiry that was reported, and the count that Pulsar had then. */
const property = 'graphmill-expired'

interface Member {
  readonly topic: string
  readonly group: string
  /** By which the server knows the member. */
  readonly name: string
  readonly onLost: (lost: LostRange) => Promise<void>
  /** What this member has reported, by partition, should the server not let it set the property. */
  readonly reported: Map<number, Noted>
}

type Noted = readonly [time: number, total: number]

/** Reports what has expired since the last report. Of all members of a group only the first by name does so. */
export async function reportExpired(endpoint: Endpoint, member: Member): Promise<void> {
  const { topic, group, name, onLost, reported } = member
  const partitions = await expiriesOf(endpoint, topic, group)
  const [first] = partitions.flatMap(({ consumers }) => consumers).sort()
  if (first !== name) return
  for (const [partition, { total, time }] of partitions.entries()) {
    if (total === 0 || reported.get(partition)?.[0] === time) continue
    // Reported twice is better than never, where the server does not let us read them.
    const noted = notedIn(await readProperties(endpoint, { topic, group }).catch(() => ({})))[partition]
    const [reportedTime, reportedTotal] = reported.get(partition) ?? noted ?? [0, 0]
    if (time === reportedTime) continue
    // The count begins at 0 again when another server takes the topic: then all of it is new.
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
    // Others may have written beside it meanwhile.
    const properties = await readProperties(endpoint, { topic, group })
    const all = { ...notedIn(properties), [partition]: [time, total] }
    await writeProperties(endpoint, { topic, group }, { ...properties, [property]: JSON.stringify(all) })
  }
}

function notedIn(properties: Readonly<Record<string, string>>): Partial<Record<string, Noted>> {
  try {
    return JSON.parse(properties[property] ?? '{}') as Partial<Record<string, Noted>>
  } catch {
    return {}
  }
}
