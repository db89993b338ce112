// A process that withdraws version 1 of the document `d` from a folder of files, and stops before a step of the replacement (`sync`,
// `rename`), or after it, before the rest (`rm`). It says so, and lives until it is killed. Parameters: the folder, the step, the kept key.
import { createRequire, syncBuiltinESMExports } from 'node:module'

const [folder, step, kept] = process.argv.slice(2)
const fs = createRequire(import.meta.url)('node:fs/promises') as Record<
  string,
  (...all: unknown[]) => unknown
>
const stop = async () => {
  process.stdout.write('stopped\n')
  await new Promise(() => undefined)
}
if (step === 'sync') {
  const handle = (await fs['open']!(import.meta.filename)) as object
  Object.getPrototypeOf(handle).sync = stop
} else {
  const before = fs[step!]!
  fs[step!] = (...given) => (String(given[0]).endsWith('.tmp') ? stop() : before(...given))
}
syncBuiltinESMExports()

const { openFolderStore } = await import('../../src/rdf/folder-store.ts')
setInterval(() => undefined, 1000)
await openFolderStore(folder!, { format: 'nquads' }).support!.withdraw(
  { documentId: 'd', from: 0, upTo: 1, kept: new Set([kept!]) },
  { workspace: 'w', flow: 'f' },
)
