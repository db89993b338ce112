// ndjson and JSON Lines: each case in every split of its bytes.
import { describe, expect, it } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import { readJsonLines, readNdjson } from '../../src/formats/json-lines.ts'
import { all, brief, bytes, inEverySplit } from './splits.ts'

const value = (given: unknown) => ({ value: given })

describe.each([
  ['ndjson', readNdjson],
  ['jsonl', readJsonLines],
])('%s', (_, read) => {
  it.each<[string, string, unknown[]]>([
    ['one record a line', '{"a":1}\n{"b":2}\n', [value({ a: 1 }), value({ b: 2 })]],
    ['nothing', '', []],
    ['a last line without a newline', '1\n2', [value(1), { unterminated: 2 }]],
    ['a null', 'null\n', [value(null)]],
    [
      'a newline inside a text, which makes two bad lines',
      '{"a":\n1}\n',
      ['invalid_json 1', 'invalid_json 2'],
    ],
    ['\\r\\n as a line end', '{"a":1}\r\n{"b":2}\r\n', [value({ a: 1 }), value({ b: 2 })]],
    ['\\r alone as no line end', '{}\r{}\n', ['invalid_json 1']],
    ['U+2028 and U+0085 inside a string', '{"a":"x\u2028y\u0085"}\n', [value({ a: 'x\u2028y\u0085' })]],
    ['two texts on a line as an error', '{} {}\n', ['invalid_json 1']],
    [
      'blank lines and lines of white space',
      '{"a":1}\n\n \t\r\n{"b":2}\n',
      [value({ a: 1 }), value({ b: 2 })],
    ],
    ['a last line that was cut off', '{"a":1}\n{"b', [value({ a: 1 }), 'truncated 2']],
    ['a last line cut inside a character', '"a"\n"caf<FF>', [value('a'), 'truncated 2']],
    ['a last line cut inside a word', '1\n tru', [value(1), 'truncated 2']],
    ['a last line that no more bytes could mend as an error', '1\n{}\r{}', [value(1), 'invalid_json 2']],
    ['a last line that closes what it did not open as an error', '{"a":1}}', ['invalid_json 1']],
    ['a bad line as no reason to stop', 'x\n1\n', ['invalid_json 1', value(1)]],
    ['white space behind the last newline', '1\n ', [value(1)]],
    ['characters of two, three and four bytes', '"é€😀"\n', [value('é€😀')]],
    ['a number that no double can hold', '[1e999]\n1\n', ['not_finite 1', value(1)]],
    ['a byte order mark by dropping it', '<BOM>{}\n', ['ignored 1', value({})]],
    ['a byte order mark in the middle as an error', '1\n<BOM>2\n', [value(1), 'invalid_json 2']],
  ])('reads %s', async (_, text, expected) => {
    expect(await inEverySplit((source) => read(source), text)).toEqual(expected)
  })

  it('does not take half of a byte order mark for one', async () => {
    expect(brief(await all(read([Uint8Array.of(0xef), Uint8Array.of(0xbb)])))).toEqual(['truncated 1'])
    expect(brief(await all(read([Uint8Array.of(0xef), bytes('\n1\n')])))).toEqual([
      'invalid_json 1',
      value(1),
    ])
  })

  it('turns invalid UTF-8 into U+FFFD, and says so', async () => {
    const events = await all(read(bytes('"a"\n"<FF>b"\n')))
    expect(events.map((event) => event.type === 'record' && [event.value, event.repairs])).toEqual([
      ['a', []],
      ['\ufffdb', ['encoding']],
    ])
  })

  it('passes on an integer that a double would change as a string of digits, and says so', async () => {
    const events = await all(
      read(bytes('{"id":12345678901234567890,"n":9007199254740991}\n12345678901234567891')),
    )
    expect(events).toMatchObject([
      { value: { id: '12345678901234567890', n: 9007199254740991 }, repairs: ['big_integer'] },
      { value: '12345678901234567891', repairs: ['big_integer'], unterminated: true },
    ])
  })

  it('rejects a byte order mark and invalid UTF-8 when it is strict', async () => {
    expect(await inEverySplit((source) => read(source, { strict: true }), '<BOM>{}\n"<FF>"\n1\n')).toEqual([
      'invalid_json 1',
      'invalid_json 2',
      value(1),
    ])
  })

  it('rejects a byte order mark when it is strict, though no newline follows', async () => {
    expect(await inEverySplit((source) => read(source, { strict: true }), '<BOM>{}')).toEqual([
      'invalid_json 1',
    ])
  })

  it('rejects blank lines on request, but not white space at the very end', async () => {
    const strict = await inEverySplit((source) => read(source, { blankLines: 'reject' }), '1\n\n2\n ')
    expect(strict).toEqual([value(1), 'invalid_json 2', value(2)])
  })

  it('rejects lines that are too large or too deep, and continues', async () => {
    const options = { maxRecord: 10, maxDepth: 2 }
    const text = '1\n"123456789"\n"12345678"\n[[[]]]\n[[]]\n2\n"123456789'
    expect(await inEverySplit((source) => read(source, options), text)).toEqual([
      value(1),
      'too_large 2',
      value('12345678'),
      'too_deep 4',
      value([[]]),
      value(2),
      'truncated 7',
    ])
  })

  it('throws at the first bad line on request, after the records before it', async () => {
    const seen: unknown[] = []
    const reading = (async () => {
      for await (const event of read(bytes('1\nx\n2\n'), { raise: true })) seen.push(...brief([event]))
    })()
    await expect(reading).rejects.toBeInstanceOf(GraphmillError)
    await expect(reading).rejects.toMatchObject({ code: 'record_invalid', details: { line: 2, text: 'x' } })
    expect(seen).toEqual([value(1)])
  })

  it('throws at a last line that was cut off on request', async () => {
    await expect(all(read(bytes('1\n{"a'), { raise: true }))).rejects.toMatchObject({
      code: 'record_invalid',
    })
  })

  it('gives a record before it reads the bytes after it', async () => {
    let asked = 0
    async function* source() {
      for (const line of ['1\n2', '3\n']) {
        asked++
        yield bytes(line)
      }
    }
    for await (const event of read(source())) {
      expect(event).toMatchObject({ value: 1 })
      break
    }
    expect(asked).toBe(1)
  })

  it('keeps its records when the caller uses the same buffer for every chunk', async () => {
    const shared = new Uint8Array(4)
    function* source() {
      for (const part of ['"ab', 'cd"\n']) {
        const piece = bytes(part)
        shared.set(piece)
        yield shared.subarray(0, piece.length)
      }
    }
    expect(brief(await all(read(source())))).toEqual([value('abcd')])
  })

  it('keeps the first bytes, too, when the caller uses the same buffer for every chunk', async () => {
    const shared = new Uint8Array(1)
    function* source() {
      for (const byte of bytes('<BOM>12\n')) {
        shared[0] = byte
        yield shared
      }
    }
    expect(brief(await all(read(source())))).toEqual(['ignored 1', value(12)])
  })

  it('keeps a `__proto__` key a key', async () => {
    const [event] = await all(read(bytes('{"__proto__":{"x":1}}\n')))
    expect(event?.type === 'record' && Object.keys(event.value as object)).toEqual(['__proto__'])
  })

  it('holds no more of an endless line than the limit', async () => {
    const chunk = new Uint8Array(1 << 20).fill(0x61)
    function* endless() {
      for (let count = 0; count < 256; count++) yield chunk
      yield bytes('\n1\n')
    }
    const before = process.memoryUsage()
    const events = await all(read(endless()))
    const after = process.memoryUsage()
    expect(brief(events)).toEqual(['too_large 1', value(1)])
    expect((after.arrayBuffers - before.arrayBuffers) / 1e6).toBeLessThan(20)
  })
})

it('only JSON Lines calls a blank line invalid when it is strict', async () => {
  const text = bytes('1\n\n2\n')
  expect(brief(await all(readJsonLines(text, { strict: true })))).toEqual([
    value(1),
    'invalid_json 2',
    value(2),
  ])
  expect(brief(await all(readNdjson(text, { strict: true })))).toEqual([value(1), value(2)])
})
