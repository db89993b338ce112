import { writeFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { type Ontologies, openOntologies } from '../../src/ontology/ontologies.ts'
import { file, fixture, folder, turtle } from './support/files.ts'
import { largeOntology } from './support/large.ts'

async function open(path: string): Promise<Ontologies> {
  const ontologies = await openOntologies({ paths: [path], budget: 2000 })
  onTestFinished(() => ontologies.close())
  return ontologies
}

const signal = () => AbortSignal.timeout(10_000)

test('a thread answers which terms a chunk needs, which items are facts, and the ontology’s own triples', async () => {
  const service = (await open(fixture('mills.ttl'))).current()
  expect(service.summary).toMatchObject({
    ids: ['mills'],
    classes: 8,
    relations: 5,
    attributes: 3,
    notes: [],
  })
  expect((await service.select('A mill.', signal())).classes).toHaveProperty('Mill')
  const [good, bad] = await service.check(
    [{ type: 'entity', entity: 'A', entity_type: 'Mill' }, { type: 'entity' }],
    signal(),
  )
  expect(good).toHaveProperty('to', 'ontology-entities')
  expect(bad).toHaveProperty('refused', 'empty')
  const triples = await service.triples(0, signal())
  expect(triples).toHaveLength(await service.triples(3).then((rest) => rest.length + 3))
  expect(await service.triples(triples.length)).toEqual([])
})

test('a broken file is refused with its place, at the start and later, and the loaded version stays current', async () => {
  const path = file('e.ttl', turtle('e:A a owl:Class .'))
  const ontologies = await open(path)
  const { version } = ontologies.current().summary
  writeFileSync(path, turtle('e:A a owl:Class'))
  const refusal = {
    code: 'ontology_invalid',
    message: expect.stringContaining(`${path}:6: not Turtle`),
    details: { problems: [{ file: path, line: 6 }] },
  }
  await expect(ontologies.reload()).rejects.toMatchObject(refusal)
  await expect(openOntologies({ paths: [path], budget: 2000 })).rejects.toMatchObject(refusal)
  expect(ontologies.current().summary.version).toBe(version)
  expect((await ontologies.current().select('')).classes).toHaveProperty('A')
})

test('the last three versions stay loaded', async () => {
  const path = file('e.ttl', turtle('e:A0 a owl:Class .'))
  const ontologies = await open(path)
  const versions = [ontologies.current().summary.version]
  for (const number of [1, 2, 3]) {
    writeFileSync(path, turtle(`e:A${number} a owl:Class .`))
    versions.push((await ontologies.reload()).version)
  }
  expect(new Set(versions).size).toBe(4)
  const keys = await Promise.all(
    versions.slice(1).map(async (version) => Object.keys((await ontologies.at(version).select('')).classes)),
  )
  expect(keys).toEqual([['A1'], ['A2'], ['A3']])
  expect(ontologies.current().summary.version).toBe(versions[3])
  expect(() => ontologies.at(versions[0]!)).toThrowError(expect.objectContaining({ code: 'version_gone' }))
})

test('reading the same content again replaces no other version', async () => {
  const path = file('e.ttl', turtle('e:A0 a owl:Class .'))
  const ontologies = await open(path)
  const first = ontologies.current().summary.version
  for (const number of [1, 2, 2, 2]) {
    writeFileSync(path, turtle(`e:A${number} a owl:Class . # ${Math.random()}`))
    await ontologies.reload()
  }
  expect((await ontologies.at(first).select('')).classes).toHaveProperty('A0')
})

test('a question ends when its signal aborts, and all questions end with the thread', async () => {
  const ontologies = await open(file('large.ttl', largeOntology(3000)))
  const service = ontologies.current()
  const gone = new AbortController()
  const asked = service.select('oak bowl', gone.signal)
  gone.abort(new Error('not wanted'))
  await expect(asked).rejects.toThrow('not wanted')
  const left = service.select('oak bowl')
  await Promise.all([expect(left).rejects.toMatchObject({ code: 'aborted' }), ontologies.close()])
  await expect(service.select('oak bowl')).rejects.toMatchObject({ code: 'aborted' })
})

test('loading a large ontology leaves this thread free', async () => {
  const path = file('large.ttl', largeOntology(10_000), folder())
  const busy = performance.eventLoopUtilization()
  const started = performance.now()
  await open(path)
  const { active } = performance.eventLoopUtilization(busy)
  // Of the time that loading took, this thread worked next to nothing.
  expect(active).toBeLessThan(Math.max(100, (performance.now() - started) / 4))
})
