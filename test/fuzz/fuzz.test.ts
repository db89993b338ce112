// All fuzz targets with a fixed seed, two minutes together. On a busy machine each takes fewer inputs, but never fewer than its least.
// Longer: GRAPHMILL_FUZZ_SECONDS=3600, for all together.
import { describe, expect, test } from 'vitest'
import { seededRng } from './random.ts'
import { runTarget } from './runner.ts'
import { targets } from './targets.ts'

const seed = 20_261_122
const asked = process.env['GRAPHMILL_FUZZ_SECONDS']
const seconds = Number(asked ?? 100) / Object.keys(targets).length
/** Ends what the runner does not; no target comes near it. */
const extraMs = 300_000

describe('fuzz', () => {
  for (const [name, { module, iterations, least, hangMs }] of Object.entries(targets))
    test(
      `${name} keeps its properties for every input`,
      async () => {
        const report = await runTarget({
          name,
          module: new URL(module, import.meta.url).href,
          seed,
          iterations: asked === undefined ? iterations : 1e9,
          seconds,
          least,
          ...(hangMs !== undefined && { hangMs, limits: { failMs: hangMs } }),
        })
        const { costly, slowest, largest } = report
        process.stdout.write(
          `fuzz ${name}: seed ${seed}, ${report.iterations} inputs, slowest ${Math.round(slowest.ms)} ms, largest ${Math.round(largest.bytes / 2 ** 20)} MiB, over 100 ms or 50 MiB: ${costly.map(({ iteration }) => iteration).join(' ') || 'none'}\n`,
        )
        expect(report.failures).toEqual([])
        expect(report.iterations).toBeGreaterThanOrEqual(least)
      },
      seconds * 1000 + extraMs,
    )
})

describe('the runner', { timeout: 120_000 }, () => {
  const module = new URL('./broken.ts', import.meta.url).href
  const run = (options: Partial<Parameters<typeof runTarget>[0]> = {}) =>
    runTarget({ name: 'broken', module, seed: 1, iterations: 60, seconds: 60, ...options })
  const faultOf = (iteration: number) => Math.floor(seededRng(1, iteration)() * 40)
  const firstWith = (fault: number) => {
    for (let iteration = 0; ; iteration++) if (faultOf(iteration) === fault) return iteration
  }

  test('names the iteration of every failure, hang and death of the process, and goes on behind it', async () => {
    const [thrown, hang, death] = [firstWith(0), firstWith(1), firstWith(2)]
    const iterations = Math.max(thrown, hang, death) + 2
    const report = await run({ iterations, hangMs: 4000 })
    expect(report.iterations).toBe(iterations)
    const found = report.failures.map(({ iteration, message }) => [iteration, message.split('\n')[0]])
    expect(new Map(found as [number, string][])).toEqual(
      new Map([
        [thrown, 'Error: a property is violated'],
        [hang, 'hangs'],
        [death, 'ended the process (SIGABRT)'],
      ]),
    )
  })

  test('takes its least inputs when there is no time, and no more', async () => {
    const isSound = (first: number) => [0, 1, 2, 3, 4].every((n) => faultOf(first + n) > 4)
    const sound = Array.from({ length: 1000 }, (_, first) => first).find(isSound)!
    expect(await run({ first: sound, seconds: 0, least: 5 })).toMatchObject({ iterations: 5, failures: [] })
    expect((await run({ first: sound, seconds: 0 })).iterations).toBe(0)
  })

  test('says that a target does not start', async () => {
    const missing = await run({ module: new URL('./no-target.ts', import.meta.url).href })
    expect(missing).toMatchObject({ iterations: 0, failures: [{ iteration: 0, count: 1 }] })
    expect(missing.failures[0]!.message).toContain('before the first input: ended the process (1)')
  })

  test('runs one iteration again as it was', async () => {
    const { failures } = await run({ first: firstWith(0), iterations: 1 })
    expect(failures).toMatchObject([{ iteration: firstWith(0), count: 1 }])
  })

  test('reports what is slow or large, and fails beyond the limits', async () => {
    const large = await run({ first: firstWith(3), iterations: 1 })
    expect(large.failures).toEqual([])
    expect(large.costly).toMatchObject([{ iteration: firstWith(3) }])
    expect(large.largest.bytes).toBeGreaterThan(70 * 2 ** 20)
    const first = firstWith(4)
    expect((await run({ first, iterations: 1 })).slowest.ms).toBeGreaterThan(150)
    expect((await run({ first, iterations: 1, limits: { failMs: 150 } })).failures).toMatchObject([
      { iteration: first, message: 'took over 150 ms' },
    ])
    const failBytes = 60 * 2 ** 20
    expect((await run({ first: firstWith(3), iterations: 1, limits: { failBytes } })).failures).toMatchObject(
      [{ message: 'took over 60 MiB' }],
    )
  })
})
