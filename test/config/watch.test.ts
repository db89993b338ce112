import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
  test('of a file, a file in a folder, one that is new and one that is gone', async () => {
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

  test('where the link of a ConfigMap is swapped, though neither the file nor its link was touched', async () => {
    mountConfigMap(folder, { version: '..1', files: { 'flows.yaml': 'flows: []' } })
    const seen = await watch(join(folder, 'flows.yaml'))
    mountConfigMap(folder, { version: '..2', files: { 'flows.yaml': 'flows: [{}]' } })
    expect(await seen.next()).toEqual({ done: false, value: undefined })
  })
})

test('writing the same again is no change, and it ends with its signal', async () => {
  const file = join(folder, 'a.yaml')
  writeFileSync(file, '1')
  const seen = await watch(file)
  const next = seen.next()
  writeFileSync(file, '1')
  setTimeout(() => stop.abort(), 100)
  expect(await next).toEqual({ done: true, value: undefined })
})
