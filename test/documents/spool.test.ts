import { describe, expect, test } from 'vitest'
import { spool } from '../../src/documents/spool.ts'

async function* stream(pieces: number, length: number) {
  for (let n = 0; n < pieces; n++) yield Buffer.alloc(length, `${n % 10}`)
}

const collect = async (pieces: AsyncIterable<Uint8Array>) => Buffer.concat(await all(pieces))
const all = async (pieces: AsyncIterable<Uint8Array>) => {
  const list: Uint8Array[] = []
  for await (const piece of pieces) list.push(piece)
  return list
}

describe.each([
  ['in memory', 1_000_000],
  ['in a file', 50_000],
])('a stream kept %s', (_, maxHeld) => {
  test('can be read completely any number of times', async () => {
    const whole = await collect(stream(40, 10_000))
    const spooled = await spool(stream(40, 10_000), maxHeld)
    expect(Buffer.from(spooled.head).equals(whole.subarray(0, 8192))).toBe(true)
    expect((await collect(spooled.bytes())).equals(whole)).toBe(true)
    expect((await collect(spooled.bytes())).equals(whole)).toBe(true)
  })
})

test('an empty stream is kept as an empty one', async () => {
  const spooled = await spool(stream(0, 1))
  expect(spooled.head).toHaveLength(0)
  expect(await all(spooled.bytes())).toEqual([])
})
