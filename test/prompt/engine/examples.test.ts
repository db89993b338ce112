import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openCache, type ReplyCache } from '../../../src/llm/cache/reply-cache.ts'
import { askAll, itemSchema, testPrompt } from '../../support/asking.ts'
import { scriptedLlm } from '../../support/scripted-llm.ts'

let dir: string
let replies: ReplyCache
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'graphmill-examples-'))
  replies = openCache({ dir })
})
afterEach(async () => {
  await replies.close()
  await rm(dir, { recursive: true, force: true })
})

const example = { e: 'lighthouse keeper', d: 'A person who tends a lantern.' }
const echo = JSON.stringify(example)
const mill = '{"e": "mill", "d": "It grinds."}'
const grounding = { names: ['e'], sentences: ['d'], offset: 5, start: 5, pages: [], firstPage: 1 }
const prompt = testPrompt({
  jsonSchema: itemSchema,
  render: ({ text }) => ({ system: `Such as ${echo}`, user: `Read: ${String(text)}` }),
})
const about = (text: string) => ({ prompt, terms: { text }, grounding })

it('a run that is replayed has the same places, however its parts are cut', async () => {
  const cache = { replies, workspace: 'w' }
  const llm = scriptedLlm([`${mill}\n${echo}\n{"e": "stone", "d": "x"}`])
  const more = { ...about('The mill has a stone.'), cache }
  const [first, second] = [await askAll(llm, more), await askAll(llm, more)]
  const placesOf = ({ parts }: typeof first) => parts.flatMap(({ groundings = [] }) => groundings)
  expect(llm.requests).toHaveLength(1)
  expect(placesOf(first).map(({ status }) => status)).toEqual(['exact', 'exact'])
  expect(placesOf(second)).toEqual(placesOf(first))
  expect(second.end.rejectedBy).toEqual({ echo_of_example: 1 })
})

it('an example whose sentence is reworded is an echo, and one of another thing or with another sentence is none', async () => {
  const birds = { e: 'Gannet', d: 'A large white seabird that dives into the sea to catch fish.' }
  const of = (e: string, d: string) => JSON.stringify({ e, d })
  const reworded = of('Gannet', 'Large white seabird that dives to catch fish. Can live up to 30 years.')
  const kept = [of('Puffin', birds.d), of('Gannet', 'An old model of a sports car from Leeds.')]
  const llm = scriptedLlm([[reworded, ...kept].join('\n')])
  const shown = testPrompt({
    jsonSchema: itemSchema,
    render: ({ text }) => ({ system: `Such as ${JSON.stringify(birds)}`, user: `Read: ${String(text)}` }),
  })
  const { items, end } = await askAll(llm, { ...about('The mill has a stone.'), prompt: shown })
  expect(items.map((item) => JSON.stringify(item))).toEqual(kept)
  expect(end.rejectedBy).toEqual({ echo_of_example: 1 })
})

it('a reply of nothing but echoes is not remembered', async () => {
  const cache = { replies, workspace: 'w' }
  const llm = scriptedLlm([echo, mill])
  const more = { ...about('The mill.'), cache }
  expect((await askAll(llm, more)).end).toMatchObject({ accepted: 0, incomplete: 'no_facts' })
  expect((await askAll(llm, more)).items).toEqual([{ e: 'mill', d: 'It grinds.' }])
  expect(llm.requests).toHaveLength(2)
})

it('an echo in place of a record that failed its schema does not replace it', async () => {
  const llm = scriptedLlm([`${mill}\n{"e": "lighthouse keeper"}`, echo])
  const { items, end } = await askAll(llm, about('The mill.'))
  expect(items).toEqual([{ e: 'mill', d: 'It grinds.' }])
  expect(end).toMatchObject({ rejectedBy: { schema: 1 }, reasked: 0 })
})

it('a model that repeats an example without end is stopped', async () => {
  const llm = scriptedLlm([`${`${echo}\n`.repeat(200)}`])
  const { end } = await askAll(llm, about('The mill.'))
  expect(end.cause?.type).toBe('repetition')
  expect(end.accepted).toBe(0)
})

it('without a grounding in the request there are no places, and echoes are rejected all the same', async () => {
  const { parts, end } = await askAll(scriptedLlm([`${mill}\n${echo}`]), {
    prompt,
    terms: { text: 'The mill.' },
  })
  expect(parts.every((part) => !('groundings' in part))).toBe(true)
  expect(end.rejectedBy).toEqual({ echo_of_example: 1 })
})

it.each([
  ['a key of three', { subject: 'Bass Rock' }],
  ['its type only', { type: 'fact' }],
])('an item that shares with an example %s is no echo', async (_, shown) => {
  const fact = { type: 'fact', subject: 'Bass Rock', predicate: 'has height', object: '107 metres' }
  const partial = testPrompt({ render: () => ({ system: JSON.stringify(shown), user: 'Read' }) })
  const { items } = await askAll(scriptedLlm([JSON.stringify(fact)]), {
    prompt: partial,
    terms: { text: 'It rises 107 metres.' },
  })
  expect(items).toEqual([fact])
})

it('a prompt without a text is not checked', async () => {
  const { items } = await askAll(scriptedLlm([echo]), { prompt, terms: { question: 'Who?' } })
  expect(items).toEqual([example])
})

it('items with long texts in any script fit a reply part with their places', async () => {
  const name = '東京都庁舎の展望室'.repeat(30)
  const items = Array.from({ length: 2000 }, (_, n) => ({ e: name, d: `${n}` }))
  const llm = scriptedLlm([{ pieces: [items.map((item) => JSON.stringify(item)).join('\n')] }])
  const { parts } = await askAll(llm, { ...about(`${name}。`), streaming: false })
  const sizes = parts.map(({ object, groundings }) => Buffer.byteLength(object! + JSON.stringify(groundings)))
  expect(Math.max(...sizes)).toBeLessThan(700 * 1024)
  expect(parts.flatMap(({ groundings = [] }) => groundings)).toHaveLength(2000)
})
