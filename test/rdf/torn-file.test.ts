import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Parser } from 'n3'
import { expect, test } from 'vitest'
import { iri, literal, triple } from '../../src/rdf/term.ts'
import { wholeLength } from '../../src/rdf/torn-file.ts'
import { createEncoder, formats } from '../../src/rdf/write.ts'

const facts = (subject: string, name?: string) =>
  ['p', 'p', 'q'].map((predicate, n) => {
    const fact = triple(iri(`urn:${subject}`), iri(`urn:${predicate}`), literal(`${n} " .\n}\n `))
    return name === undefined ? fact : { ...fact, g: `urn:${name}` }
  })
const batches = [
  facts('a'),
  facts('b', 'g'),
  [...facts('c', 'g'), ...facts('d'), ...facts('e'), ...facts('f', 'h')],
  facts('g'),
]

test.each(formats)(
  'a file of %s that is cut anywhere keeps every whole batch, and no partial statement',
  async (format) => {
    const encoder = createEncoder(format)
    const ends = [Buffer.from(encoder.begin())]
    for (const batch of batches) ends.push(Buffer.concat([ends.at(-1)!, Buffer.from(encoder.encode(batch))]))
    const whole = ends.at(-1)!
    const folder = await mkdtemp(join(tmpdir(), 'graphmill-torn-'))
    const path = join(folder, 'file')
    await writeFile(path, whole)
    const handle = await open(path, 'r+')
    try {
      for (let cut = whole.length; cut >= 0; cut--) {
        await handle.truncate(cut)
        const length = await wholeLength(handle, format, 16)
        const before = ends.findLast((end) => end.length <= cut)?.length ?? 0
        expect(length, `cut at ${cut}`).toBeGreaterThanOrEqual(before)
        expect(length, `cut at ${cut}`).toBeLessThanOrEqual(cut)
        const text = whole.subarray(0, length).toString()
        if (format === 'jsonl') for (const line of text.split('\n').slice(0, -1)) JSON.parse(line)
        else new Parser({ format: format === 'nquads' ? 'n-quads' : format }).parse(text)
      }
    } finally {
      await handle.close()
      await rm(folder, { recursive: true })
    }
  },
)
