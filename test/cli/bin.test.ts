// bin/graphmill.js on a Node that is too old: here this one, that says it were.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const program = fileURLToPath(new URL('../../bin/graphmill.js', import.meta.url))
const pretence = 'Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.1.0"}})'

function onOldNode(args: readonly string[]) {
  const { GRAPHMILL_NODE_TRIED: _, ...env } = process.env
  return spawn(process.execPath, ['--import', `data:text/javascript,${pretence}`, program, ...args], { env })
}

test('starts the Node of node_modules, with what was given', async () => {
  const child = onOldNode(['parse'])
  child.stdin.end('{"a":1}\n')
  let stdout = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  const [code] = await once(child, 'close')
  expect(JSON.parse(stdout)).toMatchObject({ items: [{ a: 1 }] })
  expect(code).toBe(0)
})

test('a signal ends what it started, and it ends in the same way', async () => {
  const child = onOldNode(['parse'])
  // More than a pipe holds: when it is written, there is a reader.
  await new Promise((resolve) => child.stdin.write('x'.repeat(2 ** 20), resolve))
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([null, 'SIGTERM'])
})

test('Ctrl-C reaches what it started, where standard input is still open', async () => {
  const child = onOldNode(['extract', '-'])
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    // With its first line of progress it has begun.
    if (!stderr.includes('units of') && (stderr + text).includes('units of')) child.kill('SIGINT')
    stderr += text
  })
  expect(await once(child, 'close')).toEqual([1, null])
  expect(stderr).toContain('stopped before the end')
})
