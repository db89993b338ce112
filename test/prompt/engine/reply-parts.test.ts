import { expect, test } from 'vitest'
import { maxPart, type ReplyEnd } from '../../../src/prompt/engine/reply.ts'
import { type ReplyPart, withRepeats } from '../../../src/prompt/engine/reply-parts.ts'

const end = { accepted: 3, rejected: 1 } as ReplyEnd
const part = (items: readonly unknown[], accepted: number, more: Partial<ReplyPart> = {}): ReplyPart => ({
  ...{ object: JSON.stringify(items), accepted, rejected: 0 },
  ...more,
})

async function repeated(parts: readonly ReplyPart[]) {
  const found: ReplyPart[] = []
  for await (const each of withRepeats(parts as unknown as AsyncIterable<ReplyPart>)) found.push(each)
  return found
}

test('the last part of a reply has all items again, and says how many are not new', async () => {
  const parts = [part([1], 1), part([], 1), part([2, 3], 3, { end, rejected: 1 })]
  expect(await repeated(parts)).toEqual([
    { ...parts[0], repeated: -1 },
    { ...parts[1], repeated: -1 },
    { ...parts[2], object: '[1,2,3]', groundings: [], repeated: 1 },
  ])
  expect(await repeated([part([1, 2, 3], 3, { end })])).toMatchObject([{ object: '[1,2,3]', repeated: 0 }])
})

test('what would be too large for a message comes again in several parts', async () => {
  const long = 'x'.repeat(maxPart * 0.6)
  const parts = [part([long], 1), part([long], 2), part([3], 3, { end })]
  const found = await repeated(parts)
  expect(found.slice(2)).toEqual([
    { ...parts[0], groundings: [], repeated: 1 },
    { ...parts[2], object: JSON.stringify([long, 3]), groundings: [], repeated: 1 },
  ])
})
