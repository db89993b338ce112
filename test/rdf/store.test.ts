import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { openDurableFile } from '../../src/rdf/durable-file.ts'
import { openFileStore } from '../../src/rdf/store.ts'
import { iri, triple } from '../../src/rdf/term.ts'

const scope = { workspace: 'w', flow: 'f' }
const factOf = (name: string) => triple(iri(`urn:${name}`), iri('urn:p'), iri('urn:o'))
const lineOf = (name: string) => `<urn:${name}> <urn:p> <urn:o> .\n`

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphmill-store-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

describe('a file of batches', () => {
  test('holds nothing of a batch that failed, whatever part of it was written', async () => {
    const path = join(folder, 'a.nq')
    const file = await openDurableFile(path, 'a')
    await file.append('one\n')
    const { appendFile } = file.handle
    // As when the disk is full: a part is written, then it fails.
    vi.spyOn(file.handle, 'appendFile').mockImplementationOnce(async (bytes) => {
      await appendFile.call(file.handle, (bytes as Buffer).subarray(0, 2))
      throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
    })
    await expect(file.append('two\n')).rejects.toThrow('ENOSPC')
    await file.append('two\n')
    await file.append('three\n')
    await file.close()
    expect(await readFile(path, 'utf8')).toBe('one\ntwo\nthree\n')
  })

  test('ends without the half of a last batch that failed', async () => {
    const path = join(folder, 'a.nq')
    const file = await openDurableFile(path, 'a')
    await file.append('one\n')
    vi.spyOn(file.handle, 'datasync').mockRejectedValueOnce(new Error('EIO'))
    await expect(file.append('two\n')).rejects.toThrow('EIO')
    await file.close()
    expect(await readFile(path, 'utf8')).toBe('one\n')
  })

  test('holds concurrent batches one after the other', async () => {
    const path = join(folder, 'a.nq')
    const file = await openDurableFile(path, 'a')
    const lines = Array.from({ length: 50 }, (_, n) => `${'x'.repeat(n)}\n`)
    await Promise.all(lines.map((line) => file.append(line)))
    await file.close()
    expect(await readFile(path, 'utf8')).toBe(lines.join(''))
  })

  test('may be a device, which can neither be synced nor cut', async () => {
    const file = await openDurableFile('/dev/null', 'a')
    await file.truncate(0)
    await file.append('one\n')
    expect(await file.isThere()).toBe(true)
    await file.close()
  })
})

describe('the output of one command', () => {
  test('keeps an older result until there is another, even an empty one', async () => {
    const path = join(folder, 'g.nq')
    await writeFile(path, 'older\n')
    const first = await openFileStore(path, { format: 'nquads' })
    await first.close()
    expect(await readFile(path, 'utf8')).toBe('older\n')
    const second = await openFileStore(path, { format: 'nquads' })
    await second.write([factOf('a')], scope)
    await second.close()
    expect(await readFile(path, 'utf8')).toBe(lineOf('a'))
    const third = await openFileStore(path, { format: 'nquads' })
    await third.write([], scope)
    await third.close()
    expect(await readFile(path, 'utf8')).toBe('')
  })

  test('says so when it was removed while it was written', async () => {
    const path = join(folder, 'g.nq')
    const store = await openFileStore(path, { format: 'nquads' })
    await store.write([factOf('a')], scope)
    await rm(path)
    await expect(store.close()).rejects.toMatchObject({ code: 'store_failed' })
  })
})
