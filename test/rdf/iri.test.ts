import { spawnSync } from 'node:child_process'
import * as fc from 'fast-check'
import { Parser } from 'n3'
import { describe, expect, test } from 'vitest'
import { chunkIri, documentIri, entityIri, safeIri } from '../../src/rdf/iri.ts'
import { hostileIri, hostileText } from './quads.ts'

const base = 'http://trustgraph.ai/e/'

describe('entityIri', () => {
  test.each([
    ['Alan Turing', 'alan-turing'],
    ['machine-learning', 'machine-learning'],
    ['TCP/IP', 'tcp/ip'],
    ['a\tb', 'a%09b'],
    ['two  spaces', 'two--spaces'],
    ['no\u00a0break', 'no%C2%A0break'],
    ["it's (not) *that*!", 'it%27s-%28not%29-%2Athat%2A%21'],
    ['~keeps_these.~', '~keeps_these.~'],
    ['100%', '100%25'],
    ['Žižek', '%C5%BEi%C5%BEek'],
    ['ΟΔΥΣΣΕΥΣ', '%CE%BF%CE%B4%CF%85%CF%83%CF%83%CE%B5%CF%85%CF%82'],
    ['İstanbul', 'i%CC%87stanbul'],
    ['北京', '%E5%8C%97%E4%BA%AC'],
    ['😀', '%F0%9F%98%80'],
    ['lone \ud800 half', 'lone-%EF%BF%BD-half'],
    ['', ''],
  ])('names %j', (name, path) => {
    expect(entityIri(name)).toBe(base + path)
  })

  test('gives what Python gives, for every character and for random names', ({ skip }) => {
    const singles = Array.from({ length: 0x110000 }, (_, point) => String.fromCodePoint(point)).filter(
      (character) => /[^\p{Cn}\p{Co}]/u.test(character),
    )
    const sigmas = fc.string({ unit: fc.constantFrom(..."ΣσΑα -.:'\u0301\u00adA1Ǆ𐐀"), maxLength: 8 })
    const words = fc.string({
      unit: fc.nat(singles.length - 1).map((at) => singles[at] ?? ''),
      maxLength: 12,
    })
    const names = [
      ...singles,
      ...fc.sample(sigmas, 5000),
      ...fc.sample(words, 2000),
      ...fc.sample(hostileText, 2000),
    ]
    const python = quoteInPython(names)
    skip(python === undefined, 'python3 is not installed')

    const differing = names.flatMap((name, at) => {
      const expected = python?.[at]
      return expected === null || expected === entityIri(name) ? [] : [[name, expected, entityIri(name)]]
    })
    expect(differing.slice(0, 10)).toEqual([])
    expect(python?.filter((each) => each !== null).length).toBeGreaterThan(130_000)
  })

  test('distinguishes names that differ after hyphens and lower case, and only those', async () => {
    const name = fc.string({
      unit: fc.constantFrom(...'aA%20 -/\té', 'e\u0301', 'ß', 'İ', 'i', '\ud800'),
      maxLength: 4,
    })
    const normal = (text: string) => text.toWellFormed().replaceAll(' ', '-').toLowerCase()
    await fc.assert(
      fc.property(fc.oneof(name, hostileText), fc.oneof(name, hostileText), (one, other) => {
        expect(entityIri(one) === entityIri(other)).toBe(normal(one) === normal(other))
      }),
      { numRuns: 3000 },
    )
  })
})

describe('documentIri and chunkIri', () => {
  test.each([
    ['notes', 'urn:graphmill:document:notes'],
    ['my notes/über.txt', 'urn:graphmill:document:my%20notes/%C3%BCber.txt'],
    ['C:\\notes.txt', 'urn:graphmill:document:C%3A%5Cnotes.txt'],
    ['https://example.org/a', 'https://example.org/a'],
    ['https://example.org/a b<c>', 'https://example.org/a%20b%3Cc%3E'],
    ['urn:isbn:0451450523', 'urn:isbn:0451450523'],
  ])('names the document %j', (id, expected) => {
    expect(documentIri(id)).toBe(expected)
  })

  test('names a chunk after its id', () => {
    expect(chunkIri('my notes/0/12')).toBe('urn:graphmill:chunk:my%20notes/0/12')
    expect(chunkIri('urn:isbn:0451450523/0/12')).toBe('urn:isbn:0451450523/0/12')
  })
})

describe('safeIri', () => {
  test('percent-encodes the characters that an IRI cannot hold', () => {
    expect(safeIri('http://x/<a>"{b}|^`\\ \n\u0085\u00a0\u202e')).toBe(
      'http://x/%3Ca%3E%22%7Bb%7D%7C%5E%60%5C%20%0A%C2%85%C2%A0%E2%80%AE',
    )
    expect(safeIri('http://x/50%/%4g/%41/\ud800')).toBe('http://x/50%25/%254g/%41/\ufffd')
  })

  test('does not change legal IRIs', () => {
    for (const legal of [
      'http://example.org/Straße?q=ä&b=%C3%A4#北',
      "urn:a:~!$&'()*+,;=@[1]",
      'http://x/𝒳',
    ]) {
      expect(safeIri(legal)).toBe(legal)
    }
  })

  test('gives an IRI that a parser reads unchanged, and does not change it again', async () => {
    await fc.assert(
      fc.property(hostileIri, (text) => {
        const safe = safeIri(text)
        const [quad] = new Parser({ format: 'application/n-quads' }).parse(`<${safe}> <urn:p> <urn:o> .\n`)
        expect(quad?.subject.value).toBe(safe)
        expect(safeIri(safe)).toBe(safe)
        expect(safe).not.toMatch(/\s/)
      }),
      { numRuns: 1000 },
    )
  })
})

/** Rule R1 in Python; null for a name with a character that its Unicode does not have yet; undefined without python3. */
function quoteInPython(names: readonly string[]): (string | null)[] | undefined {
  const program = `
import json, re, sys, unicodedata
from urllib.parse import quote
def name(text):
    text = re.sub('[\\ud800-\\udfff]', '\\ufffd', text)
    if any(unicodedata.category(c) == 'Cn' and ord(c) & 0xfffe != 0xfffe and not 0xfdd0 <= ord(c) <= 0xfdef for c in text): return None
    return '${base}' + quote(text.lower().replace(' ', '-'))
print(json.dumps([name(text) for text in json.load(sys.stdin)]))
`
  const maxBuffer = 256 * 1024 * 1024
  const { error, stdout, stderr, status } = spawnSync('python3', ['-c', program], {
    input: JSON.stringify(names),
    encoding: 'utf8',
    maxBuffer,
  })
  if (error && 'code' in error && error.code === 'ENOENT') return undefined
  expect(stderr).toBe('')
  expect(status).toBe(0)
  return JSON.parse(stdout) as (string | null)[]
}
