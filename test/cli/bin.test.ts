// bin/graphmill.js on a Node that is too old (this one, which pretends to be), and as the first process of a container.
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const program = fileURLToPath(new URL('../../bin/graphmill.js', import.meta.url))
const pretence = 'Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.1.0"}})'

function onOldNode(args: readonly string[], stdin: 'pipe' | Readable = 'pipe') {
  const { GRAPHMILL_NODE_TRIED: _, ...env } = process.env
  return spawn(process.execPath, ['--import', `data:text/javascript,${pretence}`, program, ...args], {
    env,
    stdio: [stdin, 'pipe', 'pipe'],
  }) as ChildProcessWithoutNullStreams
}

/** A pipe that nothing is written to; it is open until it is disposed. */
async function heldOpen() {
  const holder = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return {
    stdin: holder.stdout,
    async [Symbol.asyncDispose]() {
      holder.kill('SIGKILL')
      await once(holder, 'exit')
    },
  }
}

test('starts the Node of node_modules with the given arguments', async () => {
  const child = onOldNode(['parse'])
  child.stdin.end('{"a":1}\n')
  let stdout = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  const [code] = await once(child, 'close')
  expect(JSON.parse(stdout)).toMatchObject({ items: [{ a: 1 }] })
  expect(code).toBe(0)
})

test('a signal ends the child process, and the parent ends in the same way', async () => {
  const child = onOldNode(['parse'])
  // More than the buffer of a pipe: once it is written, there is a reader.
  await new Promise((resolve) => child.stdin.write('x'.repeat(2 ** 20), resolve))
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([null, 'SIGTERM'])
})

test('Ctrl-C reaches the child process while standard input is open', async () => {
  const child = onOldNode(['extract', '-'])
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    // The first line of progress shows that it has started.
    if (!stderr.includes('units of') && (stderr + text).includes('units of')) child.kill('SIGINT')
    stderr += text
  })
  expect(await once(child, 'close')).toEqual([1, null])
  expect(stderr).toContain('stopped before the end')
})

test('the child process ends when the parent is killed and cannot forward a signal', async () => {
  // Standard input stays open: its end would end the command too.
  await using holder = await heldOpen()
  const child = onOldNode(['extract', '-'], holder.stdin)
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    if (text.includes('units of')) child.kill('SIGKILL')
  })
  const [, signal] = await once(child, 'exit')
  expect(signal).toBe('SIGKILL')
  // The child process has the same standard output, which closes when both processes have ended.
  await once(child.stdout.resume(), 'close')
})

test('it exits with the exit code of the child process', async () => {
  const child = onOldNode(['no-such-command'])
  expect(await once(child, 'close')).toEqual([2, null])
})

/** What each Node that runs the program, one after the other, says of itself. */
const look = `console.error('node', JSON.stringify([process.pid, process.execArgv.filter((flag) => flag.startsWith('--max-semi') || flag.startsWith('--heap-growing') || flag.endsWith('-sweeping')),
  [process.env.MALLOC_ARENA_MAX, process.env.MALLOC_MMAP_THRESHOLD_, process.env.MALLOC_TRIM_THRESHOLD_].join(), process.argv.slice(2)]))`
const looking = ['--import', `data:text/javascript,${encodeURIComponent(look)}`]

function looks(stderr: string) {
  const lines = stderr.split('\n').filter((line) => line.startsWith('node '))
  return lines.map((line) => JSON.parse(line.slice(5)) as [number, string[], string, string[]])
}

function lookedAt(args: readonly string[], flags: readonly string[] = [], env: Record<string, string> = {}) {
  const { NODE_OPTIONS: _, ...rest } = process.env
  const { status, stderr } = spawnSync(process.execPath, [...looking, ...flags, program, ...args], {
    env: { ...rest, ...env },
    encoding: 'utf8',
  })
  return { status, seen: looks(stderr) }
}

describe('the sizes of V8', () => {
  test.each([
    ['run', 4, 100],
    ['load', 2, 60],
    ['extract', 4, 100],
  ])('are small for %s, in the same process', (command, semiSpace, growth) => {
    const { status, seen } = lookedAt([command, '--nope', 'a b'])
    expect(seen).toHaveLength(2)
    const [[pid], [samePid, flags, malloc, args]] = seen as [(typeof seen)[0], (typeof seen)[0]]
    expect(samePid).toBe(pid)
    const sizes = [`--max-semi-space-size=${semiSpace}`, `--heap-growing-percent=${growth}`]
    expect(flags).toEqual([...sizes, '--no-concurrent-sweeping'])
    expect(malloc).toBe('1,65536,65536')
    expect(args).toEqual([command, '--nope', 'a b'])
    expect(status).toBe(2)
  })

  test('are those of Node for a short command', () => {
    expect(lookedAt(['--version'])).toMatchObject({
      status: 0,
      seen: [[expect.any(Number), [], ',,', ['--version']]],
    })
    expect(lookedAt(['run', '--help']).status).toBe(0)
  })

  test('are those that the user has set, by a flag of Node or in NODE_OPTIONS', () => {
    expect(lookedAt(['run', '--nope'], ['--max-semi-space-size=8']).seen).toHaveLength(1)
    expect(lookedAt(['run', '--nope'], [], { NODE_OPTIONS: '--max-semi-space-size=8' }).seen).toHaveLength(1)
    const { seen } = lookedAt(['run', '--nope'], [], { MALLOC_ARENA_MAX: '3' })
    expect(seen[1]![2]).toBe('3,65536,65536')
  })

  test('leave standard input and signals to the command', async () => {
    const child = spawn(process.execPath, [...looking, program, 'extract', '-'])
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      if (!stderr.includes('units of') && (stderr + text).includes('units of')) child.kill('SIGINT')
      stderr += text
    })
    child.stdin.write('The mill of Kolm stands in Estland.\n\n')
    expect(await once(child, 'close')).toEqual([1, null])
    expect(looks(stderr)).toHaveLength(2)
    expect(stderr).toContain('stopped before the end')
  })
})

const inNamespace = ['--pid', '--fork', '--kill-child']
const namespaces = spawnSync('unshare', [...inNamespace, 'true']).status === 0
if (!namespaces) console.warn('PID namespaces can not be made here: the tests of PID 1 are skipped')

describe.skipIf(!namespaces)('as the first process of a container', () => {
  /** Runs it there. */
  function contained(before: string, args: readonly string[] = ['parse']) {
    const { GRAPHMILL_NODE_TRIED: _, ...env } = process.env
    const node = [process.execPath, '--import', `data:text/javascript,${encodeURIComponent(before)}`]
    const options = { env, input: '{"a":1}\n', encoding: 'utf8', timeout: 60_000 } as const
    return spawnSync('unshare', [...inNamespace, ...node, program, ...args], options)
  }

  test('it can end itself by a signal, unlike PID 1, and its exit code says which one', () => {
    const endedBy = (signal: NodeJS.Signals) =>
      contained(`process.env.GRAPHMILL_NODE_TRIED && process.kill(process.pid, '${signal}')`).status
    expect(endedBy('SIGTERM')).toBe(143)
    expect(endedBy('SIGABRT')).toBe(134)
  })

  test('it gives the child process its sizes of V8', () => {
    const { status, stderr } = contained(look, ['run', '--nope'])
    expect(looks(stderr).map(([, flags]) => flags.length)).toEqual([0, 3])
    expect(status).toBe(2)
  })

  test('it works as elsewhere, with the flags of Node', () => {
    const { status, stdout, stderr } = contained('console.error(process.pid === 1, process.execArgv.length)')
    expect(JSON.parse(stdout)).toMatchObject({ items: [{ a: 1 }] })
    expect(stderr).toBe('true 2\nfalse 2\n')
    expect(status).toBe(0)
  })
})
