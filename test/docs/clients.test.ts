import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const page = readFileSync('docs/clients.md', 'utf8')
const fieldsOf = (schema: string): string[] =>
  (JSON.parse(readFileSync(`schemas/${schema}.avsc`, 'utf8')) as { fields: { name: string }[] }).fields.map(
    ({ name }) => name,
  )

/** The names in the first column of the tables under a heading. */
function namesUnder(heading: string): string[] {
  const [, section = ''] = new RegExp(`^## ${heading}$(.*?)^## `, 'ms').exec(page) ?? []
  const cells = [...section.matchAll(/^\| (`[^|]+) \|/gm)].map(([, cell = '']) => cell)
  return cells.flatMap((cell) => [...cell.matchAll(/`([\w.]+)`/g)].map(([, name]) => name!))
}

test('the page lists every field of a request', () => {
  const payload = fieldsOf('prompt-request').map((name) => `payload.${name}`)
  expect(namesUnder('Fields of a request').sort()).toEqual([...fieldsOf('envelope'), ...payload].sort())
})

test('the page lists every field of a reply', () => {
  expect(namesUnder('Fields of a reply').sort()).toEqual(fieldsOf('prompt-response').sort())
})
