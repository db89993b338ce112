// Code blocks in TypeScript compile and run, files are valid for their readers, and inline commands have the flags that they show.
// Blocks in sh and SPARQL run in sessions.test.ts.
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { flowsOf } from '../../src/cli/flows.ts'
import { readConfig } from '../../src/config/config.ts'
import { optionTable } from '../../src/config/options.ts'
import type { AnyProcessor } from '../../src/flow/processor.ts'
import { loadOntology } from '../../src/ontology/load.ts'
import { loadCatalogue } from '../../src/prompt/catalogue/catalogue.ts'
import { loadRowSchemas } from '../../src/rows/load.ts'
import { graphmill } from '../support/command.ts'
import { startFlow } from '../support/flow.ts'
import { findHelm } from '../support/helm.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { type Block, blocks, pages, placeOf } from './blocks.ts'

const run = promisify(execFile)

/** The readers of files, by file name. Each throws for an invalid file. */
const readers: readonly { readonly of: RegExp; read(path: string): unknown }[] = [
  { of: /^graphmill\.yaml$/, read: (path) => readConfig({ flags: { config: path }, environment: {} }) },
  { of: /^flows\.yaml$/, read: (path) => flowsOf(readConfig({ flags: { flows: path }, environment: {} })) },
  { of: /^prompts\/.*\.yaml$/, read: (path) => loadCatalogue([path]) },
  { of: /^schemas\/.*\.yaml$/, read: (path) => loadRowSchemas([path]) },
  {
    of: /^values\.yaml$/,
    async read(path) {
      await run((await findHelm())!, ['lint', '--strict', 'deploy/helm/graphmill', '--values', path])
    },
  },
  { of: /\.service$/, read: readUnit },
  { of: /\.ttl$/, read: (path) => loadOntology([path]) },
]

/** A unit of systemd: sections of settings, and enough time to finish messages in flight. */
function readUnit(path: string): void {
  const text = readFileSync(path, 'utf8')
  const strange = text
    .split('\n')
    .filter((line) => !/^(#.*|\[(Unit|Service|Install)\]|[A-Z]\w+=.+|)$/.test(line))
  expect(strange).toEqual([])
  const command = /^ExecStart=\/opt\/graphmill\/bin\/graphmill\.js (.+)$/m.exec(text)?.[1]
  const flags = [...(command ?? '').matchAll(/--([a-z-]+)/g)].map(([, name]) => name!)
  expect(flags.filter((name) => name !== 'all' && !(name in optionTable))).toEqual([])
  const seconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(text)?.[1])
  expect(seconds).toBeGreaterThan(optionTable['llm-timeout'].default + 15)
}

/** The languages of blocks that are run, here, in a session, or in test/deploy/alerts.test.ts. */
const elsewhere = ['sh', 'sparql', 'ts', 'python', 'java', 'xml', 'console', 'promql']

/** Inside the repository, so that `graphmill` and its dependencies are found. */
let folder: string
// Where it is not there yet, it is built.
beforeAll(findHelm, 900_000)
beforeAll(() => {
  mkdirSync('.cache', { recursive: true })
  folder = mkdtempSync('.cache/docs-')
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const typescript = blocks.filter(({ language }) => language === 'ts')
const moduleOf = ({ page, line, file }: Block) =>
  resolve(folder, page.replace(/\W/g, '-'), file ?? `${line}.ts`)
/** Whether a command of the page runs the file. */
const isInSession = ({ page, file }: Block) =>
  file !== undefined &&
  blocks.some((each) => each.page === page && each.language === 'sh' && each.code.includes(file))
function writeModule(block: Block, code: string): void {
  mkdirSync(dirname(moduleOf(block)), { recursive: true })
  writeFileSync(moduleOf(block), code)
}

describe('code blocks in the docs', () => {
  test('have languages that are run or read', () => {
    const strange = blocks.filter(
      ({ language, file }) =>
        !elsewhere.includes(language) && !readers.some(({ of }) => file !== undefined && of.test(file)),
    )
    expect(strange.map((block) => `${placeOf(block)} ${block.language} ${block.file}`)).toEqual([])
  })

  test.each(blocks.filter(({ file, language }) => file && !elsewhere.includes(language)))(
    'are files that graphmill reads: $page $file',
    async ({ file, code }) => {
      const place = mkdtempSync(join(tmpdir(), 'graphmill-docs-'))
      try {
        const path = join(place, file!)
        mkdirSync(dirname(path), { recursive: true })
        writeFileSync(path, code)
        const { read } = readers.find(({ of }) => of.test(file!))!
        await read(path)
        // The reader does not accept just anything.
        writeFileSync(path, `${code}\n}{`)
        await expect((async () => read(path))()).rejects.toThrow()
      } finally {
        rmSync(place, { recursive: true })
      }
    },
  )

  test('in TypeScript compile against the public API', async () => {
    expect(typescript.length).toBeGreaterThan(0)
    for (const block of typescript) writeModule(block, `${block.code}\nexport {}\n`)
    const config = {
      extends: resolve('tsconfig.json'),
      compilerOptions: {
        noEmit: true,
        rootDir: resolve('.'),
        noUnusedLocals: false,
        types: ['node'],
        typeRoots: [resolve('node_modules/@types')],
        paths: { graphmill: [resolve('src/index.ts')] },
      },
      include: ['**/*.ts'],
    }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
    await run('node_modules/.bin/tsc', ['-p', folder]).catch((error: { stdout: string }) => {
      throw new Error(error.stdout)
    })
  }, 120_000)

  test('in TypeScript run, with the model server of this test', async () => {
    await using llm = await startLlmServer({
      rules: [{ match: 'Which mill stands by a river', reply: '{"kind":"watermill","reason":"Its wheel."}' }],
    })
    for (const block of typescript.filter((each) => !isInSession(each))) {
      writeModule(block, block.code.replaceAll('http://127.0.0.1:8080/v1', llm.url))
      await run(process.execPath, [moduleOf(block)], { timeout: 60_000 })
    }
    expect(llm.counts.completed).toBe(1)
  }, 240_000)

  test('that export a processor export a working one', async () => {
    let count = 0
    for (const block of typescript.filter(({ code }) => code.includes('defineProcessor'))) {
      writeModule(block, block.code)
      const found = (await import(pathToFileURL(moduleOf(block)).href)) as Record<string, AnyProcessor>
      const processors = Object.values(found)
      expect(processors, placeOf(block)).not.toEqual([])
      for (const processor of processors) {
        const flow = await startFlow([processor])
        try {
          // Long enough for any of them.
          const text = 'The mill stands by the river. '.repeat(200)
          await flow.send('chunk', { part: 0, index: 0, offset: 0, length: text.length, text })
          for (const port of processor.outputs)
            expect(await flow.first(flow.topic(port as 'topics'), 1), placeOf(block)).toHaveLength(1)
          count++
        } finally {
          await flow.stop()
        }
      }
    }
    expect(count).toBe(2)
  }, 60_000)
})

/** Commands in the text, such as `graphmill check --json`. */
const inline = pages.flatMap((page) =>
  [...readFileSync(page, 'utf8').matchAll(/`graphmill ([a-z][^`]*)`/g)].map(([, words = '']) => ({
    page,
    words: words.split(/[\s[\]|]+/).filter(Boolean),
  })),
)

test('commands in the text exist, with their flags', async () => {
  expect(inline.length).toBeGreaterThan(20)
  const helps = new Map<string, Promise<string>>()
  const help = (path: readonly string[]) => {
    const key = path.join(' ')
    helps.set(key, helps.get(key) ?? graphmill([...path, '--help']).then(({ stdout }) => stdout))
    return helps.get(key)!
  }
  for (const { page, words } of inline) {
    const [command = '', second] = words
    const told = `${page}: ${words.join(' ')}`
    expect(await help([]), told).toMatch(new RegExp(`^  ${command}\\b`, 'm'))
    const isSub = /^Commands:/m.test(await help([command])) && /^[a-z]+$/.test(second ?? '')
    const usage = await help(isSub ? [command, second!] : [command])
    if (isSub) expect(usage, told).toMatch(new RegExp(`^Usage: graphmill ${command} ${second}\\b`, 'm'))
    for (const flag of words.filter((word) => word.startsWith('--'))) expect(usage, told).toContain(flag)
  }
}, 120_000)
