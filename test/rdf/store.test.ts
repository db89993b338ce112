import { mkdir, mkdtemp, readdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { openDurableFile } from '../../src/rdf/durable-file.ts'
import { openFileStore, openFolderStore } from '../../src/rdf/store.ts'
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

describe('a folder of files', () => {
  const filesOf = async (of: string) => (await readdir(of)).filter((name) => name.endsWith('.nq'))

  test.each([
    ['removed', (path: string) => rm(path)],
    ['renamed', (path: string) => rename(path, `${path}.old`)],
    ['removed with its folder', () => rm(folder, { recursive: true })],
  ])('creates a file again that was %s while it was open', async (_, spoil) => {
    const store = openFolderStore(folder, { format: 'nquads' })
    await store.write([factOf('a')], scope)
    const [name] = await filesOf(folder)
    await spoil(join(folder, name!))
    await store.write([factOf('b')], scope)
    await store.write([factOf('c')], scope)
    await store.close()
    expect(await filesOf(folder)).toEqual([name])
    expect(await readFile(join(folder, name!), 'utf8')).toBe(lineOf('b') + lineOf('c'))
    expect((await readdir(folder)).filter((each) => each.endsWith('.lock'))).toEqual([])
  })

  test('has the same file when the first attempt at it failed, and takes over a lock that names nobody and is not renewed', async () => {
    const store = openFolderStore(folder, { format: 'turtle', lockPatienceMs: 100 })
    const name = `w.f.${hostname()}.ttl`
    await mkdir(join(folder, name))
    await expect(store.write([factOf('a')], scope)).rejects.toMatchObject({ code: 'store_failed' })
    await rm(join(folder, name), { recursive: true })
    const lock = join(folder, `${name}.lock`)
    await writeFile(lock, '')
    await utimes(lock, new Date(0), new Date(0))
    await store.write([factOf('a')], scope)
    await store.close()
    expect(await readdir(folder)).toEqual([name])
  })

  test('does not touch the file of an unknown process that renews its lock', async () => {
    const store = openFolderStore(folder, { format: 'nquads' })
    const lock = join(folder, `w.f.${hostname()}.nq.lock`)
    await writeFile(lock, '')
    const renewing = setInterval(() => void utimes(lock, new Date(), new Date()), 50)
    try {
      await store.write([factOf('a')], scope)
    } finally {
      clearInterval(renewing)
    }
    await store.close()
    expect(await filesOf(folder)).toEqual([`w.f.${hostname()}-2.nq`])
  })

  test('is not ready when it cannot be created', async () => {
    const path = join(folder, 'taken')
    await writeFile(path, '')
    const store = openFolderStore(path, { format: 'nquads' })
    await expect(store.ready!()).rejects.toMatchObject({ code: 'store_failed' })
    await openFolderStore(join(folder, 'new'), { format: 'nquads' }).ready!()
    expect(await readdir(folder)).toContain('new')
  })
})
