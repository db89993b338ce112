// How often members of a group died with messages of each partition in flight, in the properties of its subscription, which
// outlive members and servers. Pulsar's own count of redeliveries does not help: it counts negative acknowledgements, not
// deaths of members. A member is dead when it is noted here and not connected. When members write at the same time, a note may
// be lost: then a death is not counted, and is counted the next time.
import { toGraphmillError } from '../../errors.ts'
import type { ReadMessage, Subscription, Suspect } from '../broker.ts'
import { maxSuspects, suspectAfter } from '../window/deaths.ts'
import { changeProperty, groupOf, parseProperty, readProperties, type SubscriptionName } from './admin.ts'
import type { Endpoint } from './endpoint.ts'

/** The deaths that a member found when it joined. */
export interface MemberDeaths {
  /** Call it once for each message that comes. */
  suspectOf(message: ReadMessage): Suspect | undefined
  /** Notes that the member left in order, without a death. Never rejects. */
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

/** Notes that `name` is a member, before it takes a message. When the server refuses that, deaths are not counted. */
export async function noteMember(
  endpoint: Endpoint,
  { topic, group, maxInFlight }: Subscription,
  name: string,
): Promise<MemberDeaths> {
  const subscription = { topic, group }
  const notes = notesOf(endpoint, subscription)
  /** Messages that are still to be handled alone, by partition. */
  const suspects = new Map<number, number>()
  try {
    const connected = await groupOf(endpoint, subscription)
    await notes.change((before) => {
      const noted = withDeaths(before, connected)
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
      return suspectIn(notes, `${partition} ${position}`)
    },
    async leave() {
      try {
        await notes.change((now) => ({ ...now, members: now.members.filter((one) => one !== name) }))
      } catch (thrown) {
        const err = toGraphmillError(thrown)
        endpoint.log.debug({ ...subscription, err }, 'a member could not be removed from the notes of deaths')
      }
    },
  }
}

interface StoredNotes {
  read(): Promise<DeathNotes>
  change(to: (notes: DeathNotes) => DeathNotes): Promise<void>
}

function notesOf(endpoint: Endpoint, subscription: SubscriptionName): StoredNotes {
  return {
    read: async () => notesIn((await readProperties(endpoint, subscription))[property]),
    change: (to) =>
      changeProperty(endpoint, subscription, property, (value) => JSON.stringify(to(notesIn(value)))),
  }
}

/** `key` names the message in the notes. */
function suspectIn(notes: StoredNotes, key: string): Suspect {
  return {
    deaths: async () => (await notes.read()).alone[key] ?? 0,
    record: (deaths) =>
      notes.change((now) => {
        const { [key]: _, ...others } = now.alone
        return { ...now, alone: deaths === 0 ? others : { ...others, [key]: deaths } }
      }),
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

function notesIn(text: string | undefined): DeathNotes {
  const none: DeathNotes = { members: [], marks: {}, alone: {} }
  return { ...none, ...parseProperty<Partial<DeathNotes>>(text) }
}
