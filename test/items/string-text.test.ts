// What the backslashes of a string mean that JSON does not accept, or accepts by accident.
import { describe, expect, test } from 'vitest'
import { stringText, swallowsLetters } from '../../src/items/string-text.ts'

const read = (literal: string) => stringText(literal, 0x22)
const raw = String.raw

describe('a backslash before punctuation', () => {
  test.each([
    [raw`miller\'s \$5 \& \#1 \[note\] a\_b \*c\* 10\% x\-y`, `miller's $5 & #1 [note] a_b *c* 10% x-y`],
    [raw`price \$5\nper day\t\"now\"`, 'price $5\nper day\t"now"'],
    [raw`My\ Documents \ or \“x\”`, raw`My Documents \ or “x”`],
    ['one \\\nline', 'one line'],
  ])('is dropped, and other escapes stay: %s', (literal, text) => {
    expect(read(literal)).toMatchObject({ text, repairs: expect.arrayContaining(['escape']) })
  })

  test.each([raw`the force \(F = m a\)`, raw`so \[E = m c^2\] holds`, raw`the angle \(x\)`])(
    'that marks a formula is kept: %s',
    (literal) => {
      expect(read(literal)).toStrictEqual({ text: literal, repairs: ['escape'] })
    },
  )

  test.each([
    [raw`f\(x\) and \(see note\)`, 'f(x) and (see note)'],
    [raw`\[12\] and \[a\]`, '[12] and [a]'],
  ])('that marks no formula is dropped: %s', (literal, text) => {
    expect(read(literal).text).toBe(text)
  })
})

describe('a backslash before a letter that is no escape', () => {
  test.each([
    raw`C:\Users\new\table\bin\files\readme`,
    raw`src\items\new`,
    raw`C:\$Recycle.Bin\new`,
    raw`\(\alpha\) \& \nu \beta`,
    raw`\d+\.\d\n\t[\w\-]`,
    raw`caf\é \1 \0 \x4 \u12 \U0000`,
    raw`C:\x86\new`,
  ])('makes every backslash of its string text: %s', (literal) => {
    expect(read(literal)).toStrictEqual({ text: literal, repairs: ['escape'] })
  })

  test.each([
    [raw`C:\\Users\me`, raw`C:\Users\me`],
    [raw`\\server\share`, raw`\\server\share`],
    [raw`\"C:\Users\"`, raw`"C:\Users"`],
    [raw`Ren\u00e9: C:\Users`, raw`René: C:\Users`],
    [raw`It is \(\alpha\).\nIt is an angle.`, 'It is \\(\\alpha\\).\nIt is an angle.'],
  ])(
    'leaves quotes, backslashes, numbers and the end of a sentence as they were meant: %s',
    (literal, text) => {
      expect(read(literal).text).toBe(text)
    },
  )
})

describe('an escape of another language', () => {
  test.each([
    [raw`\x41\x27 \xe9t\xe9`, `A' été`],
    [raw`caf\xc3\xa9 \xf0\x9f\x8c\xac`, 'café 🌬'],
    [raw`\u{1F32C} \u{41} \U0001F32C`, '🌬 A 🌬'],
  ])('is read: %s', (literal, text) => {
    expect(read(literal)).toStrictEqual({ text, repairs: ['escape'] })
  })

  test('beyond Unicode is text', () => {
    expect(read(raw`\u{110000}`).text).toBe(raw`\u{110000}`)
  })
})

describe('a text that JSON accepts', () => {
  test.each([
    raw`{"e":"\frac{a}{b}"}`,
    raw`{"e":"the angle \theta"}`,
    raw`{"e":"\nabla f"}`,
    raw`{"e":"\text{m}"}`,
    raw`{"e":"a\bword"}`,
    raw`{"e":"C:\temp"}`,
    raw`{"e":"\\\beta"}`,
  ])('swallows letters: %s', (json) => {
    expect(() => JSON.parse(json)).not.toThrow()
    expect(swallowsLetters(json)).toBe(true)
  })

  test.each([
    raw`{"e":"one\ntwo\tthree\r\nfour\/five"}`,
    raw`{"e":"C:\\bin\\files\\temp"}`,
    raw`{"e":"\\theta \\frac"}`,
    raw`{"e":"Option A:\nthe first\tthen\timeslot"}`,
    raw`{"e":"\fFour? \f\b \u0008x"}`,
    raw`{"e":"the \"text\""}`,
  ])('means what JSON says: %s', (json) => {
    expect(swallowsLetters(json)).toBe(false)
  })
})
