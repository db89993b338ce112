import { describe, expect, test } from 'vitest'
import { createGrounder } from '../../src/grounding/grounding.ts'
import type { GroundingRequest } from '../../src/messages/generated.ts'

const all: GroundingRequest = { names: [], sentences: [], offset: 0, start: 0, pages: [], firstPage: 1 }
const ground = (text: string, item: object, request: Partial<GroundingRequest> = {}) =>
  createGrounder(text, { ...all, ...request }).ground(item)

test('an item is as good as the weakest of the values that must stand in the text', () => {
  const text = 'The Bass Rock lies in the firth of Forth.'
  const names = { names: ['subject', 'object'] }
  const relationship = (subject: string, object: string) => ({ subject, predicate: 'is in', object })
  expect(ground(text, relationship('Bass Rock', 'Forth'), names).status).toBe('exact')
  expect(ground(text, relationship('Bass Rock', 'Firth of Forth'), names).status).toBe('normalized')
  expect(ground(text, relationship('Bass Rock', 'firth of the Forth'), names).status).toBe('fuzzy')
  const { status, spans } = ground(text, relationship('Bass Rock', 'Tay'), names)
  expect([status, spans?.map(({ field }) => field)]).toEqual(['ungrounded', ['subject']])
})

test('without any of the names, all texts and numbers must stand there; an item without either is ungrounded', () => {
  const text = 'Albion Mills opened in 1786.'
  expect(ground(text, { name: 'Albion Mills', opened: 1786, open: true, owner: null }).status).toBe('exact')
  expect(ground(text, { name: 'Albion Mills', opened: 1787 }).status).toBe('ungrounded')
  expect(ground(text, { open: true }, { names: ['name'] }).status).toBe('ungrounded')
})

test('when values stand in several places, those nearest to each other count', () => {
  const text = 'Rennie was born. Watt was born. Rennie met Watt.'
  const { spans } = ground(text, { a: 'Rennie', b: 'Watt' })
  expect(spans?.map(({ offset }) => text.slice(offset))).toEqual(['Rennie met Watt.', 'Watt.'])
})

describe('offsets', () => {
  const before = 'あ😀\n'
  const text = '👩‍🚀 東京 𠮷野家 café'
  const document = before + text
  const points = [...document]
  const place = { offset: before.length, start: [...before].length }

  test.each(['東京', '𠮷野家', 'café', '👩'])('of %s are right in code units and in code points', (value) => {
    const [span] = ground(text, { value }, place).spans!
    const { offset, length, start, end } = span!
    expect(document.slice(offset, offset + length)).toBe(value)
    expect(points.slice(start!, end!).join('')).toBe(value)
    expect(span!.text).toBe(value)
  })

  test('in code points are unknown when the loader did not count them', () => {
    const [span] = ground(text, { value: '東京' }, { ...place, start: null }).spans!
    expect([span!.start, span!.end]).toEqual([null, null])
  })

  test('have a page when the document has pages', () => {
    const pages = { offset: 100, pages: [90, 104, 200], firstPage: 3 }
    const pageOf = (value: string) => ground('one, two, three', { value }, pages).spans![0]!.page
    expect(pageOf('one')).toBe(3)
    expect(pageOf('two')).toBe(4)
    expect(ground('one', { value: 'one' }).spans![0]!.page).toBeNull()
  })
})

test('a definition has its sentence, and need not', () => {
  const request = { names: ['entity'], sentences: ['definition'] }
  const text = 'It rained. A gannet is a large seabird.'
  const fields = (definition: string) => {
    const { status, spans } = ground(text, { entity: 'gannet', definition }, request)
    return [status, ...spans!.map((span) => `${span.field}: ${span.text}`)]
  }
  expect(fields('A large bird of the sea.')).toEqual(['exact', 'entity: gannet'])
  expect(fields('A large seabird.')).toEqual([
    'exact',
    'entity: gannet',
    'definition: A gannet is a large seabird',
  ])
})

test('a span of over 500 characters has no text', () => {
  const value = 'word '.repeat(150).trim()
  const [span] = ground(`${value}.`, { value }).spans!
  expect([span!.length, span!.text]).toEqual([value.length, ''])
})

test('an item of thousands of values has a hundred spans, and is judged by all values', () => {
  const item = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`key ${n}`, 'mill']))
  const { status, spans } = ground('The mill.', item)
  expect([status, spans!.length]).toEqual(['exact', 100])
  expect(ground('The mill.', { ...item, last: 'river' }).status).toBe('ungrounded')
})
