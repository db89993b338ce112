// The reply cache of `extract`: its size and age, with other processes, after a crash, and with a failing disk.
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import cacache from 'cacache'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type CommandOptions, type Ended, graphmill } from '../support/command.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'

const chunks = 20
const day = 24 * 3600 * 1000
let server: LlmServer
let folder: string
beforeEach(async () => {
  server = await startLlmServer()
  folder = mkdtempSync(join(tmpdir(), 'graphmill-replies-'))
  const text = (n: number) =>
    `Mill ${n} is a windmill. The miller of mill ${n} grinds grain for village ${n}. `
  const paragraphs = Array.from({ length: chunks }, (_, n) => text(n).padEnd(140, 'It turns. '))
  writeFileSync(join(folder, 'mills.txt'), paragraphs.join('\n\n'))
})
afterEach(async () => {
  await server.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Definitions of 20 chunks. */
const extract = (args: readonly string[] = [], more: CommandOptions = {}) =>
  graphmill(
    [
      'extract',
      join(folder, 'mills.txt'),
      ...['--chunk-size', '150', '--chunk-overlap', '0', '--extractors', 'definitions'],
      ...['--cache-dir', join(folder, 'cache'), ...args],
    ],
    {
      env: { OPENAI_BASE_URL: server.url, GRAPHMILL_MODEL: 'test-model', GRAPHMILL_NO_CACHE: 'false' },
      ...more,
    },
  )

/** The same, ended by `signal` when it is `time`. */
function interrupt(
  signal: NodeJS.Signals,
  time: () => Promise<void>,
  args: readonly string[],
): Promise<Ended> {
  let begun = false
  return extract(args, {
    onStderr(_text, kill) {
      if (!begun) void time().then(() => kill(signal))
      begun = true
    },
  })
}

const replies = () => join(folder, 'cache', 'replies')
const entries = async () => (existsSync(replies()) ? Object.keys(await cacache.ls(replies())).length : 0)
const sorted = (text: string) => text.trim().split('\n').sort()

describe('what is cached', () => {
  const mebibyte = 1024 ** 2

  test.each<[string, readonly string[], readonly Planted[], readonly string[]]>([
    [
      'a gibibyte by default',
      [],
      [
        { name: 'young', size: 500 * mebibyte, age: day / 24 },
        { name: 'older', size: 500 * mebibyte, age: day / 12 },
        { name: 'oldest', size: 100 * mebibyte, age: day / 6 },
      ],
      ['young', 'older'],
    ],
    [
      'thirty days by default',
      [],
      [
        { name: 'young', size: 1, age: 29 * day },
        { name: 'old', size: 1, age: 31 * day },
      ],
      ['young'],
    ],
    [
      'what --cache-size says',
      ['--cache-size', '100'],
      [
        { name: 'young', size: 60 * mebibyte, age: day / 24 },
        { name: 'older', size: 60 * mebibyte, age: day / 12 },
      ],
      ['young'],
    ],
    [
      'what --cache-days says',
      ['--cache-days', '2'],
      [
        { name: 'young', size: 1, age: day },
        { name: 'old', size: 1, age: 3 * day },
      ],
      ['young'],
    ],
  ])('is no more and no older than %s', async (_name, args, planted, kept) => {
    await plant(planted)
    expect((await extract(args)).code).toBe(0)
    const left = Object.keys(await cacache.ls(replies()))
    expect(left.filter((key) => planted.some(({ name }) => name === key)).sort()).toEqual([...kept].sort())
    expect(left).toHaveLength(kept.length + chunks)
  })

  interface Planted {
    readonly name: string
    /** The size that the entry claims, in bytes. */
    readonly size: number
    /** In milliseconds. */
    readonly age: number
  }

  /** Entries of other runs, in a folder that was last cleaned up two days ago. */
  async function plant(planted: readonly Planted[]): Promise<void> {
    for (const { name, size, age } of planted) {
      const integrity = await cacache.put(replies(), name, name)
      await cacache.index.insert(replies(), name, integrity, { size, time: Date.now() - age } as object)
    }
    writeFileSync(join(replies(), 'tidied'), '')
    const before = Date.now() / 1000 - 2 * 24 * 3600
    utimesSync(join(replies(), 'tidied'), before, before)
  }

  test('is shared by processes that run at the same time', async () => {
    const [one, two] = await Promise.all([extract(), extract()])
    expect([one.code, two.code]).toEqual([0, 0])
    expect(sorted(one.stdout)).toEqual(sorted(two.stdout))
    expect(await entries()).toBe(chunks)
    const before = server.counts.calls
    const third = await extract()
    expect(sorted(third.stdout)).toEqual(sorted(one.stdout))
    expect(server.counts.calls).toBe(before)
  })

  test('is not asked for again after kill -9: only the calls in flight are', async () => {
    const whole = await extract(['--no-cache'])
    const before = server.counts.calls
    const [answered, concurrency] = [9, 4]
    server.set({ rules: [{ times: answered, extract: 'definitions' }, { reply: { refuse: 'hang' } }] })
    const allInWork = async () => {
      await server.until(({ calls }) => calls === before + answered + concurrency)
      while ((await entries()) < answered) await wait(10)
    }
    const killed = await interrupt('SIGKILL', allInWork, ['--concurrency', String(concurrency)])
    expect(killed.signal).toBe('SIGKILL')
    server.set({ rules: undefined })
    const again = await extract()
    expect(again.code).toBe(0)
    expect(sorted(again.stdout)).toEqual(sorted(whole.stdout))
    expect(server.counts.calls - before).toBe(chunks + concurrency)
  })

  test('is announced on Ctrl-C, and used afterwards', async () => {
    server.set({ rules: [{ times: 9, extract: 'definitions' }, { reply: { refuse: 'hang' } }] })
    const half = () => server.until(({ calls }) => calls > 9)
    const stopped = await interrupt('SIGINT', half, ['--concurrency', '1'])
    expect(stopped.code).toBe(1)
    expect(stopped.stderr).toMatch(/run the same command again with --resume: what .* is remembered, .*\n$/)
    server.set({ rules: undefined })
    const before = server.counts.calls
    expect((await extract(['--resume'])).code).toBe(0)
    expect(server.counts.calls - before).toBe(chunks - 9)
  })
})

describe('a folder that cannot be used as a cache', () => {
  /** The obstacle, and the path at which it is found. */
  const cases: [string, () => void][] = [
    ['a file stands in its place', () => writeFileSync(join(folder, 'cache'), 'a file')],
    [
      'nothing can be written there',
      () => {
        mkdirSync(replies(), { recursive: true })
        writeFileSync(join(replies(), 'tmp'), 'a file')
      },
    ],
  ]
  const sentence = () => `graphmill: replies of the model cannot be remembered in ${join(folder, 'cache')} (E`

  test.each(cases)('is reported once, and nothing fails: %s', async (_name, spoil) => {
    spoil()
    for (const args of [[], ['--resume']]) {
      const { code, stderr, stdout } = await extract(args)
      expect(code).toBe(0)
      expect(stdout.trim().split('\n').length).toBeGreaterThan(chunks)
      expect(stderr.split('\n').filter((line) => line.startsWith(sentence()))).toHaveLength(1)
    }
    expect(server.counts.calls).toBe(2 * chunks)
  })

  test.each(cases)('is not announced on Ctrl-C: %s', async (_name, spoil) => {
    spoil()
    server.set({ rules: [{ times: 3, extract: 'definitions' }, { reply: { refuse: 'hang' } }] })
    const half = () => server.until(({ calls }) => calls > 3)
    const { code, stderr } = await interrupt('SIGINT', half, ['--concurrency', '1'])
    expect(code).toBe(1)
    expect(stderr).toMatch(/to go on, run the same command again\n$/)
  })
})
