// Loads a generated text of so many megabytes onto a broker that forgets, and prints the most memory that it took, in MB.
import type { Broker } from '../../src/broker/broker.ts'
import { createCircuits } from '../../src/flow/circuits.ts'
import { loadDocument } from '../../src/flow/source.ts'
import { createCodec } from '../../src/messages/codec.ts'
import { loadSchemas } from '../../src/messages/registry.ts'

const megabytes = Number(process.argv[2])
const sentences = 'The mill of the parish stands by the river and feeds the miller. '.repeat(15)
const piece = `${sentences}\n\n`.repeat(250)

async function* text() {
  for (let left = megabytes * 1e6; left > 0; left -= piece.length) yield piece
}

let peak = 0
const broker = {
  async publish() {
    peak = Math.max(peak, process.memoryUsage.rss())
    await new Promise(setImmediate)
  },
} satisfies Partial<Broker> as unknown as Broker

const { parts } = await loadDocument(
  { title: 'long.txt', uri: '', mediaType: 'text/plain', text },
  {
    broker,
    codec: createCodec(loadSchemas()),
    circuits: createCircuits(),
    clock: { now: () => Date.now() },
    ids: { next: () => crypto.randomUUID() },
    space: 'gm',
    scope: { workspace: 'default', flow: 'default' },
    collection: 'default',
    source: 'test',
  },
  new AbortController().signal,
)
console.log(JSON.stringify({ parts, peak: Math.round(peak / 1e6) }))
