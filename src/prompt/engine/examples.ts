// The examples that a prompt shows its model. Small models write them down as if they were facts of the text: such an item is an echo
// when it equals an example, or nearly does, it does not stand in the text, and most of its words do not occur there at all.
import { createGrounder, type Grounder, groundedValues } from '../../grounding/grounding.ts'
import { isStopWord, wordsOf } from '../../grounding/words.ts'
import { isObject } from '../../is-object.ts'
import { createItemsParser } from '../../items/parser.ts'
import type { ItemSchema } from '../../items/validate.ts'
import { jsonValue } from '../../json-value.ts'
import type { GroundingInit, GroundingRequest } from '../../messages/generated.ts'
import type { Prompt } from '../catalogue/prompt.ts'
import { overrideTerms, type Terms } from '../catalogue/terms.ts'

/** An object by its keys, with values that are compared: without case, white space and punctuation at their ends. */
type Example = ReadonlyMap<string, string>

/** Examples of a prompt, at most, and how deep they may stand in other objects. */
const maxExamples = 200
const maxDepth = 8
/** A text of fewer words, apart from "the" and the like, is a name. */
const minSentence = 4

/** What the text says about an item. */
export interface Judgement {
  /** Undefined when the request did not ask for it. */
  readonly grounding: GroundingInit | undefined
  readonly isEcho: boolean
}

export type ItemJudge = (item: unknown) => Judgement

/**
 * Judges items by the term `text`; undefined when there is no such text. The text is prepared for the first item, and the examples
 * are looked for when they are first needed.
 */
export function createJudge(
  prompt: Prompt,
  terms: Terms,
  request: GroundingRequest | null | undefined,
): ItemJudge | undefined {
  const { text } = terms
  if (typeof text !== 'string') return undefined
  const kind = prompt.schema?.discriminator?.property ?? 'type'
  let grounder: Grounder | undefined
  let examples: readonly Example[] | undefined
  return (value) => {
    if (!request) {
      examples ??= examplesOf(prompt, terms)
      if (examples.length === 0) return { grounding: undefined, isEcho: false }
    }
    grounder ??= createGrounder(text, request ?? everything)
    const item = isObject(value) ? value : {}
    const grounding = grounder.ground(item)
    const judged = (isEcho: boolean) => ({ grounding: request ? grounding : undefined, isEcho })
    if (grounding.status !== 'ungrounded') return judged(false)
    const values = groundedValues(item, []).flatMap(([key, text]) => (key === kind ? [] : [text]))
    const { found, all } = grounder.index.coverage(values)
    if (2 * found >= all) return judged(false)
    examples ??= examplesOf(prompt, terms)
    const asExample = exampleOf(item)
    return judged(examples.some((example) => isSame(asExample, example, kind)))
  }
}

const everything: GroundingRequest = {
  names: [],
  sentences: [],
  offset: 0,
  start: null,
  pages: [],
  firstPage: 1,
}

/**
 * Whether two objects are equal in all keys of the smaller one, which are at least half of the other's: an item that is mostly new is no
 * echo. An equal `kind` alone is not enough. Beside an equal value, a sentence may be reworded.
 */
function isSame(item: Example, example: Example, kind: string): boolean {
  const [less, more] = item.size <= example.size ? [item, example] : [example, item]
  const keys = [...less.keys()].filter((key) => key !== kind)
  const isEqual = (key: string) => item.get(key) === example.get(key)
  return (
    2 * keys.length >= more.size - Number(more.has(kind)) &&
    (!item.has(kind) || !example.has(kind) || isEqual(kind)) &&
    keys.some(isEqual) &&
    keys.every((key) => isEqual(key) || isReworded(item.get(key) ?? '', example.get(key) ?? ''))
  )
}

/** Whether a text has two thirds of the words of an example's sentence. A name is never reworded. */
function isReworded(text: string, example: string): boolean {
  const wanted = contentWords(example)
  if (wanted.size < minSentence) return false
  const written = contentWords(text)
  const shared = [...wanted].filter((word) => written.has(word))
  return 3 * shared.length >= 2 * wanted.size
}

function contentWords(text: string): Set<string> {
  return new Set(wordsOf(text).flatMap(({ key }) => (isStopWord(key) ? [] : [key])))
}

/** The examples of prompts whose only term is the text. */
const known = new WeakMap<Prompt, readonly Example[]>()

/** The objects that fit the prompt's schema in the rendered prompt, apart from its text. */
function examplesOf(prompt: Prompt, terms: Terms): readonly Example[] {
  const isFixed = Object.keys(terms).every((term) => term === 'text')
  const before = isFixed ? known.get(prompt) : undefined
  if (before) return before
  const { system, user } = renderWithoutText(prompt, terms)
  const examples = [system, user].flatMap((text) => [...objectsIn(text, prompt.schema)])
  const found = examples.slice(0, maxExamples).map(exampleOf)
  if (isFixed) known.set(prompt, found)
  return found
}

/** A template may refuse an empty text. What stands in the text is no echo of it, so its objects do no harm. */
function renderWithoutText(prompt: Prompt, terms: Terms) {
  try {
    return prompt.render(overrideTerms(terms, { text: '' }))
  } catch {
    return prompt.render(terms)
  }
}

function* objectsIn(text: string, schema: ItemSchema | undefined): Generator<object> {
  const parser = createItemsParser(schema)
  for (const event of [...parser.push(text), ...parser.end().events]) {
    if (event.type === 'rejected') yield* fitting(jsonValue(event.record ?? ''), schema, maxDepth)
    else if (isObject(event.value)) yield* fitting(event.value, schema, maxDepth)
  }
}

/** The value and the objects in it, as far as they fit. */
function* fitting(value: unknown, schema: ItemSchema | undefined, depth: number): Generator<object> {
  if (typeof value !== 'object' || value === null || depth === 0) return
  if (isObject(value) && (schema?.test(value) ?? true)) yield value
  for (const inner of Object.values(value)) yield* fitting(inner, schema, depth - 1)
}

function exampleOf(item: object): Example {
  const entries = Object.entries(item).flatMap(([key, value]: [string, unknown]): [string, string][] => {
    if (value === null || typeof value === 'boolean') return []
    return [
      [
        key.toLowerCase().replace(/[\s_-]/g, ''),
        comparable(typeof value === 'string' ? value : JSON.stringify(value)),
      ],
    ]
  })
  return new Map(entries)
}

function comparable(text: string): string {
  const plain = text.normalize('NFKC').toLowerCase().replace(/\s+/g, ' ').trim()
  return plain.replace(/[\s.,;:!?。]+$/u, '')
}
