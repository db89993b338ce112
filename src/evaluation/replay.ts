// A model that knows the answers: it replies with the gold facts of the text that it is asked about, either clean or damaged as models
// damage them. It shows what is lost between a reply and its facts, without a server.
import { createHash } from 'node:crypto'
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../llm/llm.ts'
import { offline } from '../llm/providers.ts'
import { unknownUsage } from '../llm/usage.ts'
import { createRandom } from './bootstrap.ts'
import { type DamagedReply, type DamageName, damageNames, damages } from './damage.ts'
import type { Kind } from './facts.ts'
import type { GoldDocument } from './gold.ts'
import type { GoldFact } from './gold-facts.ts'

/** The values of `--replay`. */
export const replayModes = ['clean', 'damaged'] as const

export type ReplayMode = (typeof replayModes)[number]

/** The kinds that each prompt asks for, and whether its items name their type. */
const prompts: Readonly<Record<string, { readonly kinds: readonly Kind[]; readonly typed?: true }>> = {
  'extract-definitions': { kinds: ['definitions'] },
  'extract-relationships': { kinds: ['relationships'] },
  'extract-topics': { kinds: ['topics'] },
  'extract-rows': { kinds: ['rows'] },
  'extract-with-ontologies': { kinds: ['entities', 'triples'] },
  'agent-kg-extract': { kinds: ['definitions', 'relationships'], typed: true },
}

/** Characters that arrive at once. */
const deltaLength = 24

/** The output limit in tokens, less than any prompt's own: only replies under this one are cut off. */
const maxTokens = 1

/** `documents` are those that the model may be asked about now. */
export function createReplay(mode: ReplayMode, documents: () => readonly GoldDocument[]): Llm {
  return {
    ...offline,
    model: `replay-${mode}`,
    circuit: `llm:replay ${mode}`,
    sampling: { maxTokens },
    async *stream(request, signal): AsyncGenerator<CompletionEvent> {
      const { lines, document } = answerTo(request, documents())
      const damage = mode === 'clean' ? undefined : damageOf(document)
      const { text, finishReason = 'stop' } = written(lines, request, damage)
      for (let at = 0; at < text.length; at += deltaLength) {
        signal.throwIfAborted()
        yield { type: 'delta', kind: 'content', text: text.slice(at, at + deltaLength) }
      }
      yield { type: 'end', finishReason, usage: unknownUsage, model: `replay-${mode}`, raw: {} }
    },
  }
}

/** How the replies about a document are damaged: always in the same way. */
export function damageOf({ id }: Pick<GoldDocument, 'id'>): DamageName {
  return damageNames[seedOf(id) % damageNames.length]!
}

const seedOf = (text: string) => createHash('sha256').update(text).digest().readUInt32LE(0)

function answerTo({ origin }: CompletionRequest, documents: readonly GoldDocument[]) {
  const prompt = Object.hasOwn(prompts, origin?.promptId ?? '') ? prompts[origin!.promptId] : undefined
  const text = origin?.terms['text']
  if (!prompt || typeof text !== 'string')
    throw new GraphmillError('offline_unsupported', `Gold facts can't answer ${origin?.promptId ?? 'it'}.`)
  const exact = documents.find((each) => each.text === text)
  const [document, ...others] = exact ? [exact] : documents.filter((each) => each.text.includes(text))
  if (!document)
    throw new GraphmillError('offline_unsupported', 'No gold document has the text that is asked about.')
  const schema = origin?.terms['schema']
  const table = isObject(schema) ? schema['name'] : undefined
  const facts = prompt.kinds.flatMap((kind) => document.facts.get(kind) ?? [])
  const lines = facts
    .filter((fact) => fact.schema === undefined || fact.schema === table)
    .filter((fact) => belongsTo(fact, text, { document, others }))
    .map(({ kind, item }) => JSON.stringify(prompt.typed ? { type: kind.slice(0, -1), ...item } : item))
  return { lines, document }
}

/**
 * The first chunk of a document has all of its facts, since a fact may stand in several chunks together; others have their own.
 * A chunk that several documents have, such as a preamble, has only facts that all of them list.
 */
function belongsTo(
  { kind, key, item }: GoldFact,
  text: string,
  { document, others }: { readonly document: GoldDocument; readonly others: readonly GoldDocument[] },
): boolean {
  const stands = Object.values(item).some((value) => typeof value === 'string' && text.includes(value))
  if (others.length === 0) return stands || document.text.trimStart().startsWith(text.trimStart())
  return stands && others.every(({ facts }) => facts.get(kind)?.some((fact) => fact.key === key))
}

function written(
  lines: readonly string[],
  { messages, sampling }: CompletionRequest,
  damage: DamageName | undefined,
): DamagedReply {
  const whole = lines.map((line) => `${line}\n`).join('')
  // The flow asks for the rest of a reply that was cut off, or for the whole reply with a larger limit.
  const isRest = messages.some(({ role }) => role === 'assistant')
  const isLonger = damage === 'cut off' && (sampling?.maxTokens ?? 0) > maxTokens
  if (damage === undefined || isRest || isLonger || lines.length === 0) return { text: whole }
  return damages[damage](lines, createRandom(seedOf(whole)))
}
