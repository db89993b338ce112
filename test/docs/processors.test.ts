import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { processors } from '../../processors/index.ts'

/** The page's names for replies; it uses the names of ports for all others. */
const replies: Readonly<Record<string, readonly string[]>> = {
  'its own replies': ['prompt-reply'],
  'a reply to a prompt': ['reply'],
  'a reply to a completion': ['text-reply'],
}

/** The ports that a cell of the table lists; text after a semicolon is a remark. */
const portsIn = (cell: string) =>
  cell
    .split(';')[0]!
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'nothing')
    .flatMap((name) => replies[name] ?? [name])
    .sort()

test('the page lists every processor with its inputs and outputs', () => {
  const page = readFileSync('docs/processors.md', 'utf8')
  const rows = [...page.matchAll(/^\| (`[^|]+) \| ([^|]+) \| ([^|]+) \|$/gm)]
  const told = rows.flatMap(([, names = '', reads = '', writes = '']) =>
    [...names.matchAll(/`([a-z-]+)`/g)].map(([, name]) => [
      name,
      { inputs: portsIn(reads), outputs: portsIn(writes) },
    ]),
  )
  const made = processors.map(({ name, inputs, outputs }) => [
    name,
    { inputs: [...inputs].sort(), outputs: [...outputs].sort() },
  ])
  expect(Object.fromEntries(told)).toEqual(Object.fromEntries(made))
  expect(told).toHaveLength(made.length)
})
