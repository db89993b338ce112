import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { graphmill } from '../../support/command.ts'

let folder: string
let schema: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-parse-'))
  schema = join(folder, 'schema.json')
  writeFileSync(schema, '{"type": "object"}')
})
afterAll(() => rmSync(folder, { recursive: true }))

const parse = async (stdin: string | Uint8Array, ...args: string[]) => {
  const { code, stdout, stderr } = await graphmill(['parse', ...args], { stdin })
  expect({ code, stderr, lines: stdout.split('\n').length }).toEqual({ code: 0, stderr: '', lines: 2 })
  return JSON.parse(stdout)
}

describe('parse --format', () => {
  test.each([
    ['ndjson', '{"a":1}\r\n\n[2]\n'],
    ['jsonl', '{"a":1}\n[2]\n'],
    ['json-seq', '\x1e{"a":1}\n\x1e[2]\n'],
    ['concatenated', '{"a":1}[2]'],
  ])('reads %s', async (format, text) => {
    expect(await parse(text, '--format', format)).toMatchObject({
      items: [{ a: 1 }, [2]],
      rejected: [],
      truncated: false,
    })
  })

  test('rejects an invalid line, and continues', async () => {
    const { items, rejected } = await parse('{"a":\n{"b":2}\n', '--format', 'ndjson')
    expect(items).toEqual([{ b: 2 }])
    expect(rejected).toEqual([{ reason: 'invalid_json', line: 1, text: '{"a":' }])
  })

  test('reports that the last text was cut off', async () => {
    expect(await parse('{"a":1}\n{"b":', '--format', 'jsonl')).toMatchObject({
      items: [{ a: 1 }],
      truncated: true,
    })
  })

  test('checks each value against the schema', async () => {
    const { items, rejected } = await parse('{"a":1}\n[2]\n', '--format', 'ndjson', '--schema', schema)
    expect(items).toEqual([{ a: 1 }])
    expect(rejected).toMatchObject([{ reason: 'schema', line: 2, text: '[2]' }])
  })

  test('checks against a schema of draft-04', async () => {
    const draft04 = join(folder, 'draft-04.json')
    const a = { type: 'integer', minimum: 3, exclusiveMinimum: true }
    const $schema = 'http://json-schema.org/draft-04/schema#'
    writeFileSync(
      draft04,
      JSON.stringify({ $schema, id: 'http://example.org/a', type: 'object', properties: { a } }),
    )
    for (const form of [['--format', 'ndjson'], []]) {
      const { items, rejected } = await parse('{"a":3}\n{"a":4}\n', ...form, '--schema', draft04)
      expect(items).toEqual([{ a: 4 }])
      expect(rejected).toMatchObject([{ reason: 'schema', line: 1 }])
    }
  })

  test('accepts a blank line and invalid UTF-8, but not when strict', async () => {
    const text = Buffer.from('\n{"a":"\xff"}\n', 'latin1')
    const lenient = await parse(text, '--format', 'jsonl')
    expect(lenient).toMatchObject({
      items: [{ a: '\ufffd' }],
      repaired: [{ item: 0, repairs: ['encoding'] }],
    })
    expect(await parse(text, '--format', 'jsonl', '--strict')).toMatchObject({
      items: [],
      rejected: [{ line: 1 }, { line: 2 }],
    })
  })
})

test('an option may be an environment variable; an invalid value is wrong usage', async () => {
  const run = (env: Record<string, string>) => graphmill(['parse'], { stdin: 'x\n', env })
  const [text, strict, lenient, wrong] = await Promise.all([
    run({ GRAPHMILL_RESPONSE_TYPE: 'text' }),
    run({ GRAPHMILL_STRICT: '1' }),
    run({ GRAPHMILL_STRICT: 'false' }),
    run({ GRAPHMILL_STRICT: 'maybe' }),
  ])
  expect(JSON.parse(text.stdout).items).toEqual(['x\n'])
  expect(JSON.parse(strict.stdout).rejected).toHaveLength(1)
  expect(JSON.parse(lenient.stdout).rejected).toEqual([])
  expect(wrong).toMatchObject({ code: 2, stdout: '' })
  expect(wrong.stderr).toMatch(/GRAPHMILL_STRICT must be true or false, not "maybe"/)
})

test('an option of one command may be in the configuration file; flag and environment override it', async () => {
  const config = join(folder, 'graphmill.yaml')
  writeFileSync(config, 'response-type: text\nstrict: true\nmodel: m\nfrom: earliest\n')
  const run = (args: string[], env: Record<string, string> = {}) =>
    graphmill(['parse', '--config', config, ...args], { stdin: 'x\n', env })
  const [file, flag, environment] = await Promise.all([
    run([]),
    run(['--response-type', 'jsonl']),
    run(['--response-type', 'jsonl'], { GRAPHMILL_STRICT: 'false' }),
  ])
  expect(JSON.parse(file.stdout).items).toEqual(['x\n'])
  expect(JSON.parse(flag.stdout).rejected).toHaveLength(1)
  expect(JSON.parse(environment.stdout).rejected).toEqual([])
  writeFileSync(config, 'respnse-type: text\n')
  const typo = await run([])
  expect(typo).toMatchObject({ code: 2, stdout: '' })
  expect(typo.stderr).toMatch(/there is no option respnse-type\. Did you mean response-type\?/)
})
