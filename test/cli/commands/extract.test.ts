import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Parser } from 'n3'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { graphmill } from '../../support/command.ts'
import { type LlmServer, startLlmServer } from '../../support/llm-server.ts'
import { freePorts } from '../../support/ports.ts'
import { startGraphmill } from '../../support/processes.ts'

let server: LlmServer
let folder: string
beforeAll(async () => {
  server = await startLlmServer()
})
afterAll(() => server.close())
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
  server.set({ rules: undefined })
})

const file = (
  name: string,
  content: string | Uint8Array = 'The mill stands by the river. The miller grinds grain.',
) => {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}
const env = () => ({ OPENAI_BASE_URL: server.url, GRAPHMILL_MODEL: 'test-model' })
const extract = (args: readonly string[], stdin?: string | Uint8Array) =>
  graphmill(['extract', ...args], { env: env(), ...(stdin !== undefined && { stdin }) })
const quads = (text: string) => new Parser({ format: 'N-Quads' }).parse(text)

describe('extract', () => {
  test('writes N-Quads that a parser reads, says where the text goes, and prints a summary', async () => {
    const { code, stdout, stderr } = await extract([file('mill.txt')])
    expect(stderr.split('\n')[0]).toBe(`graphmill: the text goes to openai test-model at ${server.url}`)
    expect(stderr).toMatch(/^3\/3 units of 1 chunks 100%, \d+ facts$/m)
    expect(stderr).toMatch(/chunks +1 \(3 units done\)/)
    expect(stderr).toMatch(/facts +\d+ definitions/)
    expect(stderr).toMatch(/^cut off +none$/m)
    expect(quads(stdout).length).toBeGreaterThan(3)
    expect(code).toBe(0)
  })

  test('reads standard input, folders and patterns, and writes a file', async () => {
    file('a.txt')
    file('b.md')
    file('c.bin')
    const out = join(folder, 'out.nq')
    const [dir, pattern, input] = await Promise.all([
      extract([folder, '--out', out]),
      extract([join(folder, '*.md')]),
      extract(['-'], 'The mill stands by the river.'),
    ])
    expect(dir).toMatchObject({ code: 0, stdout: '' })
    expect(dir.stderr).toMatch(/documents +2 read/)
    expect(pattern.stderr).toMatch(/documents +1 read/)
    expect(quads(input.stdout).length).toBeGreaterThan(0)
  })

  test('writes the same graph to several files, in the formats of their extensions, and shows some facts', async () => {
    const out = ['graph.html', 'graph.nq', 'graph.jsonld', 'graph.dot'].map((name) => join(folder, name))
    const named = out.flatMap((path) => ['--out', path])
    const { code, stdout, stderr } = await extract([file('mill.txt'), ...named])
    expect([code, stdout]).toEqual([0, ''])
    const [html, nquads, jsonld, dot] = out.map((path) => readFileSync(path, 'utf8'))
    expect(html).toMatch(/^<!doctype html>/)
    expect(html).toContain('mill.txt')
    expect(quads(nquads!).some(({ graph }) => graph.value === 'urn:graph:source')).toBe(true)
    expect(JSON.parse(jsonld!)['@graph'].length).toBeGreaterThan(3)
    expect(dot).toMatch(/^digraph graphmill \{/)
    expect(stderr.match(/^ {2}.+ — .+ → .+$/gm)!.length).toBeGreaterThan(2)
    expect(stderr.trim().split('\n').at(-1)).toBe(`written    ${out.join(', ')}`)
  })

  test('names the file that cannot be written, and writes those after it', async () => {
    const [bad, good] = [join(file('a-file'), 'graph.html'), join(folder, 'graph.dot')]
    const { code, stderr } = await extract([file('mill.txt'), '--out', bad, '--out', good])
    expect(stderr).toMatch(/^graphmill: .*a-file\/graph\.html: EEXIST.* \[store_failed\]$/m)
    expect(code).toBe(1)
    expect(readFileSync(good, 'utf8')).toMatch(/^digraph graphmill \{.*\}\n$/s)
  })

  test('does not name a file as written when the triples go to a store', async () => {
    const store = createServer((request, response) => void request.resume().on('end', () => response.end()))
    await new Promise<void>((resolve) => void store.listen(0, '127.0.0.1', resolve))
    const out = join(folder, 'graph.nq')
    const { port } = store.address() as AddressInfo
    const url = `http://127.0.0.1:${port}/update`
    const { code, stderr } = await extract([file('mill.txt'), '--store', url, '--out', out])
    await store[Symbol.asyncDispose]()
    expect(code).toBe(0)
    expect(stderr).toMatch(/^facts +\d+ definitions/m)
    expect(stderr).not.toContain('written')
    expect(existsSync(out)).toBe(false)
  })

  test('keeps a file when nothing could be read, and writes a page of an empty graph', async () => {
    server.set({ rules: [{ reply: '' }] })
    const page = join(folder, 'graph.html')
    writeFileSync(page, 'old')
    expect((await extract([join(folder, 'none.txt'), '--out', page])).code).not.toBe(0)
    expect(readFileSync(page, 'utf8')).toBe('old')
    await extract([file('mill.txt'), '--out', page])
    expect(readFileSync(page, 'utf8')).toMatch(/^<!doctype html>/)
  })

  test('warns that Turtle does not keep provenance separate, if there is any', async () => {
    server.set({ rules: [{ reply: '' }] })
    const said = async (...args: string[]) =>
      (await extract([file('mill.txt'), '--extractors', 'topics', ...args])).stderr.match(
        /^graphmill: Turtle.*$/gm,
      )
    const [mixed, plain, apart] = await Promise.all([
      said('--format', 'turtle', '--provenance', 'subgraph'),
      said('--format', 'turtle'),
      said('--format', 'trig', '--provenance', 'subgraph'),
    ])
    expect(mixed).toEqual([
      'graphmill: Turtle holds no graphs: provenance stands among the facts; --format trig keeps it apart.',
    ])
    expect([plain, apart]).toEqual([null, null])
  })

  test('says how many facts are ungrounded, rejects them with --ungrounded reject, and always rejects echoes', async () => {
    const reply = [
      { entity: 'mill', definition: 'a machine' },
      { entity: 'Boulton', definition: 'a manufacturer' },
      { entity: 'Gannet', definition: 'A large white seabird that dives into the sea to catch fish.' },
    ]
    server.set({ rules: [{ reply: reply.map((item) => JSON.stringify(item)).join('\n') }] })
    const command = [file('mill.txt', 'The mill grinds grain.'), '--extractors', 'definitions', '--no-cache']
    const [kept, rejected] = await Promise.all([
      extract(command),
      extract([...command, '--ungrounded', 'reject']),
    ])
    expect(kept.stderr).toMatch(/^facts +2 definitions, 1 of them ungrounded$/m)
    expect(kept.stderr).toMatch(/^rejected +1 echo_of_example$/m)
    expect(kept.stdout).toMatch(/boulton/)
    expect(rejected.stderr).toMatch(/^facts +1 definitions$/m)
    expect(rejected.stderr).toMatch(/^rejected +1 echo_of_example, 1 ungrounded$/m)
    expect(rejected.stdout).not.toMatch(/boulton|gannet/)
  })

  test('says that it uses the offline rules when no model is configured', async () => {
    const { code, stdout, stderr } = await graphmill([
      'extract',
      file('mill.txt', 'A mill is a machine that grinds grain.'),
    ])
    expect(stderr.split('\n')[0]).toMatch(/offline/)
    expect(stdout).toMatch(/a machine that grinds grain/)
    expect(code).toBe(0)
  })

  test('does not use the offline rules for a named model without a server: it says what to set, and writes nothing', async () => {
    const out = join(folder, 'out.nq')
    const args = ['extract', '--model', 'llama3.2', '--out', out, file('mill.txt', 'A mill is a machine.')]
    const { code, stdout, stderr } = await graphmill(args)
    expect(stderr).toMatch(/llama3\.2.*\[llm_not_configured\]/)
    for (const setting of ['OPENAI_BASE_URL', 'OPENAI_API_KEY', 'OLLAMA_HOST', '--llm offline'])
      expect(stderr).toContain(setting)
    expect([code, stdout, existsSync(out)]).toEqual([1, '', false])
    expect((await graphmill([...args, '--llm', 'offline'])).code).toBe(0)
  })

  test('exits with 3 when a reply stayed cut off, and keeps its items', async () => {
    const line = '{"entity":"mill","definition":"a machine"}\n'
    server.set({
      rules: [
        {
          match: 'definition',
          in: 'all',
          reply: { text: `${line}{"entity":"riv`, finishReason: 'length' } as never,
        },
      ],
    })
    const { code, stdout, stderr } = await extract([file('mill.txt'), '--extractors', 'definitions'])
    expect(stderr).toMatch(/^cut off +1$/m)
    expect(stderr).toMatch(/truncated/)
    expect(stdout).toMatch(/a machine/)
    expect(code).toBe(3)
  })

  test('counts rejected items and exits with 0, or with 3 when strict', async () => {
    server.set({ rules: [{ reply: '{"entity":"mill","definition":"a machine"}\n{"entity":"river"}\n' }] })
    const args = [file('mill.txt'), '--extractors', 'definitions']
    const { code, stderr } = await extract(args)
    expect(stderr).toMatch(/rejected +1 schema/)
    expect(code).toBe(0)
    expect((await extract([...args, '--strict-exit'])).code).toBe(3)
  })

  describe('rows', () => {
    const rowsOf = (name = 'mills') => {
      const schemas = join(folder, 'mills.json')
      const fields = [
        { name: 'name', type: 'string' },
        { name: 'year', type: 'int' },
      ]
      writeFileSync(schemas, JSON.stringify({ name, fields }))
      server.set({ rules: [{ reply: '{"name":"=Old Mill","year":1665}\n{"name":"New, Mill"}' }] })
      return [file('mill.txt'), '--extractors', 'rows', '--schemas', schemas]
    }

    test('are written to no file unless a folder is named, and that is said', async () => {
      const { stderr } = await extract(rowsOf())
      expect(stderr).toMatch(/rows are counted and written nowhere: name a folder for them with --rows/)
      expect(stderr).toMatch(/^facts +2 rows/m)
      const { code, stderr: wrong } = await extract([file('mill.txt'), '--rows', join(folder, 'rows')])
      expect(wrong).toMatch(/--rows needs rows: .*\[usage\]/)
      expect(code).toBe(2)
    })

    test('are one file a table, as CSV or JSON Lines, and counted by table', async () => {
      const rows = join(folder, 'rows')
      const { stderr } = await extract([...rowsOf(), '--rows', rows])
      const path = join(rows, 'mills.csv')
      expect(stderr).toContain(`written    ${path}`)
      expect(readFileSync(path, 'utf8')).toMatch(
        /^name,year,_id,_document,_chunk\r\n'=Old Mill,1665,\w{32},urn:\S+,urn:\S+\r\n"New, Mill",,\w{32},\S+\r\n$/,
      )
      const again = await extract([...rowsOf('Mühlen'), '--rows', rows, '--rows-format', 'jsonl', '--json'])
      const summary = JSON.parse(again.stderr.trim().split('\n').at(-1)!) as Record<string, unknown>
      expect(summary).toMatchObject({ outcome: 'done', rows: { Mühlen: 2 }, exitCode: 0 })
      const [written = ''] = summary['written'] as string[]
      const lines = readFileSync(written, 'utf8').trim().split('\n')
      expect(lines.map((line) => JSON.parse(line))).toMatchObject([
        { name: '=Old Mill', year: 1665 },
        { name: 'New, Mill' },
      ])

      const before = readFileSync(path, 'utf8')
      const beside = await extract([...rowsOf(), join(folder, 'none.txt'), '--rows', rows])
      expect([beside.code, readFileSync(path, 'utf8')]).toEqual([4, before])
      const args = rowsOf()
      server.set({ rules: [{ reply: { refuse: 'invalid' } }] })
      const failed = await extract([...args, '--rows', rows])
      expect([failed.code, readFileSync(path, 'utf8')]).toEqual([4, before])
      expect(failed.stderr).not.toContain(`written    ${path}`)
    })
  })

  describe('--json and --summary', () => {
    test('are the same summary, on standard output when triples go elsewhere', async () => {
      const [out, summary] = [join(folder, 'graph.nq'), join(folder, 'summary.json')]
      const { stdout, code } = await extract([file('mill.txt'), '--out', out, '--json', '--summary', summary])
      expect(code).toBe(0)
      expect(stdout.trim().split('\n')).toHaveLength(1)
      expect(readFileSync(summary, 'utf8')).toBe(stdout)
      expect(JSON.parse(stdout)).toMatchObject({
        outcome: 'done',
        exitCode: 0,
        written: [out],
        chunks: 1,
        units: { expected: 3, done: 3, partial: 0, dead: 0 },
        documents: [{ title: 'mill.txt', state: 'done', error: null }],
        failed: [],
      })
    })

    test('say what failed, with the exit code, and leave the triples on standard output alone', async () => {
      const summary = join(folder, 'summary.json')
      const files = [file('mill.txt'), join(folder, 'none.txt')]
      const { stdout, stderr, code } = await extract([...files, '--json', '--summary', summary])
      expect(code).toBe(4)
      expect(quads(stdout).length).toBeGreaterThan(3)
      const said = JSON.parse(stderr.trim().split('\n').at(-1)!) as unknown
      expect(said).toEqual(JSON.parse(readFileSync(summary, 'utf8')))
      expect(said).toMatchObject({
        outcome: 'failed',
        exitCode: 4,
        failed: [{ code: expect.stringMatching(/^document_/) }],
      })
    })

    test('that cannot be written are an error', async () => {
      const { stderr, code } = await extract([
        file('mill.txt'),
        '--summary',
        join(folder, 'none', 'summary.json'),
      ])
      expect(stderr).toContain('[output_failed]')
      expect(code).toBe(1)
    })
  })

  test('says which documents gave nothing, and that the offline rules read English prose', async () => {
    const args = [
      'extract',
      file('data.json', '{"mill":"The mill is a machine."}'),
      file('mill.txt'),
      '--llm',
      'offline',
    ]
    const { stderr, code } = await graphmill(args)
    expect(stderr).toMatch(/^graphmill: no model is asked: .*English prose only and are for trying out/)
    expect(stderr).toMatch(
      /^nothing +was found in \S*data\.json: the offline rules read English prose only$/m,
    )
    expect(code).toBe(0)
  })

  test('shows the first rejected item of each reason with its place, and all of them on request', async () => {
    server.set({
      rules: [{ reply: '{"entity":"river"}\n{"entity":"weir"}\n{"entity":"mill","definition":"m"}\n' }],
    })
    const args = [file('mill.txt'), '--extractors', 'definitions']
    const { stderr } = await extract(args)
    const shown = stderr.split('\n').filter((line) => line.includes('graphmill: rejected in'))
    expect(shown).toEqual([
      expect.stringMatching(
        /^graphmill: rejected in mill\.txt, chunk urn:.*\/0\/0: .*definition.* \[schema\] \{"entity":"river"\} /,
      ),
    ])
    const all = (await extract([...args, '--log-level', 'debug'])).stderr
    for (const name of ['river', 'weir'])
      expect(all).toMatch(new RegExp(`^\\{.*"document":"mill.txt".*entity.*${name}.*"msg":"rejected: `, 'm'))
  })

  test('exits with 3 when a model writes only prose, and says so', async () => {
    server.set({ rules: [{ reply: 'There is nothing much to say about mills.' }] })
    const { code, stderr } = await extract([file('mill.txt'), '--extractors', 'definitions'])
    expect(stderr).toMatch(/incomplete +1 no_items/)
    expect(code).toBe(3)
  })

  test('exits with 3 when no item was accepted, and says so', async () => {
    server.set({ rules: [{ reply: '{"entity":"river"}\n' }] })
    const { code, stderr } = await extract([file('mill.txt'), '--extractors', 'definitions'])
    expect(stderr).toMatch(/^chunks +1 \(0 units done, 1 partial\)$/m)
    expect(stderr).toMatch(/^incomplete 1 no_facts$/m)
    expect(code).toBe(3)
  })

  test('exits with 3 when an extractor refused every item, and keeps those with another type', async () => {
    const prompts = join(folder, 'prompts.json')
    const template = (prompt: string) =>
      JSON.stringify({ prompt: `${prompt}: {{text}}`, 'response-type': 'jsonl' })
    const ids = ['extract-definitions', 'extract-relationships']
    const templates = ids.map((id) => [`template.${id}`, template(id)])
    writeFileSync(
      prompts,
      JSON.stringify({
        system: '"Be exact."',
        'template-index': JSON.stringify(ids),
        ...Object.fromEntries(templates),
      }),
    )
    server.set({ rules: [{ reply: '{"entity":"Ada","type":"Person","definition":"a mathematician"}' }] })
    const args = [file('mill.txt'), '--prompts', prompts, '--extractors']
    const kept = await extract([...args, 'definitions'])
    expect(kept.stdout).toMatch(/a mathematician/)
    expect(kept.code).toBe(0)
    const refused = await extract([...args, 'relationships'])
    expect(refused.stderr).toMatch(/^facts +none$/m)
    expect(refused.stderr).toMatch(/^rejected +1 empty$/m)
    expect(refused.stderr).toMatch(/^incomplete 1 no_facts$/m)
    expect(refused.code).toBe(3)
  })

  test('counts an empty reply as done if the model stopped by itself', async () => {
    server.set({ rules: [{ reply: '' }] })
    expect((await extract([file('mill.txt'), '--extractors', 'definitions'])).code).toBe(0)
  })
})

describe('bad documents are clear errors, and the others continue', () => {
  test('an empty file, one that is not UTF-8, and one that is not there', async () => {
    const args = [
      file('empty.txt', ''),
      file('latin1.txt', Buffer.from('caf\xe9 au lait', 'latin1')),
      join(folder, 'missing.txt'),
      file('good.txt'),
    ]
    const { code, stdout, stderr } = await extract(args)
    expect(stderr).toMatch(/empty\.txt.*\[document_empty\]/)
    expect(stderr).toMatch(/latin1\.txt: not UTF-8 near byte.*\[document_not_utf8\]/)
    expect(stderr).toMatch(/missing\.txt: there is no such file.*\[document_unreadable\]/)
    expect(stderr).toMatch(/documents +1 read, 3 failed/)
    expect(quads(stdout).length).toBeGreaterThan(3)
    expect(code).toBe(4)
  })

  test('files of the same name in two folders are counted and named separately, whether their texts differ or not', async () => {
    server.set({ rules: [{ match: 'fails', reply: { refuse: 'invalid' } }, { reply: '' }] })
    for (const inner of ['d1', 'd2']) mkdirSync(join(folder, inner))
    const differing = ['d1', 'd2'].map((inner) => file(join(inner, 'x.txt'), `It fails in ${inner}.`))
    const same = ['d1', 'd2'].map((inner) => file(join(inner, 'y.txt'), 'It fails.'))
    const empty = ['d1', 'd2'].map((inner) => file(join(inner, 'z.txt'), ''))
    const good = ['d1', 'd2'].map((inner) => file(join(inner, 'good.txt'), 'The mill stands.'))
    const args = [...differing, ...same, ...empty, ...good, '--extractors', 'topics']
    const { code, stderr } = await extract(args)
    expect(stderr).toMatch(/^documents +2 read, 6 failed$/m)
    for (const path of [...differing, ...same])
      expect(stderr).toContain(`failed     ${path}: every chunk is dead`)
    for (const path of empty) expect(stderr).toContain(`\nfailed     ${path}: it holds no text.`)
    for (const path of empty)
      expect(stderr).toContain(`graphmill: ${path}: it holds no text. [document_empty]`)
    expect(stderr.match(/^failed /gm)).toHaveLength(6)
    expect(code).toBe(4)
  })

  test('a folder with one file that cannot be read', async () => {
    file('good.txt')
    symlinkSync(join(folder, 'nowhere'), join(folder, 'dangling.txt'))
    const { code, stderr } = await extract([folder])
    expect(stderr).toMatch(/dangling\.txt.*\[document_unreadable\]/)
    expect(stderr).toMatch(/documents +1 read, 1 failed/)
    expect(code).toBe(4)
  })

  test('one line of 5 MB is cut into chunks like any other', async () => {
    server.set({ rules: [{ reply: '' }] })
    const { code, stderr } = await extract([
      file('line.txt', 'mill river '.repeat(476_626)),
      '--extractors',
      'topics',
      '--chunk-size',
      '50000',
    ])
    expect(stderr).toMatch(/chunks +1\d\d \(1\d\d units done\)/)
    expect(code).toBe(0)
  })
})

describe('check and parse', () => {
  test('check finds no problem in the prompts that ship', async () => {
    const { code, stdout } = await graphmill(['check'])
    expect(stdout).toMatch(/extract-definitions/)
    expect(code).toBe(0)
  })

  test('check names the file and the problem, and exits with 1', async () => {
    const bad = file(
      'bad.yaml',
      'prompt: "{{ text.constructor }}"\nresponse-type: jsonl\nschema: {type: 7}\n',
    )
    const { code, stderr } = await graphmill(['check', '--prompts', bad])
    expect(stderr).toMatch(/bad\.yaml.*constructor/s)
    expect(code).toBe(1)
  })

  test('parse prints one JSON object with the items of a reply', async () => {
    const { code, stdout } = await graphmill(['parse'], { stdin: 'Sure!\n{"a":1}\n{"b":' })
    expect(JSON.parse(stdout)).toEqual({
      items: [{ a: 1 }],
      rejected: [],
      repaired: [],
      ignored: 1,
      truncated: true,
    })
    expect(code).toBe(0)
  })
})

test('Ctrl-C in the middle of the work prints the results so far and ends soon', async () => {
  server.set({ tokensPerSecond: 5 })
  let waiting = false
  const { code, stderr } = await graphmill(['extract', file('mill.txt')], {
    env: env(),
    onStderr: (text, kill) => {
      // Only once: a second signal would end it at once.
      if (text.includes('the text goes to') && !waiting) waiting = true
      else return
      void server.until(({ concurrent }) => concurrent > 0).then(() => kill('SIGINT'))
    },
  })
  server.set({ tokensPerSecond: undefined })
  expect(stderr).toMatch(/stopped before the end/)
  expect(code).toBe(1)
})

test('an unavailable store is reported with the cause, and extract waits for it', async () => {
  const [port] = await freePorts(1)
  const started = startGraphmill(
    ['extract', file('mill.txt'), '--store', `http://127.0.0.1:${port}/update`],
    {
      ...env(),
      GRAPHMILL_NO_CACHE: 'true',
    },
  )
  await started.says(', waiting for ')
  expect(started.stderr()).toMatch(
    new RegExp(
      `^graphmill: waiting for 127\\.0\\.0\\.1:${port}: .* does not answer\\. \\(cause: .*ECONNREFUSED.*\\) \\[store_failed\\] Check .*--store`,
      'm',
    ),
  )
  const taken: string[] = []
  const store = createServer(async (request, response) => {
    taken.push(await text(request))
    response.end()
  }).listen(port, '127.0.0.1')
  expect(await started.ended).toEqual({ code: 0, signal: null })
  expect(taken.join('')).toContain('miller')
  await store[Symbol.asyncDispose]()
}, 90_000)
