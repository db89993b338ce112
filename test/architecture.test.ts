import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { pages } from '../scripts/pages.ts'
import { providerNames } from '../src/config/models.ts'

/** The rooms of src, in the order in which they stand on each other: each imports only from those behind it. */
const rooms = [
  'cli',
  'flow',
  'progress',
  'documents',
  'ontology',
  'rows',
  'rdf',
  'prompt',
  'complete',
  'llm',
  'formats',
  'items',
  'messages',
  'broker',
  'http',
  'subprocess',
  'observe',
  'config',
  'workers',
]

test('every room imports only from rooms that it stands on', () => {
  const found = readdirSync('src', { withFileTypes: true }).filter((entry) => entry.isDirectory())
  expect(found.map(({ name }) => name).sort()).toEqual([...rooms].sort())
  const wrong: string[] = []
  for (const [at, room] of rooms.entries())
    for (const file of readdirSync(`src/${room}`, { recursive: true, encoding: 'utf8' }))
      if (file.endsWith('.ts'))
        for (const [, from] of readFileSync(`src/${room}/${file}`, 'utf8').matchAll(
          /from '(?:\.\.\/)+([a-z]+)\/[^']+'/g,
        ))
          if (rooms.includes(from!) && rooms.indexOf(from!) < at)
            wrong.push(`${room}/${file} imports from ${from}`)
  expect(wrong).toEqual([])
})

test('brokers know no message and processors know no broker', () => {
  for (const file of readdirSync('processors')) {
    const text = readFileSync(`processors/${file}`, 'utf8')
    expect(/from '\.\.\/src\/broker\/(?!topics)/.test(text), file).toBe(false)
  }
})

test("no provider's name decides anything outside of the folders of providers and their table", () => {
  const decision = new RegExp(
    `(?:[!=]==? |case |\\b(?:startsWith|includes|has)\\()['\`"](?:llm:)?(?:${providerNames.join('|')})\\b`,
  )
  const allowed = /^src\/(?:llm\/providers|cli\/diagnosis)\.ts$|^src\/(?:llm|complete)\/(\w+)\//
  const wrong = ['src', 'processors'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .map((file) => `${folder}/${file}`)
      .filter((file) => {
        const [isAllowed, room = 'openai'] = allowed.exec(file) ?? []
        if (!file.endsWith('.ts') || (isAllowed && providerNames.some((name) => name === room))) return false
        return decision.test(readFileSync(file, 'utf8'))
      }),
  )
  expect(wrong).toEqual([])
})

test('the pages of docs that are made from the code are not stale', () => {
  for (const [name, page] of Object.entries(pages))
    expect(readFileSync(`docs/${name}`, 'utf8'), 'run `npm run pages`').toBe(page())
})

test('the page of errors says dead letter only of errors that a message can have', () => {
  const rows = pages['errors.md']!().split('\n')
  const rowOf = (code: string) => rows.find((row) => row.startsWith(`| \`${code}\` |`))
  for (const code of ['usage', 'flow_unknown', 'document_encrypted'])
    expect(rowOf(code)).not.toMatch(/dead-letter/)
  for (const code of ['message_invalid', 'reply_not_json']) expect(rowOf(code)).toMatch(/dead-letter/)
})

test('the lock names what every package may need on any platform, so that npm ci never asks for more', () => {
  const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
    packages: Record<string, { optionalDependencies?: Record<string, string> }>
  }
  const locked = new Set(Object.keys(lock.packages).map((path) => path.split('node_modules/').at(-1)))
  const wanted = Object.values(lock.packages).flatMap((entry) =>
    Object.keys(entry.optionalDependencies ?? {}),
  )
  expect(wanted.filter((name) => !locked.has(name))).toEqual([])
})

test('every source file that the docs name exists', () => {
  const docs = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', ...globSync('docs/*.md')]
  const named = docs.flatMap((page) =>
    [
      ...readFileSync(page, 'utf8').matchAll(
        /`((?:src|processors|test|schemas|prompts|scripts)\/[^`<>*\s]+)`/g,
      ),
    ].map(([, path]) => `${page} ${path}`),
  )
  expect(named.length).toBeGreaterThan(100)
  expect(named.filter((name) => !existsSync(name.split(' ')[1]!))).toEqual([])
})
