// Standard output that takes no more: a full disk is a failure with a code, a reader who has had enough is none.
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

  test('triples that can not be written are a failure of the store', () => {
    const { status, stderr } = graphmill('extract', '--llm', 'offline', '-')
    expect(stderr.trim().split('\n').slice(-2)).toEqual([
      expect.stringMatching(/^graphmill: standard output: ENOSPC: .*\. \[store_failed\]$/),
      expect.stringMatching(/^Check the disk .*\.$/),
    ])
    expect(status).toBe(1)
  })

  test.each([['config'], ['parse'], ['--help']])('so is what %s prints, by a code of its own', (command) => {
    const { status, stderr } = graphmill(command)
    expect(stderr).toMatch(/^graphmill: standard output: ENOSPC: .*\. \[output_failed\]\n.*\.\n$/)
    expect(status).toBe(1)
  })
})

test('a reader who has had enough ends the command well, and nothing is said', async () => {
  const child = spawn(process.execPath, [program, 'parse'], { env })
  child.stdout.destroy()
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  child.stdin.on('error', () => undefined)
  child.stdin.end('{"a":1}\n'.repeat(20_000))
  expect(await once(child, 'close')).toEqual([0, null])
  expect(stderr).toBe('')
})
