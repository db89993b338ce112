// `graphmill check` of a handwritten flows file.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { graphmill } from '../../support/command.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-check-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

function check(flows: string, ...more: string[]) {
  writeFileSync(join(folder, 'flows.yaml'), flows)
  return graphmill(['check', '--flows', 'flows.yaml', ...more], { cwd: folder })
}

test('reads a flows file and prints what each flow has', async () => {
  writeFileSync(join(folder, 'greet.yaml'), 'prompt: Hello {{name}}\n')
  const { code, stdout } = await check('flows: [{workspace: acme, prompts: [greet.yaml]}, {workspace: beta}]')
  expect(code).toBe(0)
  expect(stdout).toMatch(/^acme\/default: prompts: .*greet/m)
  expect(stdout).toMatch(/^beta\/default: prompts: (?!.*greet)/m)
  expect(stdout).toMatch(/^no problems$/m)
})

test('reports everything that would keep any flow from running, with the name of the flow', async () => {
  const { code, stderr, stdout } = await check(`
flows:
  - {workspace: a, chunk-size: 50}
  - {workspace: b, extractors: [definitons]}
  - {workspace: c, extractors: [rows]}
  - {workspace: d, prompts: [nowhere.yaml]}
  - {workspace: e, prompts: [nowhere.yaml]}
  - {workspace: f}
`)
  expect(code).toBe(1)
  expect(stderr.trim().split('\n')).toEqual([
    'flows.yaml: a/default: chunk-overlap (100) must be less than chunk-size (50).',
    expect.stringMatching(
      /^flows\.yaml: b\/default: There is no extractor definitons\. Did you mean definitions\?/,
    ),
    'flows.yaml: c/default: No row schemas are named (schemas) for the extractor rows.',
    expect.stringMatching(/^nowhere\.yaml: /),
  ])
  expect(stdout).toMatch(/^4 problems$/m)
  const json = await check('flows: [{workspace: a, chunk-size: 50}]', '--json')
  expect(JSON.parse(json.stdout)).toMatchObject({ code: 'configuration_invalid', file: 'flows.yaml' })
})

test('reports prompts whose schema has a pattern that is too large', async () => {
  const write = (name: string, pattern: string) =>
    writeFileSync(
      join(folder, name),
      `prompt: List them.\nresponse-type: jsonl\nschema:\n  properties:\n    code: {type: string, pattern: '${pattern}'}\n`,
    )
  write('small.yaml', '^[a-z]{1,100}$')
  write('large.yaml', 'a{0,1000}'.repeat(10))
  write('long.yaml', 'a'.repeat(1001))
  const { code, stderr } = await check('flows: [{prompts: [small.yaml, large.yaml, long.yaml]}]')
  expect(code).toBe(1)
  expect(stderr.trim().split('\n')).toEqual([
    expect.stringMatching(/^large\.yaml:3: .*\/properties\/code.* instructions, over 5000/),
    expect.stringMatching(/^long\.yaml:3: .*\/properties\/code.* 1001 characters, over 1000/),
  ])
})

test.each([
  [
    'a key that there is not',
    'flows: [{chunkSize: 9}]',
    /flow 1: .*chunkSize\. Did you mean chunk-size\?.*\[configuration_invalid\]/s,
  ],
  [
    'two flows of one name',
    'flows: [{}, {}]',
    /flows 1 and 2 are both called default\/default.*\[configuration_invalid\]/s,
  ],
  ['a loop', 'flows: &a [{topics: *a}]', /flow 1: topics must be an object.*\[configuration_invalid\]/s],
  ['no YAML', 'flows: [{workspace: a', /flows\.yaml: .*line 1.*\[configuration_invalid\]/s],
  [
    'a name that no topic can have',
    `flows: [{flow: ${'x'.repeat(220)}}]`,
    /default\/x+: .*longer than.*\[topic_name_invalid\]/s,
  ],
])('refuses a file with %s', async (_, text, reason) => {
  const { code, stderr } = await check(text)
  expect(code).toBe(2)
  expect(stderr).toMatch(reason)
})
