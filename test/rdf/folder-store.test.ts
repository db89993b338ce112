// A folder of files holds what its documents state: after any history, with replicas and with writers that are killed.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { Parser } from 'n3'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { emissionKey } from '../../src/messages/emission.ts'
import { openFolderStore } from '../../src/rdf/folder-store.ts'
import {
  documentName,
  type Emission,
  isWithdrawn,
  type Statement,
  type Withdrawal,
} from '../../src/rdf/support.ts'
import { iri, literal, triple } from '../../src/rdf/term.ts'
import { formats, type TripleFormat } from '../../src/rdf/write.ts'
import { sorted } from './quads.ts'

const scope = { workspace: 'w', flow: 'f' }
const fact = (name: string) => triple(iri(`urn:${name}`), iri('urn:p'), literal('# emission\n"}\n'))
const stateOf = (emission: Emission, name: string): Statement => ({ emission, triples: [fact(name)] })
const of = (documentId: string, chunkId: string, versionTime: number) => ({
  documentId,
  chunkId,
  versionTime,
})
const fileOf = (documentId: string, extension = 'nq') => `w.f.${documentName(documentId, scope)}.${extension}`
const all = (documentId: string, upTo: number, ...kept: Emission[]): Withdrawal => ({
  documentId,
  from: 0,
  upTo,
  kept: new Set(kept.map(emissionKey)),
})

let folder: string
let children: ChildProcess[]
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphmill-folder-'))
  children = []
})
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL')
  await rm(folder, { recursive: true, force: true })
})

const contentOf = async (name: string) => readFile(join(folder, name), 'utf8').catch(() => '')

/** The subjects of a file, which must be whole. */
async function subjects(name: string, format: TripleFormat): Promise<string[]> {
  const text = await contentOf(name)
  if (format === 'jsonl')
    return text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line).s.i)
  return new Parser({ format }).parse(text).map(({ subject }) => subject.value)
}

const emissions = fc.record({
  documentId: fc.constantFrom('d', '../../e', 'https://x/ü?\n"', ''),
  chunkId: fc.constantFrom('', 'c1', 'c2'),
  versionTime: fc.integer({ min: 0, max: 3 }),
})
const steps = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.array(emissions, { minLength: 1, maxLength: 4 }) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(emissions, fc.array(emissions, { maxLength: 3 }))
        .map(([{ documentId, versionTime }, kept]) => all(documentId, versionTime, ...kept)),
    },
  ),
  { minLength: 1, maxLength: 10 },
)

test.each(formats)('any history leaves what is still stated, each document in a file: %s', async (format) => {
  const property = fc.asyncProperty(steps, async (history) => {
    await rm(folder, { recursive: true, force: true })
    // Two replicas, by turns.
    const replicas = [openFolderStore(folder, { format }), openFolderStore(folder, { format })]
    let left: Emission[] = []
    const nameOf = (emission: Emission) => Buffer.from(JSON.stringify(emission)).toString('hex')
    for (const [at, step] of history.entries()) {
      const { support } = replicas[at % 2]!
      if (Array.isArray(step)) {
        await support!.state(
          step.map((each) => stateOf(each, nameOf(each))),
          scope,
        )
        left.push(...step)
      } else {
        await support!.withdraw(step, scope)
        left = left.filter((each) => !isWithdrawn(each, step))
      }
    }
    const extension = { nquads: 'nq', trig: 'trig', turtle: 'ttl', jsonl: 'jsonl' }[format]
    const documents = Map.groupBy(left, ({ documentId }) => documentId)
    const files = [...documents.keys()].map((id) => fileOf(id, extension))
    expect((await readdir(folder).catch(() => [])).sort()).toEqual(files.sort())
    for (const [id, stated] of documents)
      expect(sorted(await subjects(fileOf(id, extension), format))).toEqual(
        sorted(stated.map((each) => `urn:${nameOf(each)}`)),
      )
  })
  await fc.assert(property, { numRuns: 30 })
})

test('replicas that state and withdraw at the same time lose nothing', async () => {
  const replicas = Array.from({ length: 3 }, () => openFolderStore(folder, { format: 'nquads' }))
  await Promise.all(
    replicas.flatMap(({ support }, replica) =>
      Array.from({ length: 15 }, async (_, at) => {
        await support!.state([stateOf(of('d', `old${replica}-${at}`, 1), `old${replica}-${at}`)], scope)
        await support!.withdraw(all('d', 1), scope)
        await support!.state([stateOf(of('d', `new${replica}-${at}`, 2), `new${replica}-${at}`)], scope)
      }),
    ),
  )
  const found = await subjects(fileOf('d'), 'nquads')
  expect(found.filter((each) => each.startsWith('urn:new'))).toHaveLength(45)
  expect(found.filter((each) => each.startsWith('urn:old'))).toEqual([])
  expect(await readdir(folder)).toEqual([fileOf('d')])
})

test('a writer that is killed while it replaces a file leaves the old one or the new one', async () => {
  const kept = of('d', 'kept', 2)
  for (const step of ['sync', 'rename', 'rm'] as const) {
    const store = openFolderStore(folder, { format: 'nquads' })
    await store.support!.state([stateOf(of('d', 'old', 1), 'old'), stateOf(kept, 'kept')], scope)
    const script = join(import.meta.dirname, '../support/folder-writer.ts')
    const child = spawn(process.execPath, [script, folder, step, emissionKey(kept)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    children.push(child)
    await once(child.stdout!, 'data')
    child.kill('SIGKILL')
    await once(child, 'exit')
    const found = sorted(await subjects(fileOf('d'), 'nquads'))
    const both = sorted(['urn:kept', 'urn:old'])
    expect(step === 'rm' ? [sorted(['urn:kept'])] : [both]).toContainEqual(found)
    // The next process takes its lock over at once, and removes what it left.
    const next = openFolderStore(folder, { format: 'nquads', lockPatienceMs: 3_600_000 })
    await next.support!.withdraw(all('d', 2, kept), scope)
    await next.ready!()
    expect(await readdir(folder)).toEqual([fileOf('d')])
    expect(await subjects(fileOf('d'), 'nquads')).toEqual(['urn:kept'])
    await rm(join(folder, fileOf('d')))
  }
})

test('a document that states nothing more has no file, and one without a file is withdrawn from', async () => {
  const { support } = openFolderStore(folder, { format: 'nquads' })
  await support!.withdraw(all('d', 1), scope)
  await support!.state([stateOf(of('d', 'c', 1), 'a')], scope)
  await support!.withdraw(all('d', 1), scope)
  expect(await readdir(folder)).toEqual([])
})

test('a file says whose it is', async () => {
  const { support } = openFolderStore(folder, { format: 'nquads' })
  await support!.state([stateOf(of('hr/42\n', 'c', 7), 'a')], scope)
  expect(await contentOf(fileOf('hr/42\n'))).toMatch(
    /^# document "hr\/42\\n"\n# emission [0-9a-f]{12}@7\n<urn:a> /,
  )
})

test.each([
  ['removed', (path: string) => rm(path)],
  ['renamed', (path: string) => rename(path, `${path}.old`)],
  ['removed with its folder', () => rm(folder, { recursive: true })],
])('a file that was %s is created again', async (_, spoil) => {
  const store = openFolderStore(folder, { format: 'nquads' })
  await store.write([fact('a')], scope)
  await spoil(join(folder, fileOf('')))
  await store.write([fact('b')], scope)
  expect(await subjects(fileOf(''), 'nquads')).toEqual(['urn:b'])
})

test('files of the version before stay as they are', async () => {
  await writeFile(join(folder, 'w.f.host.nq'), '<urn:a> <urn:b> <urn:c> .\n')
  const store = openFolderStore(folder, { format: 'nquads' })
  await store.ready!()
  await store.support!.state([stateOf(of('d', 'c', 1), 'a')], scope)
  await store.support!.withdraw(all('d', 1), scope)
  expect(await readdir(folder)).toEqual(['w.f.host.nq'])
  expect(await contentOf('w.f.host.nq')).toBe('<urn:a> <urn:b> <urn:c> .\n')
})

test('a lock that names nobody and is not renewed is taken over; one that is renewed is waited for', async () => {
  const store = openFolderStore(folder, { format: 'turtle', lockPatienceMs: 100 })
  const name = fileOf('', 'ttl')
  await mkdir(join(folder, name))
  await expect(store.write([fact('a')], scope)).rejects.toMatchObject({ code: 'store_failed' })
  await rm(join(folder, name), { recursive: true })
  const lock = join(folder, `${name}.lock`)
  await writeFile(lock, '')
  await utimes(lock, new Date(0), new Date(0))
  await store.write([fact('a')], scope)
  expect(await readdir(folder)).toEqual([name])

  await writeFile(lock, '')
  const renewing = setInterval(() => void utimes(lock, new Date(), new Date()).catch(() => undefined), 10)
  const refused = store.write([fact('b')], scope, AbortSignal.timeout(500))
  await expect(refused).rejects.toMatchObject({ name: 'TimeoutError' })
  const waiting = store.write([fact('c')], scope)
  clearInterval(renewing)
  await waiting
  expect(await subjects(name, 'turtle')).toEqual(['urn:a', 'urn:c'])
})

test('is not ready when it cannot be created', async () => {
  const path = join(folder, 'taken')
  await writeFile(path, '')
  const store = openFolderStore(path, { format: 'nquads' })
  await expect(store.ready!()).rejects.toMatchObject({ code: 'store_failed' })
  await openFolderStore(join(folder, 'new'), { format: 'nquads' }).ready!()
  expect(await readdir(folder)).toContain('new')
})
