// How often members of a group died over the messages of each partition, in the properties of its subscription: they outlive
// members and servers. Pulsar's own count of redeliveries says nothing here: it counts what was refused, not what died with its
// member. A member is dead when it is noted here and not connected. Members that write at once may lose a note of another:
// then a death is not counted, and comes again.
import { toGraphmillError } from '../../errors.ts'
import type { ReadMessage, Subscription, Suspect } from '../broker.ts'
import { maxSuspects, suspectAfter } from '../window/deaths.ts'
import { groupOf, readProperties, writeProperties } from './admin.ts'
import type { Endpoint } from './endpoint.ts'

/** What a member knows of the deaths before it. */
export interface MemberDeaths {
  /** To be asked once for each message that comes. */
  suspectOf(message: ReadMessage): Suspect | undefined
  /** The member leaves in order: that is no death. Never rejects. */
  leave(): Promise<void>
}

export const noDeaths: MemberDeaths = { suspectOf: () => undefined, leave: async () => {} }

interface Notes {
  /** Members that have not left. */
  readonly members: readonly string[]
  /** By partition: where everything before is settled, and how many died there. */
  readonly marks: Readonly<Record<string, readonly [mark: string, deaths: number]>>
  /** Processes that died with a message alone, by its partition and position. */
  readonly alone: Readonly<Record<string, number>>
}

const property = 'graphmill-deaths'

/** Notes that `name` is a member, before it takes anything. Where the server does not let us, deaths are not counted. */
export async function noteMember(
  endpoint: Endpoint,
  { topic, group, maxInFlight }: Subscription,
  name: string,
): Promise<MemberDeaths> {
  const place = { topic, group }

  async function change(to: (notes: Notes) => Notes): Promise<void> {
    const properties = await readProperties(endpoint, place)
    const changed = JSON.stringify(to(notesIn(properties)))
    if (changed !== properties[property])
      await writeProperties(endpoint, place, { ...properties, [property]: changed })
  }

  /** Messages that are still to be handled alone, by partition. */
  const suspects = new Map<number, number>()
  try {
    const connected = await groupOf(endpoint, place)
    await change((notes) => {
      const noted = withDeaths(notes, connected)
      for (const [partition, [, deaths]] of Object.entries(noted.marks))
        if (deaths >= suspectAfter) suspects.set(Number(partition), Math.min(maxInFlight, maxSuspects))
      return { ...noted, members: [...noted.members.filter((one) => one !== name), name] }
    })
  } catch (thrown) {
    const err = toGraphmillError(thrown)
    endpoint.log.debug?.({ ...place, err }, 'deaths of members can not be counted')
    return noDeaths
  }

  return {
    suspectOf({ partition, position }) {
      const left = suspects.get(partition) ?? 0
      if (left === 0) return undefined
      suspects.set(partition, left - 1)
      const key = `${partition} ${position}`
      return {
        deaths: async () => notesIn(await readProperties(endpoint, place)).alone[key] ?? 0,
        record: (deaths) =>
          change((notes) => {
            const { [key]: _, ...others } = notes.alone
            return { ...notes, alone: deaths === 0 ? others : { ...others, [key]: deaths } }
          }),
      }
    },
    async leave() {
      const without = (notes: Notes) => ({ ...notes, members: notes.members.filter((one) => one !== name) })
      await change(without).catch((thrown) =>
        endpoint.log.debug?.(
          { ...place, err: toGraphmillError(thrown) },
          'a member could not be crossed out',
        ),
      )
    },
  }
}

/** The notes with the deaths since, where members are gone without having left. */
function withDeaths(
  { members, marks, alone }: Notes,
  now: { readonly members: ReadonlySet<string>; readonly marks: ReadonlyMap<number, string> },
): Notes {
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

function notesIn(properties: Readonly<Record<string, string>>): Notes {
  const none: Notes = { members: [], marks: {}, alone: {} }
  try {
    return { ...none, ...(JSON.parse(properties[property] ?? '{}') as Partial<Notes>) }
  } catch {
    return none
  }
}
