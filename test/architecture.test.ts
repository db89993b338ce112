import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { expect, test } from 'vitest'
import { pages } from '../scripts/pages.ts'
import { providerNames } from '../src/config/models.ts'

/** The rooms of src, in the order in which they stand on each other: each imports only from those behind it. */
const rooms = [
  'cli',
  'extraction',
  'evaluation',
  'flow',
  'progress',
  'documents',
  'ontology',
  'rows',
  'trustgraph',
  'rdf',
  'prompt',
  'complete',
  'llm',
  'formats',
  'items',
  'grounding',
  'messages',
  'broker',
  'http',
  'subprocess',
  'observe',
  'config',
  'workers',
]

/** Folders of which only the main file is imported from outside, apart from types. */
const closedFolders = [
  'broker/kafka',
  'broker/memory',
  'broker/pulsar',
  'llm/anthropic',
  'llm/gemini',
  'llm/offline',
  'llm/ollama',
  'llm/openai',
  'complete/anthropic',
  'complete/gemini',
  'complete/openai',
]

interface Import {
  readonly from: string
  readonly to: string
  readonly typesOnly: boolean
}

/** The imports between files of src and processors, by paths from the root of the project; those of types too. */
const imports: readonly Import[] = ['src', 'processors'].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) => importsOf(posix.join(folder, file))),
)

function importsOf(from: string): Import[] {
  const statements = readFileSync(from, 'utf8').matchAll(
    /^(?:import|export)\b([^;'"]*?)\bfrom '(\.[^']+)'|\bimport\('(\.[^']+)'\)/gm,
  )
  return [...statements].map(([, names = '', path, loadedLater]) => ({
    from,
    to: posix.join(posix.dirname(from), (path ?? loadedLater)!),
    typesOnly: /^\s+type\b/.test(names) || /^\s*\{(\s*type\s[^,]*,?)+\s*\}\s*$/.test(names),
  }))
}

test('every room imports only from rooms that it stands on', () => {
  const found = readdirSync('src', { withFileTypes: true }).filter((entry) => entry.isDirectory())
  expect(found.map(({ name }) => name).sort()).toEqual([...rooms].sort())
  const upward = imports.filter(({ from, to }) => {
    const [at, beneath] = [from, to].map((path) => rooms.indexOf(path.split('/')[1]!))
    return from.startsWith('src/') && at !== -1 && beneath !== -1 && beneath! < at!
  })
  expect(upward).toEqual([])
  const ofProcessors = imports.filter(({ to }) => to.startsWith('processors/')).map(({ from }) => from)
  expect(
    ofProcessors.filter((from) => !/^(processors|src\/(cli|extraction))\/|^src\/index\.ts$/.test(from)),
  ).toEqual([])
})

test('no import is part of a cycle, in a room or between rooms, not even of types', () => {
  const targets = Map.groupBy(imports, ({ from }) => from)
  const finished = new Set<string>()
  const cycles: string[] = []
  function follow(file: string, path: readonly string[]): void {
    const at = path.indexOf(file)
    if (at !== -1) cycles.push([...path.slice(at), file].join(' → '))
    if (at !== -1 || finished.has(file)) return
    for (const { to } of targets.get(file) ?? []) follow(to, [...path, file])
    finished.add(file)
  }
  for (const file of targets.keys()) follow(file, [])
  expect(cycles).toEqual([])
})

test('only the main file of a broker or provider is imported from outside its folder, apart from types', () => {
  for (const folder of closedFolders) {
    const main = `src/${folder}/${posix.basename(folder)}.ts`
    const others = imports.filter(
      ({ from, to, typesOnly }) =>
        !typesOnly && !from.startsWith(`src/${folder}/`) && to.startsWith(`src/${folder}/`) && to !== main,
    )
    expect(others, folder).toEqual([])
    expect(
      imports.some(({ to }) => to === main),
      main,
    ).toBe(true)
  }
})

test('only src/index.ts and the main files of closed folders export what other files define', () => {
  const mainFiles = closedFolders.map((folder) => `src/${folder}/${posix.basename(folder)}.ts`)
  for (const file of new Set(imports.map(({ from }) => from)))
    if (file !== 'src/index.ts' && !mainFiles.includes(file))
      expect(readFileSync(file, 'utf8'), file).not.toMatch(/^export (\*|(type )?\{[^}]*\}) from/m)
})

test('brokers know no message and processors know no broker', () => {
  for (const file of readdirSync('processors')) {
    const text = readFileSync(`processors/${file}`, 'utf8')
    expect(/from '\.\.\/src\/broker\/(?!topics)/.test(text), file).toBe(false)
  }
})

test("no provider's name decides anything outside of the providers' folders and their table", () => {
  const literal = new RegExp(`['"\`](?:llm:)?(?:${providerNames.join('|')})['"\` ]`)
  const folders = providerNames.flatMap((name) => [`src/llm/${name}/`, `src/complete/${name}/`])
  const allowed = ['src/config/models.ts', 'src/llm/providers.ts', ...folders]
  const wrong = ['src', 'processors'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .map((file) => `${folder}/${file}`)
      .filter((file) => file.endsWith('.ts') && !allowed.some((start) => file.startsWith(start)))
      .filter((file) => literal.test(readFileSync(file, 'utf8').replaceAll(/^ *(?:\/\/|\/?\*).*$/gm, ''))),
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
