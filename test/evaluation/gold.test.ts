import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type GoldDocument, readGold, summariseGold } from '../../src/evaluation/gold.ts'
import type { GoldTerms } from '../../src/evaluation/gold-facts.ts'
import { loadOntology } from '../../src/ontology/load.ts'
import { loadRowSchemas } from '../../src/rows/load.ts'

let folder: string
let terms: GoldTerms
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-gold-'))
  writeFileSync(
    join(folder, 'mill.yaml'),
    'name: mill\nfields:\n  - { name: name, type: string, primary: true }\n  - { name: opened, type: integer }\n',
  )
  terms = {
    ontology: (await loadOntology(['examples/eval/mills.ttl'])).ontology,
    rowSchemas: await loadRowSchemas([join(folder, 'mill.yaml')]),
  }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function write(text: string | Uint8Array): string[] {
  const path = join(folder, 'gold.jsonl')
  writeFileSync(path, text)
  return [path]
}

async function documentsOf(paths: readonly string[], known = terms): Promise<GoldDocument[]> {
  const documents: GoldDocument[] = []
  for await (const document of readGold(paths, known)) documents.push(document)
  return documents
}

const read = (text: string, known = terms) => documentsOf(write(text), known)
const lineOf = (value: object | string) => (typeof value === 'string' ? value : `${JSON.stringify(value)}\n`)

describe('gold files', () => {
  test('give documents in order, with the keys and items of their facts', async () => {
    const first = {
      id: 'a',
      text: 'Low Quern opened in 1764; Odo Brask built it.',
      triples: [
        { subject: 'Low Quern', relation: 'opened-in', object: 1764 },
        { subject: 'Low Quern', relation: 'builtBy', object: 'Odo Brask' },
      ],
      entities: [{ entity: 'Low Quern', class: 'water mill' }],
      rows: [{ schema: 'mill', values: { name: 'Low Quern', opened: '1764' } }],
    }
    const second = { text: 'x', topics: [{ topic: 'Mills' }], definitions: [] }
    const [one, two] = await read(lineOf(first) + lineOf(second))
    expect([...one!.facts.values()].flat()).toEqual([
      {
        kind: 'rows',
        key: '["mill","[\\"name\\",\\"low quern\\"]","[\\"opened\\",\\"1764\\"]"]',
        schema: 'mill',
        item: { name: 'Low Quern', opened: '1764' },
      },
      {
        kind: 'entities',
        key: '["low quern","http://example.org/mills#Watermill"]',
        item: { type: 'entity', entity: 'Low Quern', entity_type: 'Watermill' },
      },
      {
        kind: 'triples',
        key: '["low quern","http://example.org/mills#openedIn","1764"]',
        item: {
          type: 'attribute',
          entity: 'Low Quern',
          entity_type: 'Watermill',
          attribute: 'openedIn',
          value: 1764,
        },
      },
      {
        kind: 'triples',
        key: '["low quern","http://example.org/mills#builtBy","odo brask"]',
        item: {
          type: 'relationship',
          subject: 'Low Quern',
          subject_type: 'Watermill',
          relation: 'builtBy',
          object: 'Odo Brask',
          // Nothing says what he is: it is a class that the relation allows.
          object_type: 'Millwright',
        },
      },
    ])
    expect(two).toMatchObject({ id: 'gold.jsonl:2', text: 'x' })
    expect([...two!.facts.keys()]).toEqual(['definitions', 'topics'])
  })

  test('have half a surrogate pair as U+FFFD, as the flow reads it', async () => {
    const [document] = await read(lineOf({ text: 'Mill \ud83d', topics: [{ topic: 'mill \ud83d' }] }))
    expect(document).toMatchObject({ text: 'Mill \ufffd' })
    expect(document!.facts.get('topics')).toMatchObject([{ item: { topic: 'mill \ufffd' } }])
  })

  const triple = { subject: 'a', relation: 'builtBy', object: 'b' }
  test.each<[string, object | string, RegExp]>([
    [
      'a kind',
      { text: 'y', definitons: [] },
      /^definitons: there is no such field; did you mean "definitions"\?$/,
    ],
    [
      'a field of a fact',
      { text: 'y', relationships: [{ subject: 'a', predicat: 'b', object: 'c' }] },
      /^relationships\[0\]\.predicat: there is no such field; did you mean "predicate"\?$/,
    ],
    [
      'a missing field',
      { text: 'y', definitions: [{ entity: 'a', definition: 'b' }, { entity: 'a' }] },
      /^definitions\[1\]\.definition: is missing\.$/,
    ],
    ['a text that is a number', { text: 7 }, /^text: must be a text/],
    ['no text', { id: 'b' }, /^text: is missing/],
    ['a list that is none', { text: 'y', topics: {} }, /^topics: must be a list/],
    [
      'a class',
      { text: 'y', entities: [{ entity: 'a', class: 'Watrmill' }] },
      /^entities\[0\]\.class: the ontologies have no class "Watrmill"; did you mean "Watermill"\?$/,
    ],
    [
      'a relation',
      { text: 'y', triples: [triple, { ...triple, relation: 'buildBy' }] },
      /^triples\[1\]\.relation: .*did you mean "builtBy"\?$/,
    ],
    [
      'a value',
      { text: 'y', triples: [{ ...triple, relation: 'openedIn', object: 'soon' }] },
      /^triples\[0\]\.object: "soon" is no value of openedIn\.$/,
    ],
    [
      'a table',
      { text: 'y', rows: [{ schema: 'mil', values: {} }] },
      /^rows\[0\]\.schema: .*"mil"; did you mean "mill"\?$/,
    ],
    [
      'a column',
      { text: 'y', rows: [{ schema: 'mill', values: { nam: 'a' } }] },
      /^rows\[0\]\.values\.nam: .*did you mean "name"\?$/,
    ],
    [
      'a row that does not fit',
      { text: 'y', rows: [{ schema: 'mill', values: { name: 'a', opened: 'soon' } }] },
      /^rows\[0\]\.values: is no row of mill: .*opened/,
    ],
    ['an id that is taken', { id: 'a', text: 'y' }, /^id: this id is that of .*gold\.jsonl:1\.$/],
    [
      'a text that was there',
      { id: 'b', text: 'x ' },
      /^text: give all facts of a text in one line.*gold\.jsonl:1\.$/,
    ],
    ['a line that is not JSON', '{"text": "y",}\n', /JSON|property|token/i],
    ['a line that is no object', '[1]\n', /^must be an object with id, text, definitions/],
    ['a last line that is cut off', '{"text": "y', /cut off\.$/],
  ])('name the line and the field of a slip: %s', async (_, third, message) => {
    // Blank lines count.
    const text = `${lineOf({ id: 'a', text: 'x', topics: [] })}\n${lineOf(third)}`
    const error = await read(text).then(
      () => undefined,
      (thrown: { code: string; message: string }) => thrown,
    )
    expect(error?.code).toBe('gold_invalid')
    const place = `${join(folder, 'gold.jsonl')}:3: `
    expect(error?.message.slice(0, place.length)).toBe(place)
    expect(error?.message.slice(place.length)).toMatch(message)
  })

  test('say what is missing when facts of an ontology are given without one', async () => {
    const line = lineOf({ text: 'y', triples: [triple] })
    await expect(read(line, { ontology: undefined, rowSchemas: [] })).rejects.toThrow(
      /gold\.jsonl:1: triples\[0\]: .*--ontologies/,
    )
  })

  test('that are missing, not UTF-8, or without facts are errors', async () => {
    const files = (path: string) => documentsOf([path])
    await expect(files(join(folder, 'none'))).rejects.toMatchObject({ code: 'gold_invalid' })
    await expect(files(folder)).rejects.toThrow(/it must be a file/)
    const [latin] = write(Buffer.from('{"text": "caf\xe9"}\n', 'latin1'))
    await expect(files(latin!)).rejects.toThrow(/gold\.jsonl:1: it is not UTF-8/)
    await expect(summariseGold(write(''), terms)).rejects.toThrow(/there is no document/)
    await expect(summariseGold(write('{"text": "a"}\n'), terms)).rejects.toThrow(/no document lists facts/)
  })

  test('have a digest that changes with a fact, and not with the order of keys', async () => {
    const digest = async (line: string) => (await summariseGold(write(line), terms)).digest
    const one = await digest('{"id":"a","text":"x","topics":[{"topic":"y"}]}')
    expect(await digest('{"topics":[{"topic":"y"}],"text":"x","id":"a"}')).toBe(one)
    expect(await digest('{"id":"a","text":"x","topics":[{"topic":"z"}]}')).not.toBe(one)
  })
})
