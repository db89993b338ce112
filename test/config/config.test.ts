import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { type Origin, readConfig, strangeVariables, variableOf } from '../../src/config/config.ts'
import { isSecret, type OptionEntry, type OptionName, optionTable } from '../../src/config/options.ts'
import { secretText } from '../../src/config/secret.ts'
import { GraphmillError } from '../../src/errors.ts'

let folder: string
let file: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-'))
  file = join(folder, 'settings.yaml')
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const isFileOfSecret = (name: string) => name.endsWith('-file') && isSecret(name.slice(0, -'-file'.length))
/** The files of secrets have a test of their own: secret.test.ts. */
const names = (Object.keys(optionTable) as OptionName[]).filter(
  (name) => name !== 'config' && !isFileOfSecret(name),
)
const entryOf = (name: OptionName): OptionEntry => optionTable[name]

/** A value that the option takes, as a person would write it. */
function written({
  type,
  choices,
  least = 1,
  most = 1_000_000,
}: OptionEntry): fc.Arbitrary<string | number | boolean> {
  switch (type) {
    case 'count':
      return fc.integer({ min: least, max: most })
    case 'number':
      return fc.constantFrom(0, 0.25, 1, 2)
    case 'flag':
      return fc.boolean()
    case 'list':
    case 'text':
      return choices ? fc.constantFrom(...choices) : fc.stringMatching(/^[a-z][a-z0-9.-]{0,12}$/)
  }
}

const expected = ({ type }: OptionEntry, value: string | number | boolean) =>
  type === 'list' ? [value] : value

const refusal = (act: () => unknown) => {
  try {
    act()
  } catch (error) {
    expect(error).toBeInstanceOf(GraphmillError)
    return `${(error as GraphmillError).code}: ${(error as Error).message}`
  }
  return 'taken'
}

const fromFile = (text: string) =>
  refusal(() => {
    writeFileSync(file, text)
    readConfig({ flags: { config: file }, environment: {} })
  })

describe('every option', () => {
  test('is a flag, an environment variable and a key of the file, in this order before its default', () => {
    const cases = fc.constantFrom(...names).chain((name) => {
      const value = written(entryOf(name))
      return fc.record({
        name: fc.constant(name),
        flag: fc.option(value, { nil: undefined }),
        environment: fc.option(value, { nil: undefined }),
        file: fc.option(value, { nil: undefined }),
      })
    })
    fc.assert(
      fc.property(cases, ({ name, ...given }) => {
        writeFileSync(file, stringify(given.file === undefined ? {} : { [name]: given.file }))
        const flag = typeof given.flag === 'number' ? String(given.flag) : given.flag
        const { options, origins } = readConfig({
          flags: { config: file, ...(flag !== undefined && { [name]: flag }) },
          environment:
            given.environment === undefined ? {} : { [variableOf(name)]: String(given.environment) },
        })
        const order: readonly Origin[] = ['flag', 'environment', 'file']
        const origin = order.find((each) => given[each as keyof typeof given] !== undefined)
        expect(origins[name]).toBe(origin ?? 'default')
        const value = origin && given[origin as keyof typeof given]
        const fallback = entryOf(name).default
        const secret = isSecret(name) ? options[name] : undefined
        expect(secret ? secretText(secret) : options[name]).toEqual(
          value === undefined ? fallback : expected(entryOf(name), value),
        )
      }),
      { numRuns: 200 },
    )
  })

  test('has its own variable', () => {
    expect(new Set(names.map(variableOf)).size).toBe(names.length)
    expect(variableOf('sasl-password')).toBe('GRAPHMILL_SASL_PASSWORD')
  })

  test.each(names)('%s of a wrong type is refused with the file and the key', (name) => {
    const { type, secret } = entryOf(name)
    const wrong =
      type === 'count' || type === 'number' ? 'many' : type === 'flag' ? 'perhaps' : { a: 'secret' }
    const message = fromFile(stringify({ [name]: wrong }))
    expect(message).toContain(`configuration_invalid: ${file}: ${name} must be`)
    if (secret) expect(message).not.toContain('object')
  })
})

describe('a configuration file', () => {
  test('with an unknown key is refused with file, key and a suggestion', () => {
    expect(fromFile('chunk-sise: 9\n')).toBe(
      `configuration_invalid: ${file}: there is no option chunk-sise. Did you mean chunk-size?`,
    )
    expect(fromFile('zzzzzzzz: 9\n')).toBe(`configuration_invalid: ${file}: there is no option zzzzzzzz.`)
  })

  test('with a value near one of the choices is refused with a suggestion', () => {
    expect(fromFile('format: nquad\n')).toMatch(/format must be one of .*"nquad"\. Did you mean nquads\?$/)
    expect(fromFile('output-mode: ellmer\n')).toMatch(/output-mode must be one of .*ellmer .*outside of R\.$/)
  })

  test('that is not YAML, not an object, or names another file is refused', () => {
    expect(fromFile('{')).toMatch(/^configuration_invalid: .*settings\.yaml/)
    expect(fromFile('- a\n')).toMatch(/must hold options by name/)
    expect(fromFile('config: other.yaml\n')).toMatch(/cannot be set in the file itself/)
  })

  test('may be empty, JSON, and hold null for what is not set', () => {
    expect(fromFile('')).toBe('taken')
    expect(fromFile('{"chunk-size": 900, "extractors": ["topics"]}')).toBe('taken')
    expect(fromFile('broker:\n')).toBe('taken')
  })

  test('that was named but is missing is an error', () => {
    const flags = { config: join(folder, 'nowhere.yaml') }
    expect(refusal(() => readConfig({ flags, environment: {} }))).toMatch(
      /^configuration_invalid: .*nowhere\.yaml/,
    )
  })
})

test('an error names the place where the value was given', () => {
  const refused = (flags: object, environment: Record<string, string>) =>
    refusal(() => readConfig({ flags: { ...flags }, environment }))
  expect(refused({ concurrency: 'x' }, {})).toMatch(
    /: --concurrency must be a whole number from 1 on, not "x"/,
  )
  expect(refused({ 'llm-timeout': '2147484' }, {})).toMatch(
    /: --llm-timeout must be a whole number from 1 to 604800, not "2147484"/,
  )
  expect(refused({ temperature: '-1' }, {})).toMatch(/: --temperature must be a number from 0 on, not "-1"/)
  expect(refused({}, { GRAPHMILL_TEMPERATURE: 'Infinity' })).toMatch(/: GRAPHMILL_TEMPERATURE must be/)
  expect(refused({}, { GRAPHMILL_CONCURRENCY: '0' })).toMatch(/: GRAPHMILL_CONCURRENCY must be/)
})

test('an empty variable counts as unset', () => {
  expect(readConfig({ flags: {}, environment: { GRAPHMILL_SPACE: '' } }).options.space).toBe('gm')
})

test('variables that look like options but are not are reported with the one that may be meant', () => {
  const environment = { GRAPHMILL_BROKR: 'x', GRAPHMILL_BROKER: 'x', GRAPHMILL_FROM: 'x', PATH: 'x' }
  expect(strangeVariables(environment, ['from'])).toEqual([
    'GRAPHMILL_BROKR is no option. Did you mean GRAPHMILL_BROKER?',
  ])
})
