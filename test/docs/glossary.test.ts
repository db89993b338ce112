import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const rows = [...readFileSync('docs/glossary.md', 'utf8').matchAll(/^\| ([^|]+) \| ([^|]+) \|$/gm)].slice(1)
const terms = rows.map(([, term = '']) => term)

test('the glossary is in alphabetical order, and has each term once', () => {
  expect(terms).toEqual([...new Set(terms)].sort())
})

test('the glossary has every term of the glossary in the code', () => {
  const code = readFileSync('src/flow/processor.ts', 'utf8')
  const [, lines = ''] = /^\/\/ Glossary\n((?:\/\/.*\n)+)/m.exec(code) ?? []
  const inCode = [...lines.matchAll(/(?:^\/\/| ) {2,3}([a-zA-Z]+) {2,}/gm)].map(([, name]) =>
    name!.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`),
  )
  expect(inCode.length).toBeGreaterThan(15)
  expect(inCode.filter((name) => !terms.includes(name) && !terms.includes(`${name} letter`))).toEqual([])
})
