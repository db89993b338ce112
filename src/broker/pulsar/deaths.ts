// How often members of a group died with messages of each partition in flight, in the properties of its subscription, which
// outlive members and servers. Pulsar's own count of redeliveries does not help: it counts negative acknowledgements, not
// deaths of members. A member is dead when it is noted here and not connected. When members write at the same time, a note may
// be lost: then a death is not counted, and is counted the next time.
import { toGraphmillError } from '../../errors.ts'
import type { ReadMessage, Subscription, Suspect } from '../broker.ts'
import { maxSuspects, suspectAfter } from '../window/deaths.ts'
import { groupOf, readProperties, writeProperties } from './admin.ts'
import type { Endpoint } from './endpoint.ts'

/** The deaths that a member found when it joined. */
export interface MemberDeaths {
  /** Call it once for each message that comes. */
  suspectOf(message: ReadMessage): Suspect | undefined
  /** DeathNotes that the member left in order, without a death. Never rejects. */
  leave(): Promise<void>
}

export const noDeaths: MemberDeaths = { suspectOf: () => undefined, leave: async () => {} }

interface DeathNotes {
  /** Members that have not left. */
  readonly members: readonly string[]
  /** By partition: the mark, and how many members died there. */
  readonly marks: Readonly<Record<string, readonly [mark: string, deaths: number]>>
  /** Processes that died with a message alone, by its partition and position. */
  readonly alone: Readonly<Record<string, number>>
}

const property = 'graphmill-deaths'

/** DeathNotes that `name` is a member, before it takes a message. When the server refuses that, deaths are not counted. */
export async function noteMember(
  endpoint: Endpoint,
  { topic, group, maxInFlight }: Subscription,
  name: string,
): Promise<MemberDeaths> {
  const subscription = { topic, group }

  async function change(to: (notes: DeathNotes) => DeathNotes): Promise<void> {
    const properties = await readProperties(endpoint, subscription)
    const changed = JSON.stringify(to(notesIn(properties)))
    if (changed !== properties[property])
      await writeProperties(endpoint, subscription, { ...properties, [property]: changed })
  }

  /** Messages that are still to be handled alone, by partition. */
  const suspects = new Map<number, number>()
  try {
    const connected = await groupOf(endpoint, subscription)
    await change((notes) => {
      const noted = withDeaths(notes, connected)
      for (const [partition, [, deaths]] of Object.entries(noted.marks))
        if (deaths >= suspectAfter) suspects.set(Number(partition), Math.min(maxInFlight, maxSuspects))
      return { ...noted, members: [...noted.members.filter((one) => one !== name), name] }
    })
  } catch (thrown) {
    const err = toGraphmillError(thrown)
    endpoint.log.debug({ ...subscription, err }, 'deaths of members cannot be counted')
    return noDeaths
  }

  return {
    suspectOf({ partition, position }) {
      const left = suspects.get(partition) ?? 0
      if (left === 0) return undefined
      suspects.set(partition, left - 1)
      const key = `${partition} ${position}`
      return {
        deaths: async () => notesIn(await readProperties(endpoint, subscription)).alone[key] ?? 0,
        record: (deaths) =>
          change((notes) => {
            const { [key]: _, ...others } = notes.alone
            return { ...notes, alone: deaths === 0 ? others : { ...others, [key]: deaths } }
          }),
      }
    },
    async leave() {
      const without = (notes: DeathNotes) => ({
        ...notes,
        members: notes.members.filter((one) => one !== name),
      })
      await change(without).catch((thrown) =>
        endpoint.log.debug(
          { ...subscription, err: toGraphmillError(thrown) },
          'a member could not be removed from the notes of deaths',
        ),
      )
    },
  }
}

/** The notes with the deaths since: one when a member is gone without having left. */
function withDeaths(
  { members, marks, alone }: DeathNotes,
  now: { readonly members: ReadonlySet<string>; readonly marks: ReadonlyMap<number, string> },
): DeathNotes {
  const died = members.some((name) => !now.members.has(name)) ? 1 : 0
  const counted = [...now.marks].map(([partition, mark]) => {
    const [at, deaths] = marks[partition] ?? ['', 0]
    return [partition, [mark, (at === mark ? deaths : 0) + died]] as const
  })
  return {
    members: members.filter((name) => now.members.has(name)),
    marks: Object.fromEntries(counted),
    alone,
  }
}

function notesIn(properties: Readonly<Record<string, string>>): DeathNotes {
  const none: DeathNotes = { members: [], marks: {}, alone: {} }
  try {
    return { ...none, ...(JSON.parse(properties[property] ?? '{}') as Partial<DeathNotes>) }
  } catch {
    return none
  }
}
