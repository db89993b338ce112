// Every page is a session: its commands run in order in the folder of a new user, with a model server, a real Kafka and a real
// Fuseki instead of the reader's. A new command runs by default; commands that are not run are in `exceptions`.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { Parser } from 'n3'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { brokerSource } from '../support/brokers.ts'
import { type FusekiServer, startFuseki } from '../support/fuseki-server.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { type Block, blocks, commandsOf, missingLines, pages, placeOf, sessionOf } from './blocks.ts'
import { given, rules, situations } from './given.ts'
import { openSession, type Session, type Started } from './session.ts'

const packageJson = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
const start = packageJson.scripts['start']!
const compose = parse(readFileSync('docker-compose.yml', 'utf8'), { merge: true })

/** Commands that are not run, why, and what is run instead. */
const exceptions: readonly { readonly of: RegExp; readonly why: string; readonly instead?: string }[] = [
  {
    of: /^npm ci && npm start$/,
    why: 'this checkout is installed and built; what `npm start` runs is run',
    instead: start,
  },
  {
    of: /^(npm (ci|test|run [a-z-]+)( && |\s*(#.*)?$))+/,
    why: 'it works on a checkout, and this is a test of one; its scripts are there',
  },
  {
    of: /^OPENARMATURE_SPEC=/,
    why: 'it needs a checkout of the specification',
  },
  {
    of: /^docker compose up\b/,
    why: 'no Docker; on the Kafka of this test, the command of the service graphmill is run',
    instead: `GRAPHMILL_LLM=offline GRAPHMILL_BROKER=kafka://127.0.0.1:9092 node bin/graphmill.js ${compose.services.graphmill.command.join(' ').replace('/data/', 'data/')}`,
  },
  {
    of: /^mvn .*jena-fuseki-server:5\.6\.0/,
    why: 'the Fuseki of this test is the same, from the same place',
  },
  { of: /^git pull /, why: 'this checkout is the newest; what follows is run by other tests' },
  {
    of: /^docker build /,
    why: 'test/deploy/image.test.ts builds the image, where a Docker daemon can start',
  },
  { of: /^helm (install|upgrade) /, why: 'there is no cluster; test/deploy renders the chart' },
  { of: /^graphmill\(\) \{ kubectl /, why: 'there is no cluster' },
  { of: /^java -cp jena-fuseki-server-5\.6\.0\.jar /, why: 'the Fuseki of this test is started so' },
]

const runs = /graphmill(\.js)? (\S+)/
const forever = ['run', 'tail']
const onBroker = [...forever, 'load', 'prompt', 'topics', 'dead', 'status', 'rejected', 'doctor']

/** A program in one source file needs the compiler, which a JRE has not. */
const jdk = process.env['REQUIRE_BROKERS'] === '1' || spawnSync('javac', ['-version']).status === 0

const source = await brokerSource('commands of the docs on Kafka and Fuseki', ['jars'])
let kafka: KafkaServer | undefined
let fuseki: FusekiServer | undefined
let llm: LlmServer
const folders: string[] = []

beforeAll(async () => {
  llm = await startLlmServer({
    models: ['test-model', 'llama3.2', 'gpt-4.1-mini'],
    rules,
  })
  if (source === undefined) return
  const servers = await Promise.all([startKafka(), startFuseki()])
  ;[kafka, fuseki] = servers
}, 180_000)
afterAll(async () => {
  await Promise.all([kafka?.stop(), fuseki?.stop(), llm?.close()])
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

/** The folder of a reader who has cloned graphmill and has it on the path. */
function newFolder({ files = {} }: { files?: Record<string, string | Uint8Array> }): string {
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-docs-'))
  folders.push(folder)
  for (const name of ['bin', 'examples']) symlinkSync(resolve(name), join(folder, name))
  for (const name of ['path', 'node_modules']) mkdirSync(join(folder, name))
  symlinkSync(resolve('.'), join(folder, 'node_modules/graphmill'))
  symlinkSync(resolve('node_modules/@opentelemetry'), join(folder, 'node_modules/@opentelemetry'))
  symlinkSync(resolve('bin/graphmill.js'), join(folder, 'path/graphmill'))
  for (const [name, content] of Object.entries(files)) write(folder, name, content)
  return folder
}

function write(folder: string, name: string, content: string | Uint8Array): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true })
  writeFileSync(join(folder, name), content)
}

function openPage(page: string, folder: string): Session {
  const path = [join(folder, 'path'), dirname(process.execPath), process.env['PATH'] ?? ''].join(delimiter)
  const model = { OPENAI_BASE_URL: llm.url, GRAPHMILL_MODEL: 'test-model' }
  return openSession(folder, {
    PATH: path,
    HOME: folder,
    // Pages do not share topics.
    GRAPHMILL_SPACE: page.replace(/\W+/g, '-').toLowerCase(),
    GRAPHMILL_HTTP: '127.0.0.1:0',
    ...(given[page]?.model && model),
  })
}

/** The same command with the servers of this test instead of the reader's. */
function here(command: string): string {
  return command
    .replaceAll('http://127.0.0.1:11434/v1', llm.url)
    .replaceAll('127.0.0.1:9092', `${kafka?.bootstrap.join()}`)
    .replaceAll('http://127.0.0.1:3030/ds', fuseki?.dataset ?? '')
    .replaceAll(/\bMODEL\b/g, 'test-model')
}

/** Whether the servers that a command needs have been started. */
function canRun(command: string): boolean {
  const [, , name = ''] = runs.exec(command) ?? []
  if (command.includes('/ds') && !fuseki) return false
  return kafka !== undefined || !(onBroker.includes(name) || /127\.0\.0\.1:9092|^node run-/.test(command))
}

function say(block: Block, command: string, why: string): void {
  process.stderr.write(`${placeOf(block)} ${command.split('\n', 1)[0]}: ${why}\n`)
}

/** What a command must have done besides exiting with 0; each of these is checked at least once. */
const outcomes: readonly {
  readonly of: RegExp
  check(
    stdout: string,
    done: { readonly command: string; readonly folder: string; readonly session: Session },
  ): Promise<void> | void
}[] = [
  {
    of: /^node bin\/graphmill\.js extract examples/,
    async check(_, { folder }) {
      expect(new Parser().parse(await readFile(join(folder, 'graph.nq'), 'utf8')).length).toBeGreaterThan(50)
      expect(await readFile(join(folder, 'graph.html'), 'utf8')).toMatch(/^<!doctype html>/)
    },
  },
  {
    of: /extract .*(> |--out )graph\.nq/,
    async check(_, { folder }) {
      const text = await readFile(join(folder, 'graph.nq'), 'utf8')
      expect(new Parser().parse(text).length).toBeGreaterThan(0)
    },
  },
  {
    of: /^graphmill eval .*--replay clean/,
    check: (stdout) => expect(stdout).toMatch(/^overall( +\d+){3} +1\.000 .* 1\.000 .* 1\.000 /m),
  },
  { of: /^graphmill parse/, check: (stdout) => expect(JSON.parse(stdout).items).toHaveLength(2) },
  // A loaded document is done in the end.
  {
    of: /load /,
    async check(stdout, { command, session }) {
      const { documentId } = JSON.parse(stdout) as { documentId: string }
      const flags = command.match(/--(broker|workspace|flow) \S+/g) ?? []
      const status = `graphmill status '${documentId}' --watch --json ${flags.join(' ')}`
      const last = (await session.run(status)).trim().split('\n').at(-1)!
      expect(JSON.parse(last)).toMatchObject({ state: 'done' })
    },
  },
  { of: /prompt .*--stream/, check: (stdout) => expect(stdout).toContain('mathematician') },
  {
    of: /tail triples/,
    check: (stdout) => expect(JSON.parse(stdout.split('\n')[0]!).payload.triples).not.toEqual([]),
  },
  { of: /topics lag/, check: (stdout) => expect(stdout).toContain('chunk-text') },
  { of: /topics create --flows/, check: (stdout) => expect(stdout).toContain('flow.chunk.acme.papers') },
  {
    of: /--ontologies .*notes\.md/,
    check: (stdout) => expect(stdout).toContain('<http://example.org/mills#Mill>'),
  },
  {
    of: /ask_prompt\.py|AskPrompt\.java/,
    check: (stdout) =>
      expect([JSON.parse(stdout.split('\n')[0]!)].flat()[0]).toMatchObject({ entity: 'windmill' }),
  },
  { of: /doctor/, check: (stdout) => expect(stdout).not.toContain('failed') },
  // The next command must write its own triples.
  {
    of: /--store /,
    async check() {
      expect(await fuseki!.dump()).toContain('mathematician')
      await fuseki!.clear()
    },
  },
  {
    of: /curl .*\/query/,
    check(stdout) {
      const [head, ...rows] = stdout.trim().split('\r\n')
      expect(head).toBe('entity,definition,chunk')
      expect(rows).toContainEqual(
        expect.stringMatching(
          /^http:\/\/trustgraph\.ai\/e\/.+,Ada Lovelace was a mathematician\.,urn:graphmill:document:/,
        ),
      )
    },
  },
]

const looked = new Set<unknown>()
/** The triples that `npm start` writes, which are the same on every page. */
let exampleGraph: string | undefined

async function runPage(page: string): Promise<void> {
  const folder = newFolder(given[page] ?? {})
  const session = openPage(page, folder)
  const started: Started[] = []
  const problems: string[] = []
  try {
    for (const block of blocks.filter((each) => each.page === page)) {
      if (block.file !== undefined) write(folder, block.file, block.code)
      if (block.language === 'sparql') await query(block)
      if (block.language === 'console') await showConsole(block)
      if (block.language !== 'sh') continue
      for (const command of commandsOf(block)) await runCommand(block, command)
    }
    expect(problems).toEqual([])
    for (const each of started.splice(0)) await each.end('SIGTERM')
  } finally {
    for (const each of started) await each.end('SIGKILL').catch(() => undefined)
  }

  async function runCommand(block: Block, told: string): Promise<void> {
    const exception = exceptions.find(({ of }) => of.test(told))
    if (exception) {
      looked.add(exception)
      say(block, told, exception.why)
      if (exception.instead === undefined) return
    }
    const command = exception?.instead ?? told
    const [, , name = ''] = runs.exec(command) ?? []
    if (/^java .*\.java /.test(command) && !jdk) return say(block, command, 'not run, it needs a JDK')
    if (!canRun(command)) return say(block, command, 'not run, it needs Java and Maven')
    const typed = here(command)
    const stdout = await result(name, typed)
    if (command === start) exampleGraph ??= readFileSync(join(folder, 'graph.nq'), 'utf8')
    for (const outcome of outcomes.filter(({ of }) => of.test(command))) {
      looked.add(outcome)
      await outcome.check(stdout, { command: typed, folder, session })
    }
  }

  async function result(name: string, command: string): Promise<string> {
    const isProgram = /^node run-\S+\.ts$/.test(command)
    const endsItself = !forever.includes(name) || /^[^#]* --until-end\b/.test(command)
    if (endsItself && !isProgram) return session.run(command)
    const says = name === 'run' ? { stderr: /"msg":"running"/ } : { stdout: /\n/ }
    const process = await session.start(command, says)
    if (name === 'run' || isProgram) started.push(process)
    else await process.end('SIGINT')
    return process.stdout()
  }

  /** Runs commands that may fail, and looks for the lines that the page shows in all that they print. */
  async function showConsole(block: Block): Promise<void> {
    const { before = '', apiKey } = situations[block.heading] ?? {}
    llm.set({ apiKey })
    for (const { command, output } of sessionOf(block)) {
      if (!canRun(command)) say(block, command, 'not run, it needs Java and Maven')
      else {
        const printed = await session.run(`{ ${before}\n${here(command)}\n} 2>&1 || true`)
        const missing = missingLines(output, printed)
        if (missing.length > 0)
          problems.push([placeOf(block), `$ ${command}`, printed, 'lacks', ...missing].join('\n'))
      }
    }
    llm.set({ apiKey: undefined })
  }

  /** Runs a query on the graph of the example document. */
  async function query(block: Block): Promise<void> {
    if (!fuseki) return say(block, 'SPARQL', 'not run, it needs Java and Maven')
    if (!exampleGraph) await session.run(start)
    exampleGraph ??= readFileSync(join(folder, 'graph.nq'), 'utf8')
    await fuseki.clear()
    const headers = { 'content-type': 'application/n-quads' }
    await fetch(`${fuseki.dataset}/data`, { method: 'POST', headers, body: exampleGraph })
    const answer = await fetch(`${fuseki.dataset}/query`, {
      method: 'POST',
      headers: { 'content-type': 'application/sparql-query', accept: 'application/sparql-results+json' },
      body: block.code,
    })
    const text = await answer.text()
    expect(answer.status, text).toBe(200)
    const { results } = JSON.parse(text) as { results: { bindings: unknown[] } }
    expect(results.bindings.length, placeOf(block)).toBeGreaterThan(5)
    await fuseki.clear()
  }
}

describe('the commands of a page run in their order', () => {
  const withCommands = pages.filter((page) =>
    blocks.some((block) => block.page === page && /^(sh|sparql|console)$/.test(block.language)),
  )
  test.each(withCommands)('%s', { timeout: 600_000 }, runPage)

  test('every exception matches a command, and every outcome was checked', (context) => {
    const idle = exceptions.filter((each) => !looked.has(each)).map(({ of }) => of)
    expect(idle).toEqual([])
    if (source === undefined) return context.annotate('outcomes on Kafka and Fuseki were not looked at')
    expect(outcomes.filter((each) => !looked.has(each)).map(({ of }) => of)).toEqual([])
  })

  test('the npm scripts that the docs run exist', () => {
    const told = blocks
      .filter(({ language }) => language === 'sh')
      .flatMap(commandsOf)
      .flatMap((command) => [...command.matchAll(/\bnpm (?:run )?([a-z-]+)/g)].map(([, name]) => name!))
      .filter((name) => name !== 'ci')
    expect(told.length).toBeGreaterThan(5)
    expect(told.filter((name) => !(name in packageJson.scripts))).toEqual([])
  })
})
