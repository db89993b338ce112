// Standard output that accepts no more: a full disk is a failure with a code, a reader that closes the output is not.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const program = fileURLToPath(new URL('../../bin/graphmill.js', import.meta.url))
const runtimes = 'A mill is a machine that grinds grain.'
const { PATH = '', HOME = '' } = process.env
const env = { PATH, HOME, GRAPHMILL_NO_CACHE: 'true' }

describe.skipIf(!existsSync('/dev/full'))('on a full disk', () => {
  function graphmill(...args: string[]) {
    const full = openSync('/dev/full', 'w')
    try {
      return spawnSync(process.execPath, [program, ...args], {
        env,
        input: runtimes,
        stdio: ['pipe', full, 'pipe'],
        encoding: 'utf8',
      })
    } finally {
      closeSync(full)
    }
  }

  // A page is printed as a whole, when the graph is complete.
  test.each(['nquads', 'html'])('%s that cannot be written is a store failure', (format) => {
    const { status, stderr } = graphmill('extract', '--llm', 'offline', '--format', format, '-')
    expect(stderr.trim().split('\n').slice(-2)).toEqual([
      expect.stringMatching(/^graphmill: standard output: ENOSPC: .*\. \[store_failed\]$/),
      expect.stringMatching(/^Check the disk .*\.$/),
    ])
    expect(status).toBe(1)
  })

  test.each([['config'], ['parse'], ['--help']])(
    'output of %s that cannot be written has its own code',
    (command) => {
      const { status, stderr } = graphmill(command)
      expect(stderr).toMatch(/^graphmill: standard output: ENOSPC: .*\. \[output_failed\]\n.*\.\n$/)
      expect(status).toBe(1)
    },
  )
})

test('a reader that closes the output ends the command with 0 and without a message', async () => {
  const child = spawn(process.execPath, [program, 'parse'], { env })
  child.stdout.destroy()
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  child.stdin.on('error', () => undefined)
  child.stdin.end('{"a":1}\n'.repeat(20_000))
  expect(await once(child, 'close')).toEqual([0, null])
  expect(stderr).toBe('')
})
