import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { keepAddress, maskAddress } from '../src/config/address.ts'
import { GraphmillError } from '../src/errors.ts'
import { keepSecret, redact, redactAll, redactCut, redactError } from '../src/redact.ts'
import { formsOf } from './support/secret-forms.ts'

const secrets = [
  'sk-proj-Ab3dEfGh1JkLmN0pQrStUvWxYz',
  'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJncmFwaG1pbGwifQ.c2lnbmF0dXJl',
  'p@ss/w"rd+with\\every&sign%<>',
  'pässwörd “🔑” Ω',
  '12345678',
]
beforeAll(() => {
  for (const secret of secrets) keepSecret(secret, 'test')
})

describe('a secret', () => {
  const cases = secrets.flatMap((secret) =>
    Object.entries(formsOf(secret)).map(([form, text]) => [form, text] as const),
  )

  test.each(cases)('is hidden: %s %s', (_, text) => {
    expect(redact(`before ${text} after`)).toMatch(/^before .{0,3}\[secret\].{0,3} after$/)
    const inJson = JSON.stringify({ message: `before ${text} after`, deep: [JSON.stringify({ text })] })
    expect(JSON.parse(redact(inJson)).message).toMatch(/^before .{0,3}\[secret\].{0,3} after$/)
    expect(redact(inJson)).not.toContain(text.slice(3, -3))
  })

  test('that was cut is hidden if twelve characters are left, wherever it was cut', () => {
    const [secret = ''] = secrets
    for (let start = 0; start + 12 <= secret.length; start++)
      for (let end = start + 12; end <= secret.length; end++)
        expect(redact(`…${secret.slice(start, end)}…`)).toBe('…[secret]…')
    expect(redact(secret.slice(0, 11))).toBe(secret.slice(0, 11))
  })

  test.each(cases)('leaves no character before a cut that divides it: %s %s', (_, text) => {
    const before = 'wrong key: '
    for (let most = before.length + 1; most < before.length + text.length; most++) {
      const shown = redactCut(`${before}${text} after`, most)
      expect(shown.length).toBeLessThanOrEqual(most)
      // The first characters of what is base64 may depend on what stood before the secret.
      expect(shown).toMatch(/^wrong key: .{0,3}(?:\[s?e?c?r?e?t?\]?[= ]{0,3})?$/)
    }
    expect(redactCut('wrong key', 5)).toBe('wrong')
  })

  test('that is repeated leaves no beginning at a cut either', () => {
    const [secret = ''] = secrets
    for (let most = 1; most < 3 * secret.length; most++)
      expect(redactCut(`${secret} `.repeat(1000), most)).toMatch(/^(?:\[secret\] )*(?:\[s?e?c?r?e?t?\]?)?$/)
  })

  test('is hidden in the few characters of an answer that JSON.parse quotes', () => {
    for (const secret of secrets.slice(0, 2))
      for (const text of [secret, `{"error": ${secret}}`, `{"a":"b" ${secret}`, `["${secret}`]) {
        let message = ''
        try {
          JSON.parse(text)
        } catch (thrown) {
          message = (thrown as Error).message
        }
        const shown = redact(message)
        for (let at = 0; at + 6 <= secret.length; at++) expect(shown).not.toContain(secret.slice(at, at + 6))
      }
    expect(redact(`"{a: 1}" is not valid JSON`)).toBe('"{a: 1}" is not valid JSON')
  })

  test('keeps JSON valid, whatever surrounds it, and hides it there', () => {
    const parts = fc.array(
      fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom(...secrets, '\\', '\n', '\\u', '%', '"')),
    )
    fc.assert(
      fc.property(parts, (texts) => {
        const line = JSON.stringify({ msg: texts.join('') })
        const shown = JSON.parse(redact(line)) as { msg: string }
        for (const secret of secrets) expect(shown.msg).not.toContain(secret)
      }),
      { numRuns: 300 },
    )
  })

  test('is hidden in errors, their stacks, causes and details', () => {
    const [secret = ''] = secrets
    const cause = new Error(`no ${secret}`, { cause: new TypeError(Buffer.from(secret).toString('base64')) })
    const error = new GraphmillError('unexpected', `said ${secret}`, {
      cause,
      details: { said: [{ secret }] },
    })
    const shown = [error.message, error.stack, error.details, error.cause, (error.cause as Error).cause].map(
      (each) => (each instanceof Error ? [each.message, each.stack, each.name] : each),
    )
    for (const form of Object.values(formsOf(secret))) expect(JSON.stringify(shown)).not.toContain(form)
    expect((error.cause as Error).message).toBe('no [secret]')
  })
})

describe('text without secrets', () => {
  test('stays as it is, and so do errors and objects, the very same', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 500 }), (text) => {
        if (!text.includes('12345678')) expect(redact(text)).toBe(text)
      }),
    )
    const error = new TypeError('fetch failed', { cause: new Error('ECONNREFUSED') })
    expect(redactError(error)).toBe(error)
    const value = { a: ['b', { c: 1 }] }
    expect(redactAll(value)).toBe(value)
  })

  test('keeps words that contain a short secret', () => {
    for (const word of ['test', 'none', 'EMPTY', 'ollama', '1234', 'x', 'ab1']) keepSecret(word, 'short')
    const text = 'The test asks none of the EMPTY ollama models 1234 times; x is ab1.'
    expect(redact(text)).toBe(text)
    keepSecret('hunter2', 'short')
    expect(redact('Wrong key hunter2, HUNTER2; hunter22 and xhunter2 stay')).toBe(
      'Wrong key [secret], [secret]; hunter22 and xhunter2 stay',
    )
    expect(redact(`Basic ${Buffer.from('hunter2').toString('base64')}`)).not.toContain('aHVudGVyM')
  })
})

test('the last hundred values of a place are hidden, and all of other places', () => {
  const value = (count: number) => `rotated-${String(count).padStart(4, '0')}-${'q7'.repeat(count % 5)}`
  for (let count = 0; count < 150; count++) keepSecret(value(count), 'rotating')
  for (let count = 50; count < 150; count++) expect(redact(value(count)), value(count)).toBe('[secret]')
  for (const secret of secrets) expect(redact(secret)).toBe('[secret]')
})

test('the time is linear in the text, even when all of it is secrets or escapes', () => {
  const [secret = ''] = secrets
  const texts = (length: number) =>
    [
      'The quick brown fox. ',
      `${secret} `,
      secret.slice(0, 11),
      '\\',
      '%',
      '%41',
      '&amp;',
      '\\u0041',
      'eyJh',
      '"',
    ].map((part) => part.repeat(Math.ceil(length / part.length)))
  const timeOf = (text: string) => {
    const start = performance.now()
    redact(text)
    return performance.now() - start
  }
  texts(100_000).map(timeOf)
  const [small, large] = [100_000, 1_000_000].map((length) => texts(length).map(timeOf))
  // Ten times the text may take forty times as long on a busy machine; quadratic would be a hundred times.
  for (const [at, time] of large!.entries())
    expect(time, texts(1)[at]).toBeLessThan(Math.max(small![at]! * 40, 2000))
})

test('a text of backslashes takes about as long as any other', () => {
  const timeOf = (part: string) => {
    const text = part.repeat(1_000_000 / part.length)
    const times = Array.from({ length: 3 }, () => {
      const start = performance.now()
      redact(text)
      return performance.now() - start
    })
    return Math.min(...times)
  }
  // It was 35 times as long.
  expect(timeOf('\\')).toBeLessThan(12 * timeOf('The brown fox waits. '))
})

describe('an address', () => {
  const cases: [address: string, shown: string, ...hidden: string[]][] = [
    ['http://u:p@ss-word@h/x', 'http://***@h/x', 'p@ss-word'],
    ['http://u:p%40ss-word@h/x', 'http://***@h/x', 'p@ss-word', 'p%40ss-word'],
    ['http://user:pass/word@h/x', 'http://***@h/x', 'pass/word'],
    ['http://u:pass@word/with-both@h/x', 'http://***@h/x', 'pass@word/with-both'],
    ['http://u:p?ss-word@h/x', 'http://***@h/x', 'p?ss-word'],
    ['u:pass-word-1@h', '***@h', 'pass-word-1'],
    ['https://0123456789abcdef0123@h', 'https://***@h', '0123456789abcdef0123'],
    ['kafka://u:pass-word-2@h:9092,h2:9092', 'kafka://***@h:9092,h2:9092', 'pass-word-2'],
    ['http://h/x?token=abcdefgh1&graph=g', 'http://h/x?token=***&graph=***', 'abcdefgh1'],
    ['http://h/x?abcdefgh123456#frag-ment', 'http://h/x?***#***'],
    ['http://h/x?default', 'http://h/x?default'],
    ['http://h/me@home', 'http://h/me@home'],
    ['http://h:80/x', 'http://h:80/x'],
    ['127.0.0.1:11434', '127.0.0.1:11434'],
  ]

  test.each(cases)('%s is shown as %s', (address, shown, ...hidden) => {
    expect(maskAddress(address)).toBe(shown)
    keepAddress(address, 'address')
    for (const text of hidden) expect(redact(`said ${text}`)).toBe('said [secret]')
  })

  test('hides the Basic header of a short password, too, and not its user', () => {
    keepAddress('http://miller:a-1b@h', 'address')
    expect(redact(`Basic ${Buffer.from('miller:a-1b').toString('base64')}`)).toMatch(/^Basic \[secret\]=*$/)
    expect(redact('miller')).toBe('miller')
  })
})
