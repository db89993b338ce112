// The output of commands while every server returns what it was sent: it contains no form of a secret.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { graphmill } from '../support/command.ts'
import {
  type EchoMode,
  type EchoServer,
  echoModes,
  shownOf,
  startEchoServer,
} from '../support/echo-server.ts'

const secrets = {
  key: 'sk-proj-Zz9/yX8+wV7uT6sR5qP4oN3m',
  store: 'store-token-Q1w2E3r4T5y6',
  embeddings: 'embed-key-A9b8C7d6E5',
  registry: 'rg7x-9q2w@pass/word-1',
} as const
const all = Object.values(secrets)

let folder: string
let echo: EchoServer
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-'))
  echo = await startEchoServer()
})
afterAll(async () => {
  await echo[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}

const modes = Object.keys(echoModes) as EchoMode[]
const environment = (mode: EchoMode) => ({
  OPENAI_BASE_URL: `${echo.at(mode)}/v1`,
  OPENAI_API_KEY_FILE: file('key', `${secrets.key}\n`),
})

describe('with servers that return the credentials they received', { timeout: 120_000 }, () => {
  test.concurrent.each(modes)('doctor shows no secret: %s', async (mode) => {
    const url = echo.at(mode)
    const registry = `${url.replace('//', `//miller:${encodeURIComponent(secrets.registry)}@`)}`
    const args = [
      'doctor',
      '--model',
      'm',
      '--store',
      `${url}/update`,
      '--store-token-file',
      file('token', secrets.store),
    ]
    const embeddings = [
      '--embeddings',
      `${url}/v1`,
      '--embeddings-model',
      'e',
      '--embeddings-key',
      secrets.embeddings,
    ]
    const { stdout, stderr, code } = await graphmill(
      [...args, ...embeddings, '--schema-registry', registry],
      {
        env: environment(mode),
        cwd: folder,
      },
    )
    for (const check of ['model|key', 'embeddings', 'schema registry', 'store'])
      expect(stdout).toMatch(new RegExp(`^(?:failed|ok) +(?:${check}) `, 'm'))
    expect(stdout).toMatch(/^failed +(?:model|key) /m)
    expect(stdout).toMatch(/^failed +embeddings /m)
    expect(shownOf([...all, `miller:${secrets.registry}`], stdout + stderr)).toEqual([])
    expect(code).toBe(1)
  })

  test.concurrent.each(['unauthorized', 'error-in-json', 'error-event', 'cut'] as const)(
    'extract shows no secret, not even in its log: %s',
    async (mode) => {
      const text = file('text.txt', 'A mill grinds grain.')
      const { stdout, stderr, code } = await graphmill(
        ['extract', text, '--model', 'm', '--log-level', 'trace'],
        {
          env: environment(mode),
          cwd: folder,
          // Temporary failures are retried until they end.
          onStderr: (said, kill) => /waiting for|will be tried again/.test(said) && kill('SIGINT'),
        },
      )
      expect(stderr).not.toBe('')
      expect(shownOf(all, stdout + stderr)).toEqual([])
      expect(code).not.toBe(0)
    },
  )

  test.each(['unauthorized', 'broken'] as const)('writing to a store shows no secret: %s', async (mode) => {
    const text = file('text.txt', 'A mill is a building that grinds grain.')
    const args = ['extract', text, '--llm', 'offline', '--log-level', 'trace']
    const { stdout, stderr } = await graphmill(
      [
        ...args,
        '--store',
        `${echo.at(mode).replace('//', `//miller:${encodeURIComponent(secrets.registry)}@`)}`,
      ],
      {
        cwd: folder,
        onStderr: (said, kill) => /waiting for|will be tried again/.test(said) && kill('SIGINT'),
      },
    )
    expect(stderr).toMatch(/store/)
    expect(shownOf([secrets.registry, `miller:${secrets.registry}`], stdout + stderr)).toEqual([])
  })
})

describe('an error about the configuration does not show the secret', { timeout: 60_000 }, () => {
  const quoted = async (args: readonly string[], env: Record<string, string> = {}) => {
    const { stdout, stderr, code } = await graphmill(args, { cwd: folder, env })
    expect(shownOf(all, stdout + stderr)).toEqual([])
    return { said: stdout + stderr, code }
  }

  test.each([
    ['a bracket that is left open', (key: string) => `broker: [kafka\nstore-token: ${key}\n`],
    ['a key without a colon', (key: string) => `space: gm\nstore-token ${key}\n`],
    ['a colon without a blank', (key: string) => `{store-token:${key}}\n`],
    ['an indented line', (key: string) => `space: gm\n  store-token: ${key}\n`],
    ['an alias', (key: string) => `store-token: *${key.replaceAll('/', '')}\n`],
    ['a tag', (key: string) => `store-token: !<${key}> [\n`],
    ['a quote', (key: string) => `store-token: "${key}\n`],
    ['the wrong option', (key: string) => `chunk-sise: ${key}\n`],
  ])('a graphmill.yaml that is broken: %s', async (_, text) => {
    const settings = file('broken.yaml', text(secrets.key))
    const { said, code } = await quoted(['config', '--config', settings])
    expect(said).toMatch(
      /broken\.yaml: (?:line \d+, column \d+: it is no YAML|it (?:is no YAML|must hold)|there is no option)/,
    )
    expect(code).toBe(2)
  })

  test('doctor refuses a key with a line break before it sends anything, and does not print it', async () => {
    const { said, code } = await quoted(['doctor'], { OPENAI_API_KEY: `${secrets.key}\n${secrets.store}` })
    expect(said).toMatch(
      /^graphmill: OPENAI_API_KEY holds a line break: give the secret alone\. \[configuration_invalid\]/,
    )
    expect(code).toBe(2)
  })

  test('an option that the command does not have, or that does not exist', async () => {
    const { said } = await quoted(['check', `--store-token=${secrets.store}`])
    expect(said).toMatch(/Unknown option '--store-token'/)
    expect((await quoted(['extract', 'x', `--store-tokn=${secrets.store}`])).said).toMatch(
      /Unknown option '--store-tokn'/,
    )
  })

  test('config shows no password of an address, in any notation', async () => {
    const addresses = [
      ['store', `http://u:${secrets.registry}@h/x`, 'http://***@h/x'],
      ['broker', `u:${secrets.store}@h`, '***@h'],
      ['schema-registry', `https://h/x?token=${secrets.key}`, 'https://h/x?token=***'],
      ['embeddings', `https://h/x?${secrets.key}`, 'https://h/x?***'],
    ] as const
    const { stdout } = await graphmill(
      ['config', '--json', ...addresses.flatMap(([name, address]) => [`--${name}`, address])],
      { cwd: folder, env: { OPENAI_BASE_URL: `http://u:p@ss@h/v1`, OLLAMA_HOST: 'u:p@h' } },
    )
    const rows = new Map(
      stdout
        .trim()
        .split('\n')
        .map((row) => JSON.parse(row) as { option: string; value: unknown })
        .map(({ option, value }) => [option, value]),
    )
    for (const [name, , shown] of addresses) expect(rows.get(name)).toBe(shown)
    expect(rows.get('OPENAI_BASE_URL')).toBe('http://***@h/v1')
    expect(rows.get('OLLAMA_HOST')).toBe('***@h')
    expect(shownOf(all, stdout)).toEqual([])
  })
})
