// An extractor: a chunk becomes prompt requests, one for each unit of work. Their replies come back to the extractor's own topic, and
// every reply part becomes facts. The extractor keeps no state between the two: everything it needs travels in the messages.
import { batches } from '../batches.ts'
import { topicName } from '../broker/topics.ts'
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { excerptOf } from '../items/excerpt.ts'
import type { Message } from '../messages/envelope.ts'
import type {
  DefinitionInit,
  EntityContext,
  Grounding,
  OntologyAttributeInit,
  OntologyEntityInit,
  OntologyRelationshipInit,
  ProgressInit,
  PromptResponse,
  RejectionInit,
  Relationship,
  RelationshipInit,
  TopicInit,
} from '../messages/generated.ts'
import { pythonText, type Row } from '../rows/row.ts'
import { unitsOf } from './expected-units.ts'
import {
  type Context,
  defineProcessor,
  type FlowSettings,
  type Output,
  type Outputs,
  type Processor,
} from './processor.ts'

/** A fact, by the port of its message. */
export interface FactPorts {
  readonly definitions: DefinitionInit
  readonly relationships: RelationshipInit & Pick<Relationship, 'objectEntity'>
  readonly topics: TopicInit
  readonly rows: Row & { readonly grounding?: Grounding | null }
  readonly 'ontology-entities': OntologyEntityInit
  readonly 'ontology-relationships': OntologyRelationshipInit
  readonly 'ontology-attributes': OntologyAttributeInit
}

export type FactPort = keyof FactPorts

/** An item that has passed the prompt's own schema. */
export type Item = Readonly<Record<string, unknown>>

/** A fact with its port, or why an item is no fact: a code that is counted and, when the code says too little, a sentence. */
export type Fact<P extends FactPort = FactPort> =
  | { [N in P]: { readonly to: N; readonly fact: FactPorts[N] } }[P]
  | { readonly refused: string; readonly message?: string }

/** One request for a chunk. */
export interface UnitRequest {
  /** The unit of work. Default: the extractor's name. */
  readonly unit?: string
  readonly terms: Readonly<Record<string, unknown>>
  /** What the reply brings back besides the unit and the chunk's place: ids, versions, offsets; at most 3 KiB. */
  readonly context?: Readonly<Record<string, string>>
  /** What must stand in the text. Default: facts are not looked for there. */
  readonly grounding?: ItemValues | undefined
  /** Whether the last part of the reply is to hold all items. Default false. */
  readonly repeat?: boolean
}

/** The values of items that are looked for in the text of a chunk, by their keys. */
export interface ItemValues {
  /** Those that an item has must stand there. If it has none of them, all its texts and numbers must. */
  readonly names: readonly string[]
  /** The sentence of the text that says the same is looked for, but need not be there. Default none. */
  readonly sentences?: readonly string[]
}

/** The facts of a reply part. */
export type FactsByPort<P extends FactPort> = ReadonlyMap<P, readonly FactPorts[P][]>

/** How one reply part is read. */
export interface ReplyReader<P extends FactPort> {
  /** `index` counts all items of the reply part. */
  readonly fact: (item: Item, index: number) => Fact<P>
  /**
   * The entity contexts of all facts of the reply, by message; of each part when the prompt service does not repeat items. Default:
   * none.
   */
  contexts?(facts: FactsByPort<P>, chunkId: string): Iterable<EntityContext[]>
  /** The payload of a message of these facts, besides run and model. Default: `{ facts }`. */
  payload?(facts: readonly FactPorts[P][], to: P): object
}

/** An extractor that decides about its requests and reads replies by itself. */
export interface UnitExtractorOptions<P extends FactPort> {
  readonly name: string
  /** The prompt to run. */
  readonly prompt: string
  readonly outputs: readonly P[]
  /** The requests for a chunk; none when there is nothing to ask. */
  readonly requests: (
    chunk: Message<'Chunk'>,
    context: Context,
  ) => Iterable<UnitRequest> | AsyncIterable<UnitRequest>
  /** May throw: then the reply part is dead-lettered, and its unit is partial. */
  readonly reader: (
    reply: PromptResponse,
    context: Context,
    items: readonly unknown[],
  ) => ReplyReader<P> | Promise<ReplyReader<P>>
}

/** An extractor with one request for each chunk, and a fact for each item. */
export interface ExtractorOptions<Kind extends string, P extends FactPort> {
  readonly name: string
  /** The prompt to run for each chunk. */
  readonly prompt: string
  readonly terms: (chunk: Message<'Chunk'>['payload']) => Readonly<Record<string, unknown>>
  /**
   * The kind of every item, for a prompt of a single kind. An item's `type` is then a field of its own, unless the prompt's schema
   * restricts it to texts that name this kind.
   */
  readonly implied?: Kind
  /** From an item to a fact, by the item's type. */
  readonly facts: { readonly [K in Kind]: (item: Item) => Fact<P> }
  readonly outputs: readonly P[]
  /** What must stand in the text. Default: facts are not looked for there. */
  readonly grounding?: ItemValues | undefined
}

type Written = 'prompt' | 'rejected' | 'progress' | 'entity-contexts' | FactPort

/** A processor that asks a prompt about every chunk. */
export type Extractor = Processor<'chunk' | 'prompt-reply', Written>

/** Facts of one message, and their length as JSON: rows are sent twice over, in UTF-8, and must fit 700 KiB. */
const factLimits = { maxItems: 500, maxSize: 100_000, sizeOf: (fact: unknown) => JSON.stringify(fact).length }
/** Rejections of one message. */
export const rejectionLimits = { maxItems: 300 }

/**
 * Declares an extractor from a prompt and a dispatch table.
 * @example
 * export const extractDefinitions = defineExtractor({
 *   name: 'extract-definitions', prompt: 'extract-definitions', implied: 'definition', outputs: ['definitions'],
 *   terms: (chunk) => ({ text: chunk.text }),
 *   grounding: { names: ['entity'], sentences: ['definition'] },
 *   facts: { definition: (item) => ({ to: 'definitions', fact: { … } }) },
 * })
 */
export function defineExtractor<const Kind extends string, const P extends FactPort>(
  options: ExtractorOptions<Kind, P>,
): Extractor {
  const { name, prompt, outputs, facts, grounding, implied } = options

  function kindOf({ type }: Item, isOwnField: boolean): Kind | undefined {
    if (typeof type === 'string' && Object.hasOwn(facts, type)) return type as Kind
    return isOwnField || type === undefined || type === null ? implied : undefined
  }

  function reader({ prompts }: Context): ReplyReader<P> {
    const types = prompts.find(prompt)?.types ?? []
    const isOwnField = implied !== undefined && !types.includes(implied)
    return {
      fact(item) {
        const kind = kindOf(item, isOwnField)
        if (kind !== undefined) return facts[kind](item)
        return {
          refused: 'unknown_type',
          message: `The item has none of the types ${Object.keys(facts).join(', ')}.`,
        }
      },
    }
  }

  return defineUnitExtractor<P>({
    name,
    prompt,
    outputs,
    requests: (chunk) => [{ terms: options.terms(chunk.payload), grounding }],
    reader: (_reply, context) => reader(context),
  })
}

/**
 * Declares an extractor that sends several requests for a chunk, or reads a reply by the context of its request.
 * @example
 * export const extractRows = defineUnitExtractor({
 *   name: 'extract-rows', prompt: 'extract-rows', outputs: ['rows'],
 *   requests: (chunk, { settings }) =>
 *     settings.rowSchemas.map((schema) => ({ unit: `extract-rows:${schema.name}`, terms: { … }, grounding: { … } })),
 *   reader: (reply, { settings }) => ({ fact: (item) => … }),
 * })
 */
export function defineUnitExtractor<const P extends FactPort>(options: UnitExtractorOptions<P>): Extractor {
  const { name, prompt } = options

  async function* ask(message: Message<'Chunk'>, context: Context): Outputs<'prompt' | 'progress'> {
    const units = unitsOf(name, context.settings)
    if (!isAnnounced(message) && units.length > 0) yield { to: 'progress', payload: { kind: 'chunk', units } }
    const { text, part, index, offset, start, page, pages } = message.payload
    const { space, scope } = context
    const replyTo = topicName({ space, ...scope, class: 'response', role: 'prompt', receiver: name })
    const here = { part: String(part), index: String(index), length: String(text.length) }
    const place = { offset, start, pages: page === null ? [] : [offset, ...pages], firstPage: page ?? 1 }
    for await (const request of options.requests(message, context)) {
      const terms = Object.fromEntries(
        Object.entries(request.terms).map(([term, value]) => [term, JSON.stringify(value)]),
      )
      const echo = { ...request.context, unit: request.unit ?? name, ...here }
      const grounding = request.grounding ? { ...request.grounding, ...place } : null
      const { repeat = false } = request
      yield {
        to: 'prompt',
        payload: { promptId: prompt, terms, streaming: true, context: echo, grounding, repeat },
        replyTo,
      }
    }
  }

  async function* publishFacts(
    { payload: reply, chunkId }: Message<'PromptResponse'>,
    context: Context,
  ): Outputs<Exclude<Written, 'prompt'>> {
    const items = itemsOf(reply)
    const reader = await options.reader(reply, context, items)
    const { payload = (facts) => ({ facts }) } = reader
    const { run, model, promptId, repeated, groundings } = reply
    const sort = (from: number) => sortItems(items, groundings, { from, reader, ...context.settings })
    const from = Math.max(0, repeated ?? 0)
    const { facts, refused, ungrounded } = sort(from)
    for (const [to, all] of facts)
      for (const batch of batches(all, factLimits))
        yield { to, payload: { run, model, ...payload(batch, to) } } as Output<FactPort>
    if (repeated !== -1 && reader.contexts)
      for (const entities of reader.contexts(from === 0 ? facts : sort(0).facts, chunkId))
        yield { to: 'entity-contexts', payload: { entities } }
    for (const items of batches(refused, rejectionLimits))
      yield { to: 'rejected', payload: { promptId, run, model, items } }
    const counts = Object.fromEntries([...facts].map(([to, all]) => [to, all.length]))
    const unit = reply.context['unit'] ?? name
    yield { to: 'progress', payload: progressOf(unit, reply, { facts: counts, refused, ungrounded }) }
  }

  return defineProcessor<'chunk' | 'prompt-reply', Written>({
    name,
    inputs: ['chunk', 'prompt-reply'],
    outputs: ['prompt', 'rejected', 'progress', ...options.outputs],
    handle: (message, context): Outputs<Written> =>
      message.type === 'Chunk' ? ask(message, context) : publishFacts(message, context),
  })
}

/** Whether an entry of its part announces the chunk. Of one that comes from elsewhere the ledger knows nothing but what its extractors say. */
function isAnnounced({ source, documentId, chunkId, payload: { part, index } }: Message<'Chunk'>): boolean {
  return source === 'chunk-text' || chunkId === `${documentId}/${part}/${index}`
}

/** The facts by port, and the items that are none, from an index on. */
function sortItems<P extends FactPort>(
  items: readonly unknown[],
  groundings: readonly Grounding[],
  {
    from,
    reader,
    ungrounded: policy = 'keep',
  }: { readonly from: number; readonly reader: ReplyReader<P> } & Pick<FlowSettings, 'ungrounded'>,
) {
  const facts = new Map<P, FactPorts[P][]>()
  let ungrounded = 0
  const refused: RejectionInit[] = []
  for (const [index, item] of items.entries()) {
    if (index < from) continue
    const grounding = groundings[index] ?? null
    const isUngrounded = grounding?.status === 'ungrounded'
    let read: Fact<P> = isObject(item) ? reader.fact(item, index) : { refused: 'not_object' }
    if (!('refused' in read) && isUngrounded && policy === 'reject') read = notInText
    if ('refused' in read) {
      const { refused: reason, message = `The item is no fact: ${reason}.` } = read
      refused.push({ reason, text: excerptOf(JSON.stringify(item)), message })
    } else {
      if (isUngrounded) ungrounded++
      const fact = { ...read.fact, grounding }
      const list = facts.get(read.to)
      if (list) list.push(fact)
      else facts.set(read.to, [fact])
    }
  }
  return { facts, refused, ungrounded }
}

const notInText = { refused: 'ungrounded', message: 'Its values do not stand in the text.' }

function itemsOf(reply: PromptResponse): readonly unknown[] {
  if (reply.text)
    throw new GraphmillError('reply_unfit', `The prompt ${reply.promptId} was answered in text.`)
  if (reply.object === null) return []
  let items: unknown
  try {
    items = JSON.parse(reply.object)
  } catch (cause) {
    throw new GraphmillError('message_invalid', 'The object of the reply is not JSON.', { cause })
  }
  if (!Array.isArray(items))
    throw new GraphmillError(
      'reply_unfit',
      `The prompt ${reply.promptId} was answered in one value, and not in an array of items.`,
    )
  return items
}

function progressOf(
  unit: string,
  reply: PromptResponse,
  found: { facts: Record<string, number>; refused: readonly RejectionInit[]; ungrounded: number },
): ProgressInit {
  const rejected: Record<string, number> = { ...(reply.endOfStream ? reply.rejections : {}) }
  for (const { reason } of found.refused) rejected[reason] = (rejected[reason] ?? 0) + 1
  return {
    kind: 'reply',
    unit,
    run: reply.run,
    seq: reply.seq,
    last: reply.endOfStream,
    incomplete: reply.incomplete,
    facts: found.facts,
    ungrounded: found.ungrounded,
    rejected,
    repaired: reply.endOfStream ? reply.repaired : 0,
    duplicates: reply.endOfStream ? reply.duplicates : 0,
    usage: reply.usage,
    model: reply.model,
    error: reply.error,
  }
}

/** The longest name, in characters: percent-encoded several times over it must still fit a message. */
const maxName = 2000
/** The longest other text, in characters. */
const maxText = 100_000

/**
 * Some fields of an item as texts, or why the item is no fact: `empty` (missing, null or blank), `not_text` (a list or an object)
 * or `too_long` (names over 2,000 characters, the field `definition` over 100,000). A list of fields is a field and its aliases.
 * Numbers and booleans are written as TrustGraph writes them: 30 is "30", true is "True".
 */
export function texts<const Name extends string>(
  item: Item,
  fields: { readonly [N in Name]: readonly string[] },
): { readonly [N in Name]: string } | { readonly refused: string; readonly message: string } {
  const found: Record<string, string> = {}
  for (const [name, aliases] of Object.entries<readonly string[]>(fields)) {
    const value = aliases.map((alias) => item[alias]).find((each) => !isEmpty(each))
    if (value === undefined) return { refused: 'empty', message: `Its ${name} is missing or empty.` }
    if (typeof value === 'object')
      return { refused: 'not_text', message: `Its ${name} is a list or an object, and must be a text.` }
    const text = pythonText(value)
    const longest = name === 'definition' ? maxText : maxName
    if (text.length > longest)
      return { refused: 'too_long', message: `Its ${name} has more than ${longest} characters.` }
    found[name] = text
  }
  return found as { [N in Name]: string }
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (typeof value === 'string' && value.trim() === '')
}
