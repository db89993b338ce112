import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { apiPage, exportsOf } from '../../scripts/api.js'
import * as library from '../../src/index.ts'

const index = readFileSync('src/index.ts', 'utf8')
const exported = exportsOf(index, 'dist/src')

test('the API page has everything that the package exports, each with a comment and its declaration', () => {
  const names = exported.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  // What exists at run time is found by the runtime, types by the text.
  for (const name of Object.keys(library)) expect(names).toContain(name)
  const listed = [...index.matchAll(/\{([^}]*)\} from/g)].flatMap(([, list = '']) =>
    list.split(',').filter((each) => each.trim()),
  )
  expect(names).toHaveLength(listed.length)
  expect(exported.filter(({ comment }) => comment.length < 15).map(({ name }) => name)).toEqual([])
  for (const { name, code, group } of exported) {
    expect(code, name).toMatch(/^(declare )?(async )?(function|const|class|interface|type) \w+/)
    expect(code.trimEnd(), name).toMatch(/[;}]$/)
    expect(group).not.toBe('')
  }
  const page = apiPage(exported)
  for (const name of names) expect(page).toContain(`\n### ${name}\n`)
  expect(readFileSync('dist/api.md', 'utf8'), 'run `npm run build`').toBe(page)
})
