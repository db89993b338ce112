// A process that shares a cache with others: writes entries under one key that all write, and under keys of its own.
// Arguments: the folder, a name, how many. Prints one JSON object: how often the shared entry was there, missing, or torn.
import { openCache } from '../../src/llm/cache/reply-cache.ts'
import { entryOf } from './cache-entry.ts'

const [dir = '', name = '', count = ''] = process.argv.slice(2)
const failures: string[] = []
const cache = openCache({ dir, onFailure: (error) => failures.push(String(error)) })
const seen = { whole: 0, missing: 0, torn: 0 }
for (let n = 0; n < Number(count); n++) {
  const id = `${name} ${n}`
  await cache.put('shared', entryOf(id, id.repeat(500)))
  await cache.put(id, entryOf(id))
  const found = await cache.get('shared')
  if (!found) seen.missing++
  else if (found.calls[0]!.text === found.run.id.repeat(500)) seen.whole++
  else seen.torn++
}
await cache.close()
console.log(JSON.stringify({ ...seen, failures }))
