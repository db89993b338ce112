import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { changes, contentOf } from '../../src/config/watch.ts'
import { mountConfigMap } from '../support/config-map.ts'

let folder: string
let stop: AbortController
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-watch-'))
  stop = new AbortController()
})
afterEach(() => {
  stop.abort()
  rmSync(folder, { recursive: true, force: true })
})

const watch = async (...paths: string[]) =>
  changes({ paths: () => paths, since: await contentOf(paths), everyMs: 20 }, stop.signal)

describe('a change is seen', () => {
  test('of a file, a file in a folder, a new one and a removed one', async () => {
    const [file, within] = [join(folder, 'a.yaml'), join(folder, 'prompts')]
    writeFileSync(file, '1')
    mkdirSync(within)
    const seen = await watch(file, within)
    const acts = [
      () => writeFileSync(file, '2'),
      () => writeFileSync(join(within, 'b.yaml'), 'x'),
      () => writeFileSync(join(within, 'b.yaml'), 'y'),
      () => rmSync(join(within, 'b.yaml')),
      () => rmSync(file),
      () => writeFileSync(file, '2'),
    ]
    for (const act of acts) {
      act()
      expect(await seen.next()).toEqual({ done: false, value: undefined })
    }
  })

  test('when the link of a ConfigMap is swapped, though neither the file nor its link was touched', async () => {
    mountConfigMap(folder, { version: '..1', files: { 'flows.yaml': 'flows: []' } })
    const seen = await watch(join(folder, 'flows.yaml'))
    mountConfigMap(folder, { version: '..2', files: { 'flows.yaml': 'flows: [{}]' } })
    expect(await seen.next()).toEqual({ done: false, value: undefined })
  })

  test('of a file that was written long ago, though its size and times are the same', async () => {
    const file = join(folder, 'a.yaml')
    const past = new Date('2020-01-01')
    writeFileSync(file, '1')
    const seen = await watch(file)
    writeFileSync(file, '0')
    utimesSync(file, past, past)
    expect(await seen.next()).toEqual({ done: false, value: undefined })
    await wait(4000) // until what was seen is trusted
    const next = seen.next()
    await wait(200)
    writeFileSync(file, '1')
    utimesSync(file, past, past)
    expect(await next).toEqual({ done: false, value: undefined })
  })
})

const reads = '/proc/self/io'
if (!existsSync(reads)) process.stderr.write(`what a look reads: skipped, it needs ${reads}\n`)

test.skipIf(!existsSync(reads))('a large file that stays as it is is not read again and again', async () => {
  const bytesRead = () => Number(/^rchar: (\d+)$/m.exec(readFileSync(reads, 'utf8'))![1])
  const file = join(folder, 'ontology.ttl')
  writeFileSync(file, Buffer.alloc(16 * 1024 * 1024))
  const seen = await watch(file)
  const next = seen.next()
  const readMeanwhile = async () => {
    const before = bytesRead()
    await wait(1000)
    return bytesRead() - before
  }
  await expect.poll(readMeanwhile, { timeout: 20_000 }).toBeLessThan(1024 * 1024)
  writeFileSync(file, 'smaller')
  expect(await next).toEqual({ done: false, value: undefined })
})

test('writing the same content again is no change, and watching ends with its signal', async () => {
  const file = join(folder, 'a.yaml')
  writeFileSync(file, '1')
  const seen = await watch(file)
  const next = seen.next()
  writeFileSync(file, '1')
  setTimeout(() => stop.abort(), 100)
  expect(await next).toEqual({ done: true, value: undefined })
})
