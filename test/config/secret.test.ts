import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type ConfigSources, readConfig, secretFiles, variableOf } from '../../src/config/config.ts'
import { fileOption, optionTable, secretNames } from '../../src/config/options.ts'
import { checkSecret, secretText } from '../../src/config/secret.ts'
import { toGraphmillError } from '../../src/errors.ts'
import { mountConfigMap } from '../support/config-map.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}

const read = (sources: Partial<ConfigSources>) => readConfig({ flags: {}, environment: {}, ...sources })

function refusal(act: () => unknown): string {
  try {
    act()
  } catch (thrown) {
    const { code, message } = toGraphmillError(thrown)
    return `${code}: ${message}`
  }
  return 'taken'
}

describe('every secret', () => {
  test('of the options table is tested here', () => {
    expect(secretNames).toEqual(
      expect.arrayContaining(['sasl-password', 'pulsar-token', 'store-token', 'embeddings-key']),
    )
  })

  test.each(secretNames)('%s may be given as a file by flag, variable and configuration file', (name) => {
    const given = file('secret', 'value-of-file\n')
    const named = fileOption(name)
    expect(optionTable[named].type).toBe('text')
    const settings = file('settings.yaml', `${named}: ${given}\n`)
    const sources = [
      { flags: { [named]: given } },
      { environment: { [variableOf(named)]: given } },
      { flags: { config: settings } },
    ]
    expect(variableOf(named)).toBe(`${variableOf(name)}_FILE`)
    for (const source of sources) {
      const config = read(source)
      expect(secretText(config.options[name]!)).toBe('value-of-file')
      expect(secretFiles(config)).toEqual([config.options[name]])
    }
  })

  test.each(secretNames)(
    '%s as text or as a file: the flag has precedence over the variable, the variable over the file',
    (name) => {
      const given = file('secret', 'value-of-file')
      const [text, named] = [variableOf(name), variableOf(fileOption(name))]
      const flagFirst = read({ flags: { [fileOption(name)]: given }, environment: { [text]: 'of-variable' } })
      expect(secretText(flagFirst.options[name]!)).toBe('value-of-file')
      const textFirst = read({ flags: { [name]: 'of-flag' }, environment: { [named]: given } })
      expect(secretText(textFirst.options[name]!)).toBe('of-flag')
      expect(refusal(() => read({ environment: { [text]: 'very-secret', [named]: given } }))).toBe(
        `configuration_invalid: Give ${text} or ${named}, not both.`,
      )
    },
  )

  test('of the model server, too', () => {
    const given = file('secret', 'sk-of-file')
    const key = (environment: Record<string, string>) => read({ environment }).servers.openaiApiKey
    expect(secretText(key({ OPENAI_API_KEY_FILE: given })!)).toBe('sk-of-file')
    expect(secretText(key({ OPENAI_API_KEY: 'sk-1' })!)).toBe('sk-1')
    expect(key({ OPENAI_API_KEY: '', OPENAI_API_KEY_FILE: '' })).toBeUndefined()
    expect(refusal(() => key({ OPENAI_API_KEY: 'sk-1', OPENAI_API_KEY_FILE: given }))).toBe(
      'configuration_invalid: Give OPENAI_API_KEY or OPENAI_API_KEY_FILE, not both.',
    )
  })
})

describe('at the start', () => {
  const wrong: [what: string, text: string][] = [
    ['a line break', 'sk-secret\nwith-more'],
    ['a line break', 'sk-secret-with-an-end\r\n'],
    ['a control character', 'sk-secret\u0000nul'],
    ['a control character', 'sk-secret\u007f'],
    ['a character that no HTTP header takes', 'sk-secret-é'],
    ['a character that no HTTP header takes', '“sk-secret”'],
    ['a blank at its beginning or end', ' sk-secret'],
    ['a blank at its beginning or end', 'sk-secret '],
  ]

  test.each(wrong)('a key with %s is refused with its option and never its value: %j', (what, text) => {
    for (const name of ['OPENAI_API_KEY', 'GRAPHMILL_STORE_TOKEN', 'GRAPHMILL_PULSAR_TOKEN'])
      expect(refusal(() => read({ environment: { [name]: text } }))).toBe(
        `configuration_invalid: ${name} holds ${what}: give the secret alone.`,
      )
    expect(refusal(() => read({ flags: { 'embeddings-key': text } }))).toBe(
      `configuration_invalid: --embeddings-key holds ${what}: give the secret alone.`,
    )
    const settings = file('settings.yaml', JSON.stringify({ 'store-token': text }))
    expect(refusal(() => read({ flags: { config: settings } }))).toBe(
      `configuration_invalid: ${settings}: store-token holds ${what}: give the secret alone.`,
    )
  })

  test('a file that holds no key is refused with its option and its path', () => {
    const of = (text: string) => refusal(() => read({ flags: { 'store-token-file': file('secret', text) } }))
    const path = join(folder, 'secret')
    expect(of('one\ntwo\n')).toBe(
      `configuration_invalid: --store-token-file: the file ${path} holds a line break: give the secret alone.`,
    )
    expect(of('\n')).toBe(`configuration_invalid: --store-token-file: the file ${path} holds nothing.`)
    const missing = join(folder, 'missing')
    expect(refusal(() => read({ flags: { 'store-token-file': missing } }))).toBe(
      `configuration_invalid: --store-token-file: the file ${missing} cannot be read (ENOENT).`,
    )
    expect(refusal(() => read({ flags: { 'store-token-file': folder } }))).toMatch(
      /cannot be read \(EISDIR\)/,
    )
  })

  test('a password that is not sent in a header may hold any letters', () => {
    const { options } = read({ environment: { GRAPHMILL_SASL_PASSWORD: ' pässwörd “🔑” ' } })
    expect(secretText(options['sasl-password']!)).toBe(' pässwörd “🔑” ')
    expect(refusal(() => read({ environment: { GRAPHMILL_SASL_PASSWORD: 'a\tb' } }))).toMatch(
      /GRAPHMILL_SASL_PASSWORD holds a control character/,
    )
  })
})

describe('a file that changes', () => {
  const secretAt = (path: string) => read({ flags: { 'store-token-file': path } }).options['store-token']!

  test('is read by the next use, also when it was written in the same instant', () => {
    const secret = secretAt(file('secret', 'value-0'))
    for (let count = 1; count < 50; count++) {
      file('secret', `value-${count % 10}`)
      expect(secretText(secret)).toBe(`value-${count % 10}`)
    }
  })

  test('as the kubelet swaps the mount of a Secret', () => {
    mountConfigMap(folder, { version: 'one', files: { token: 'first' } })
    const secret = secretAt(join(folder, 'token'))
    expect(secretText(secret)).toBe('first')
    mountConfigMap(folder, { version: 'two', files: { token: 'other' } })
    expect(secretText(secret)).toBe('other')
    expect(secretText(structuredClone(secret)), 'in another thread').toBe('other')
  })

  test('to something unusable keeps its last value in use, and checking it reports the fault', () => {
    const path = file('secret', 'value-of-before')
    const secret = secretAt(path)
    for (const change of [() => rmSync(path), () => file('secret', ''), () => file('secret', 'a\nb')]) {
      change()
      expect(secretText(secret)).toBe('value-of-before')
      expect(refusal(() => checkSecret(secret))).toMatch(
        /^configuration_invalid: --store-token-file: the file /,
      )
    }
    file('secret', 'value-of-after')
    expect(secretText(secret)).toBe('value-of-after')
  })
})
