// Who may write to an output file: shown with processes that are killed, with PID namespaces as containers have them, and with two
// owners of one name.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Parser } from 'n3'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { lockFile } from '../../src/rdf/file-lock.ts'
import { openFolderStore } from '../../src/rdf/folder-store.ts'
import { documentName } from '../../src/rdf/support.ts'
import { iri, triple } from '../../src/rdf/term.ts'
import { formats } from '../../src/rdf/write.ts'

const writer = join(import.meta.dirname, '../support/store-writer.ts')
const scope = { workspace: 'w', flow: 'f' }
/** What no document states. */
const file = `w.f.${documentName('', scope)}.nq`
const fact = triple(iri('urn:later'), iri('urn:p'), iri('urn:o'))

let folder: string
let path: string
let children: ChildProcess[]
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphmill-lock-'))
  path = join(folder, 'a.lock')
  children = []
})
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL')
  await rm(folder, { recursive: true, force: true })
})

const contentOf = async (file: string) => JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>
const outputs = async () => (await readdir(folder)).filter((name) => !name.includes('.lock'))

function start(command: string, ...parameters: string[]): ChildProcess {
  const child = spawn(command, parameters, { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  return child
}

/** Kills a process when it says that it has written. */
async function killed(child: ChildProcess): Promise<void> {
  await once(child.stdout!, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
}

describe.skipIf(process.platform !== 'linux')('a lock', () => {
  test('names its owner by PID, start time, boot and PID namespace', async () => {
    const lock = await lockFile(path)
    expect(await contentOf(path)).toEqual({
      pid: process.pid,
      started: expect.stringMatching(/^\d+$/),
      boot: expect.stringMatching(/^[\da-f-]{36}$/),
      namespace: expect.stringMatching(/^pid:\[\d+\]$/),
    })
    expect(await lockFile(path)).toBeUndefined()
    await lock!.release()
    expect(await readdir(folder)).toEqual([])
  })

  test('of a process whose PID was reused is taken over at once', async () => {
    const lock = await lockFile(path)
    const owner = await contentOf(path)
    await lock!.release()
    // This process, or any that lives, with another start: it is not the owner.
    for (const pid of [process.pid, process.ppid]) {
      await writeFile(path, JSON.stringify({ ...owner, pid, started: '1' }))
      const taken = await lockFile(path, 3_600_000)
      expect(await contentOf(path)).toEqual(owner)
      await taken!.release()
    }
  })

  test.each([
    ['another boot', { boot: '00000000-0000-4000-8000-000000000000' }],
    ['another PID namespace', { namespace: 'pid:[1]' }],
    ['a system that says neither', { started: '', boot: '', namespace: '' }],
  ])("of %s is its owner's while it is renewed, and taken over when it is not", async (_, change) => {
    const first = await lockFile(path)
    const other = { ...(await contentOf(path)), ...change }
    await first!.release()
    await writeFile(path, JSON.stringify(other))
    const renewing = setInterval(() => void utimes(path, new Date(), new Date()), 50)
    expect(await lockFile(path)).toBeUndefined()
    clearInterval(renewing)
    const taken = await lockFile(path, 500)
    expect(await contentOf(path)).not.toEqual(other)
    await taken!.release()
  })

  test('is renewed, however old it is', async () => {
    const lock = await lockFile(path)
    await utimes(path, 0, 0)
    await expect.poll(async () => (await stat(path)).mtimeMs, { timeout: 20_000 }).toBeGreaterThan(0)
    await lock!.release()
  })

  test("of an earlier build, a PID alone, is its owner's while that lives", async () => {
    await writeFile(path, String(process.ppid))
    expect(await lockFile(path, 100)).toBeUndefined()
    await writeFile(path, String(process.pid))
    const taken = await lockFile(path, 100)
    expect(await contentOf(path)).toMatchObject({ pid: process.pid })
    await taken!.release()
  })

  test('of a dead owner is given to only one of many processes that want it at once', async () => {
    await writeFile(path, JSON.stringify({ pid: 1, started: '1', boot: 'another', namespace: '' }))
    const taken = await Promise.all(Array.from({ length: 20 }, () => lockFile(path, 100)))
    const held = await Promise.all(taken.map((lock) => lock?.isHeld()))
    expect(held.filter((is) => is === true)).toHaveLength(1)
    await Promise.all(taken.map((lock) => lock?.release()))
    expect(await readdir(folder)).toEqual([])
  })
})

describe.each(formats)('a file of %s whose writer was killed in the middle of a batch', (format) => {
  test('is cut to its whole batches and continued', async () => {
    await killed(start(process.execPath, writer, folder, format, 'torn'))
    const [name] = await outputs()
    const torn = await readFile(join(folder, name!), 'utf8')
    expect(torn).toContain('urn:three')
    // As in a container, where the next process has the same PID.
    const lock = join(folder, `${name}.lock`)
    await writeFile(lock, JSON.stringify({ ...(await contentOf(lock)), pid: process.pid }))

    const store = openFolderStore(folder, { format, lockPatienceMs: 3_600_000 })
    await store.write([fact], scope)
    await store.close()
    expect(await readdir(folder)).toEqual([name])
    const text = await readFile(join(folder, name!), 'utf8')
    const subjects =
      format === 'jsonl'
        ? text
            .split('\n')
            .slice(0, -1)
            .map((line) => JSON.stringify(JSON.parse(line)))
        : new Parser({ format }).parse(text).map(({ subject }) => subject.value)
    for (const [subject, count] of [
      ['urn:one', 3],
      ['urn:two', 3],
      ['urn:later', 1],
    ] as const)
      expect(subjects.filter((each) => each.includes(subject))).toHaveLength(count)
  })
})

const namespaces = (() => {
  try {
    execFileSync('unshare', ['--pid', '--fork', '--mount-proc', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    console.warn('PID namespaces can not be made here: the tests of containers are skipped')
    return false
  }
})()

describe.skipIf(!namespaces)('in containers, where each process is PID 1', () => {
  const contained = (...parameters: string[]) =>
    start(
      'unshare',
      '--pid',
      '--fork',
      '--mount-proc',
      '--kill-child',
      process.execPath,
      writer,
      ...parameters,
    )

  test('the next process continues the file of a killed one', async () => {
    for (const expected of [1, 2]) {
      await killed(contained(folder, 'nquads', 'torn'))
      expect(await outputs()).toEqual([file])
      const lines = (await readFile(join(folder, file), 'utf8')).split('\n').slice(0, -1)
      expect(lines.filter((line) => line.includes('urn:two'))).toHaveLength(3 * expected)
      for (const line of lines.slice(0, -3)) expect(line).toMatch(/^# | \.$/)
    }
    expect(await contentOf(join(folder, `${file}.lock`))).toMatchObject({ pid: 1 })
  })

  test('several processes on one volume append to one file, and nothing is lost', async () => {
    const living = contained(folder, 'nquads', 'many')
    const others = [contained(folder, 'nquads', 'many'), contained(folder, 'nquads', 'many')]
    await Promise.all([living, ...others].map((each) => once(each.stdout!, 'data')))
    const store = openFolderStore(folder, { format: 'nquads' })
    await store.write([fact], scope)
    expect(await outputs()).toEqual([file])
    const lines = (await readFile(join(folder, file), 'utf8')).split('\n')
    expect(lines.filter((line) => line.startsWith('<urn:many'))).toHaveLength(3 * 3 * 20)
    expect(lines.filter((line) => line.startsWith('<urn:later>'))).toHaveLength(1)
  })
})
