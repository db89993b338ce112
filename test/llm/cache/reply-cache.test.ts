import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import cacache from 'cacache'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseEntry, type RunEntry } from '../../../src/llm/cache/entry.ts'
import { type CacheOptions, openCache } from '../../../src/llm/cache/reply-cache.ts'
import { requestDigest, runKey } from '../../../src/llm/cache/run-key.ts'
import type { CompletionRequest } from '../../../src/llm/llm.ts'
import { createOllama, type OllamaOptions } from '../../../src/llm/ollama/ollama.ts'
import { entryOf } from '../../support/cache-entry.ts'
import { noLlm } from '../../support/flow.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'graphmill-cache-'))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

const open = (more: Partial<CacheOptions> = {}) => openCache({ dir: join(dir, 'replies'), ...more })
const never = new AbortController().signal
const day = 24 * 3600 * 1000

/** The files with the contents of entries, present and former. */
async function contents(): Promise<string[]> {
  const found = await readdir(join(dir, 'replies', 'content-v2'), { recursive: true, withFileTypes: true })
  return found.filter((file) => file.isFile()).map(({ parentPath, name }) => join(parentPath, name))
}
/** A content without an entry. */
async function orphan(text: string): Promise<void> {
  await cacache.put(join(dir, 'replies'), text, text)
  await cacache.rm.entry(join(dir, 'replies'), text)
}
/** When a file was written, in milliseconds since 1970 UTC. */
const setTime = (path: string, time: number) => utimes(path, time / 1000, time / 1000)

describe('the cache of replies', () => {
  it('returns what was stored, to this process and the next', async () => {
    const cache = open()
    expect(await cache.get('key')).toBeUndefined()
    await cache.put('key', entryOf('one'))
    await cache.put('other', entryOf('two'))
    expect(await cache.get('key')).toEqual(entryOf('one'))
    expect(await open().get('other')).toEqual(entryOf('two'))
    expect((await stat(join(dir, 'replies'))).mode & 0o077).toBe(0)
  })

  it('keeps only the latest version of an entry', async () => {
    const cache = open()
    for (let n = 0; n < 20; n++) await cache.put('key', entryOf(`run ${n}`, 'x'.repeat(1000)))
    expect((await cache.get('key'))?.run.id).toBe('run 19')
    expect(await cache.stats()).toMatchObject({ entries: 1 })
    expect((await cache.stats()).bytes).toBeLessThan(2500)
  })

  it('forgets the runs of a document, also those that another document made, and keeps no more of that version', async () => {
    const owner = (documentId: string, versionTime = 1) => ({ workspace: 'w', documentId, versionTime })
    const writer = open()
    await writer.put('a', entryOf('one', 'of a'), owner('urn:a'))
    await writer.put('shared', entryOf('two', 'of both'), owner('urn:a'))
    await writer.put('b', entryOf('three', 'of b'), owner('urn:b'))
    expect(await writer.get('shared', owner('urn:b'))).toBeDefined()
    await writer.put('a', entryOf('four', 'of another workspace'), { ...owner('urn:a'), workspace: 'v' })
    // Another process, which has written none of them.
    const cache = open()
    await cache.forget(owner('urn:b', 5))
    expect(await cache.get('shared')).toBeUndefined()
    expect(await cache.get('b')).toBeUndefined()
    expect(await cache.get('a')).toEqual(entryOf('four', 'of another workspace'))
    expect(await contents()).toHaveLength(1)
    await cache.put('late', entryOf('five'), owner('urn:b', 5))
    expect(await cache.get('late')).toBeUndefined()
    await cache.put('again', entryOf('six'), owner('urn:b', 6))
    expect(await cache.get('again')).toBeDefined()
    await cache.forget(owner('urn:b', 7))
    await cache.forget(owner('urn:unknown', 7))
    expect(await cache.get('again')).toBeUndefined()
    expect(await readdir(join(dir, 'replies', 'documents'))).toHaveLength(2)
  })

  it('forgets which runs were of a document when all of them are too old', async () => {
    let now = Date.now()
    const cache = open({ maxAgeMs: day, now: () => now })
    await cache.put('key', entryOf('one'), { workspace: 'w', documentId: 'urn:a', versionTime: 0 })
    now += 3 * day
    await cache.put('other', entryOf('two'))
    await cache.close()
    expect(await readdir(join(dir, 'replies', 'documents'))).toEqual([])
  })

  it('forgets an entry after its time', async () => {
    let now = Date.now()
    const cache = open({ maxAgeMs: 1000, now: () => now })
    await cache.put('key', entryOf('one'))
    now += 2000
    expect(await cache.get('key')).toBeUndefined()
  })

  it('forgets entries after thirty days by default', async () => {
    let now = Date.now()
    const clock = { now: () => now }
    const [usual, short] = [open(clock), open({ ...clock, maxAgeMs: 2 * day })]
    await usual.put('key', entryOf('one'))
    now += 2 * day + 1
    expect(await short.get('key')).toBeUndefined()
    now += 28 * day - 1
    expect(await usual.get('key')).toEqual(entryOf('one'))
    now += 1
    expect(await usual.get('key')).toBeUndefined()
  })

  it('removes expired entries from the disk, once a day', async () => {
    let now = Date.now()
    const clock = { now: () => now }
    await open(clock).put('old', entryOf('one'))
    now += 20 * day
    const later = open(clock)
    await later.put('young', entryOf('two'))
    await later.close()
    expect(await later.stats()).toMatchObject({ entries: 2 })
    now += 11 * day
    const latest = open(clock)
    await latest.put('new', entryOf('three'))
    await latest.close()
    expect(await latest.stats()).toMatchObject({ entries: 2, oldest: now - 11 * day })
    expect(await contents()).toHaveLength(2)
    expect((await latest.get('young'))?.run.id).toBe('two')
  })

  it('removes files without an entry from the disk within sixteen days, except young ones', async () => {
    let now = Date.now()
    const clock = { now: () => now }
    await open(clock).put('key', entryOf('one'))
    const orphans = Array.from({ length: 40 }, (_, n) => `a content that no entry names ${n}`)
    for (const text of orphans) await orphan(text)
    await mkdir(join(dir, 'replies', 'tmp'), { recursive: true })
    await writeFile(join(dir, 'replies', 'tmp', 'half'), 'half written')
    const half = join(dir, 'replies', 'tmp', 'half')
    for (const path of [...(await contents()), half]) await setTime(path, now - day)
    const known = await contents()
    await orphan('a content whose entry is on its way')
    const young = (await contents()).filter((path) => !known.includes(path))
    for (const path of young) await setTime(path, now + 17 * day)
    expect([known.length, young.length]).toEqual([41, 1])
    for (let days = 0; days < 16; days++) {
      now += day + 1
      const cache = open(clock)
      await cache.put('key', entryOf('one'))
      await cache.close()
    }
    const kept = await contents()
    expect(kept).toHaveLength(2)
    expect(kept).toContain(young[0])
    expect(await readdir(join(dir, 'replies', 'tmp'))).toEqual([])
    expect((await open(clock).get('key'))?.run.id).toBe('one')
  })

  it('forgets the oldest entries when it is too large', async () => {
    const cache = open({ maxBytes: 20_000 })
    for (let n = 0; n < 30; n++) await cache.put(`key ${n}`, entryOf(`run ${n}`, `${n}`.padEnd(2000)))
    await cache.close()
    const { bytes, entries } = await cache.stats()
    expect(bytes).toBeLessThanOrEqual(20_000 + 3000)
    expect(entries).toBeGreaterThan(4)
    expect((await cache.get('key 29'))?.run.id).toBe('run 29')
    expect(await cache.get('key 0')).toBeUndefined()
  })

  it('ignores an entry with damaged content, and reads the next one', async () => {
    const failures: unknown[] = []
    const cache = open({ onFailure: (error) => failures.push(error) })
    await cache.put('key', entryOf('one'))
    for (const path of await contents()) await writeFile(path, 'spoiled')
    expect(await cache.get('key')).toBeUndefined()
    await cache.put('key', entryOf('two'))
    expect(await cache.get('key')).toEqual(entryOf('two'))
    expect(failures).toEqual([])
  })

  it('is shared by processes, which only see whole entries', async () => {
    const count = 60
    const write = async (name: string) => {
      const writer = join(import.meta.dirname, '../../support/cache-writer.ts')
      const args = [writer, join(dir, 'replies'), name, String(count)]
      const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 60_000 })
      return JSON.parse(stdout) as { whole: number; missing: number; torn: number; failures: string[] }
    }
    const names = ['a', 'b', 'c']
    for (const seen of await Promise.all(names.map(write))) {
      expect(seen).toMatchObject({ torn: 0, failures: [] })
      // The entry is missing while another process replaces it.
      expect(seen.whole + seen.missing).toBe(count)
      expect(seen.whole).toBeGreaterThan(0)
    }
    const cache = open()
    for (const name of names)
      for (let n = 0; n < count; n++) expect(await cache.get(`${name} ${n}`)).toEqual(entryOf(`${name} ${n}`))
    expect(await cache.stats()).toMatchObject({ entries: names.length * count + 1 })
  })

  it('can be emptied', async () => {
    const cache = open()
    expect(await cache.stats()).toEqual({ entries: 0, bytes: 0, oldest: undefined })
    await cache.put('key', entryOf('one'))
    await cache.clear()
    expect(await cache.get('key')).toBeUndefined()
    await cache.put('key', entryOf('two'))
    expect((await cache.get('key'))?.run.id).toBe('two')
  })

  it('forgets, and reports it once, when the disk does not work', async () => {
    await writeFile(join(dir, 'replies'), 'a file stands where the folder should be')
    const failures: unknown[] = []
    const cache = open({ onFailure: (error) => failures.push(error) })
    await cache.put('key', entryOf('one'))
    await cache.put('key', entryOf('two'))
    expect(await cache.get('key')).toBeUndefined()
    expect(failures).toHaveLength(1)
  })
})

describe('the text of an entry', () => {
  const good = { ...entryOf('one'), aid: 'prompt' as const }
  const optional = ['aid', 'form', 'cut']

  /** The path of every value, as keys. */
  function placesOf(value: unknown): string[][] {
    if (typeof value !== 'object' || value === null) return []
    return Object.entries(value).flatMap(([key, child]) => [
      [key],
      ...placesOf(child).map((rest) => [key, ...rest]),
    ])
  }
  /** The entry with another value at this place; undefined removes the key. */
  function changed(place: readonly string[], value: unknown): RunEntry | undefined {
    const copy: unknown = structuredClone(good)
    const parent = place.slice(0, -1).reduce((at, key) => (at as Record<string, unknown>)[key], copy)
    Object.assign(parent as object, { [place.at(-1)!]: value })
    return parseEntry(JSON.stringify(copy))
  }

  it('is that entry', () => {
    expect(parseEntry(JSON.stringify(good))).toEqual(good)
    expect(changed(['calls', '0', 'usage', 'promptTokens'], null)).toBeDefined()
    for (const key of optional) expect(changed([key], undefined)).toBeDefined()
  })

  it.each(placesOf(good).map((place) => ({ place, name: place.join('.') })))(
    'is no entry with a wrong value, or none, at $name',
    ({ place, name }) => {
      expect(changed(place, {})).toBeUndefined()
      if (!optional.includes(name)) expect(changed(place, undefined)).toBeUndefined()
    },
  )

  it.each([
    ['calls.0.finishReason', 'because'],
    ['calls.0.usage.promptTokens', -1],
    ['cut.cuts', [1, -1]],
  ])('is no entry where %s is %j', (place, value) => {
    expect(changed(place.split('.'), value)).toBeUndefined()
  })

  it.each(['', 'null', '[]', '"text"', '{'])('is no entry when it is %j', (text) => {
    expect(parseEntry(text)).toBeUndefined()
  })
})

describe('a turn', () => {
  it('belongs to one caller at a time for each key, in order', async () => {
    const cache = open()
    const order: string[] = []
    const first = await cache.turn('key', never)
    const waiting = ['second', 'third'].map(async (name) => {
      const leave = await cache.turn('key', never)
      order.push(name)
      leave()
      leave()
    })
    const other = await cache.turn('other', never)
    other()
    expect(order).toEqual([])
    first()
    await Promise.all(waiting)
    expect(order).toEqual(['second', 'third'])
  })

  it('is given up after an abort, and the others keep theirs', async () => {
    const cache = open()
    const leave = await cache.turn('key', never)
    const impatient = new AbortController()
    const given = cache.turn('key', impatient.signal)
    const patient = cache.turn('key', never)
    impatient.abort(new Error('enough'))
    await expect(given).rejects.toThrow('enough')
    let had = false
    void patient.then(() => {
      had = true
    })
    for (let n = 0; n < 20; n++) await Promise.resolve()
    expect(had).toBe(false)
    leave()
    ;(await patient)()
    ;(await cache.turn('key', never))()
  })
})

describe('the key of a run', () => {
  const request: CompletionRequest = {
    messages: [{ role: 'user', content: 'hello' }],
    sampling: { temperature: 0, maxTokens: 5 },
    extras: { format: { type: 'object', properties: { a: {}, b: {} } } },
    origin: { promptId: 'p', terms: {} },
  }
  const key = (more: Partial<CompletionRequest> = {}) => runKey('w', noLlm, { ...request, ...more })

  it('depends neither on the order of keys nor on the origin of the request', () => {
    expect(
      key({ sampling: { maxTokens: 5, temperature: 0 }, origin: { promptId: 'q', terms: { x: 1 } } }),
    ).toBe(key())
    expect(requestDigest({ messages: request.messages })).toBe(
      requestDigest({ messages: request.messages, sampling: {}, extras: {} }),
    )
  })

  it('differs by workspace, server, model, messages, every parameter and the schema on the wire', () => {
    const keys = [
      key(),
      runKey('v', noLlm, request),
      runKey('w', { ...noLlm, destination: 'elsewhere' }, request),
      runKey('w', { ...noLlm, model: 'other' }, request),
      runKey('w', { ...noLlm, provider: 'ollama' }, request),
      key({ messages: [{ role: 'user', content: 'hello!' }] }),
      key({ messages: [{ role: 'system', content: 'hello' }] }),
      key({ sampling: {} }),
      key({ sampling: { temperature: 0 } }),
      key({ sampling: { temperature: 0.5, maxTokens: 5 } }),
      key({ sampling: { temperature: 0, maxTokens: 6 } }),
      key({ sampling: { temperature: 0, maxTokens: 5, topP: 0.9 } }),
      key({ sampling: { temperature: 0, maxTokens: 5, seed: 1 } }),
      key({ sampling: { temperature: 0, maxTokens: 5, seed: 2 } }),
      key({ sampling: { temperature: 0, maxTokens: 5, stop: ['END'] } }),
      key({ sampling: { temperature: 0, maxTokens: 5, stop: ['END', 'STOP'] } }),
      key({ extras: { format: { type: 'object' } } }),
      key({ extras: {} }),
    ]
    expect(new Set(keys).size).toBe(keys.length)
  })

  it('differs by the defaults of an Ollama model', () => {
    const of = (more: Partial<OllamaOptions> = {}) =>
      runKey('w', createOllama({ host: '127.0.0.1', model: 'm', ...more }), request)
    const keys = [
      of(),
      of({ numCtx: 512 }),
      of({ think: true }),
      of({ think: 'low' }),
      of({ format: 'json' }),
      of({ format: { type: 'object' } }),
      of({ api: 'generate' }),
    ]
    expect(new Set(keys).size).toBe(keys.length)
    expect(of({ numCtx: 8192, api: 'chat' })).toBe(of())
  })
})
