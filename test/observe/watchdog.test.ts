import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'

const module = new URL('../../src/observe/watchdog.ts', import.meta.url).href

/** A process with a watchdog of half a second, that does this; sleeping is its own. */
function trial(body: string) {
  const code = `import { startWatchdog } from ${JSON.stringify(module)}
    const watchdog = startWatchdog({ blockedMs: 500 })
    const block = (ms) => { const end = performance.now() + ms; while (performance.now() < end); }
    const later = (act) => setTimeout(act, 700);
    ${body}`
  const { status, signal, stderr, stdout } = spawnSync(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', code],
    { encoding: 'utf8', timeout: 20_000, killSignal: 'SIGKILL' },
  )
  return { status, signal, stderr, stdout }
}

test('a process whose main thread is blocked ends by SIGABRT, and says so', () => {
  const { signal, stderr } = trial('process.on("SIGTERM", () => {}); later(() => block(60_000))')
  expect(signal).toBe('SIGABRT')
  expect(JSON.parse(stderr.trim())).toMatchObject({
    level: 60,
    blockedMs: 500,
    msg: 'the main thread is blocked: the process ends',
  })
})

test('a process that is busy, idle or at its end is left alone', () => {
  expect(trial('later(() => console.log("ended"))')).toMatchObject({ status: 0, stdout: 'ended\n' })
  expect(
    trial('const busy = setInterval(() => block(100), 0); later(() => clearInterval(busy))').status,
  ).toBe(0)
  expect(trial('later(async () => { await watchdog.stop(); block(1500); })').status).toBe(0)
})

test('a thread that a debugger may hold is left alone', () => {
  const open = '(await import("node:inspector")).open(0, "127.0.0.1")'
  expect(trial(`${open}; later(() => { block(1500); process.exit(0) })`).status).toBe(0)
})
