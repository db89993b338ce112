// A process that writes to a folder of files: one batch, for `many` another 20, for `torn` a second and half of a third. Then it says so on
// standard output, and lives until it is killed. Parameters: the folder, the format, `many` or `torn`.
import { open } from 'node:fs/promises'
import { openFolderStore } from '../../src/rdf/folder-store.ts'
import { iri, literal, triple } from '../../src/rdf/term.ts'
import type { TripleFormat } from '../../src/rdf/write.ts'

const [folder, format, mode] = process.argv.slice(2)
const store = openFolderStore(folder!, { format: format as TripleFormat, lockPatienceMs: 2000 })
const write = (name: string) =>
  store.write(
    ['p', 'q', 'r'].map((predicate) =>
      triple(iri(`urn:${name}`), iri(`urn:${predicate}`), literal('a "text" .\n')),
    ),
    { workspace: 'w', flow: 'f' },
  )

await write('one')
if (mode === 'torn') {
  await write('two')
  const handle = await open(import.meta.filename)
  const prototype = Object.getPrototypeOf(handle) as typeof handle
  const { appendFile } = prototype
  prototype.appendFile = async function (bytes) {
    await appendFile.call(this, (bytes as Buffer).subarray(0, -20))
    process.stdout.write('torn\n')
    await new Promise(() => undefined)
  }
  void write('three')
} else {
  if (mode === 'many') for (let batch = 0; batch < 20; batch++) await write('many')
  process.stdout.write('written\n')
}
setInterval(() => undefined, 1000)
