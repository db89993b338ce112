// Finds the items inside an object that is none itself: the members of a map, the arguments of a tool call, lists further down, JSON in a
// string. An object that has a required key of an item is no wrapper: it is unclear which of the two was meant.
import { isObject } from '../is-object.ts'
import { folded } from './directed.ts'
import type { ItemEvent, RepairName } from './item.ts'
import type { ItemSchema } from './validate.ts'
import type { WrittenNumbers } from './value.ts'

/** What an object holds, in order: items, and what is in the place of an item and is none. */
export type Held =
  | { readonly type: 'item'; readonly value: unknown; readonly repairs: readonly RepairName[] }
  | { readonly type: 'rejected'; readonly value: unknown; readonly error: string }
  | { readonly type: 'decoded'; readonly event: ItemEvent }

export interface UnwrapOptions {
  readonly schema: ItemSchema
  readonly numbers: WrittenNumbers
  /** The events of the JSON text in a string; none when it is just a string. */
  readonly decode: (text: string) => readonly ItemEvent[]
}

/** How deep the items of a wrapper may be: a list of tool calls whose arguments hold lists needs six. */
const maxLevel = 8

/** Keys that tool calls and schemas have besides what they hold. */
const envelopeKeys = new Set(['name', 'type', 'id'])

/** Keys, folded, of servers and models: of the answer, and of the thoughts before it. */
const answerKeys = new Set(['content', 'text', 'response', 'answer', 'output', 'message', 'completion'])
const thoughtKeys = new Set([
  'reasoning',
  'reasoningcontent',
  'thinking',
  'thought',
  'thoughts',
  'scratchpad',
])

/** Whether an object is a thought in a server's response. */
function isThought({ type, thought }: Readonly<Record<string, unknown>>): boolean {
  return thought === true || type === 'reasoning' || type === 'thinking'
}

/** What `value`, which is not an item, holds; empty when there is no item in it. */
export function unwrap(value: Record<string, unknown>, options: UnwrapOptions): readonly Held[] {
  return new Wrapped(options).inObject(value, 1)
}

class Wrapped {
  readonly #options: UnwrapOptions
  /** Keys, folded, by which an object begins an item. */
  readonly #ownKeys: ReadonlySet<string>

  constructor(options: UnwrapOptions) {
    this.#options = options
    this.#ownKeys = new Set(options.schema.ownKeys.map(folded).filter((key) => !envelopeKeys.has(key)))
  }

  inObject(value: Record<string, unknown>, level: number): readonly Held[] {
    if (level > maxLevel) return []
    const members = Object.entries(value)
    const held = members.map(([key, member]) =>
      this.#inMember(key, member, { level, isOnly: members.length === 1 }),
    )
    if (!held.flat().some(isItem)) return []
    if (members.some(([key], index) => held[index]!.length === 0 && this.#ownKeys.has(folded(key)))) return []
    // Beside an item, an object is one too.
    const isMap = members.some(([_, member], index) => isObject(member) && held[index]?.[0]?.type === 'item')
    return members.flatMap(([_, member], index) => {
      const inside = held[index]!
      return isMap && isObject(member) && inside.length === 0 ? [this.#rejected(member)] : inside
    })
  }

  #inMember(
    key: string,
    member: unknown,
    { level, isOnly }: { level: number; isOnly: boolean },
  ): readonly Held[] {
    const name = folded(key)
    if (thoughtKeys.has(name)) return []
    if (typeof member === 'string')
      return isOnly || answerKeys.has(name) || /^\s*(?:[{[]|```)/.test(member) ? this.#decoded(member) : []
    if (Array.isArray(member)) return this.#inList(member, level + 1, key)
    if (!isObject(member)) return []
    const item = this.#item(member, key)
    return item ? [{ ...item, repairs: [...item.repairs, 'unwrapped'] }] : this.inObject(member, level + 1)
  }

  #inList(list: readonly unknown[], level: number, listName: string): readonly Held[] {
    if (level > maxLevel) return []
    return list.flatMap((element) => {
      if (typeof element === 'string') return this.#decoded(element)
      if (Array.isArray(element)) return this.#inList(element, level + 1, listName)
      if (!isObject(element)) return []
      const item = this.#item(element, listName)
      if (item) return [item]
      if (isThought(element)) return []
      const inside = this.inObject(element, level + 1)
      return inside.length > 0 ? inside : [this.#rejected(element)]
    })
  }

  #item(value: Record<string, unknown>, listName: string) {
    const { schema, numbers } = this.#options
    const adjusted = schema.adjust(value, { numbers, listName })
    if (adjusted.error !== undefined) return undefined
    return { type: 'item', value: adjusted.value, repairs: adjusted.repairs } as const
  }

  #rejected(value: Record<string, unknown>): Held {
    return { type: 'rejected', value, error: this.#options.schema.check(value) ?? '' }
  }

  #decoded(text: string): readonly Held[] {
    if (!text.includes('{')) return []
    return this.#options.decode(text).map((event) => ({ type: 'decoded', event }) as const)
  }
}

function isItem(held: Held): boolean {
  return held.type === 'item' || (held.type === 'decoded' && held.event.type === 'item')
}
