// Loaded into a graphmill process with `--import`: counts its requests to Kafka by name. SIGUSR2 writes the counts to REQUEST_COUNTS.
import { renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { isMainThread } from 'node:worker_threads'

interface Connection {
  send(request: { readonly request: { readonly apiName: string } }): Promise<unknown>
}

const file = process.env['REQUEST_COUNTS']
if (isMainThread && file !== undefined) {
  // The kafkajs of the program: another checkout has its own.
  const require = createRequire(process.argv[1]!)
  const { prototype }: { prototype: Connection } = require('kafkajs/src/network/connection')
  const { send } = prototype
  const counts: Record<string, number> = {}
  prototype.send = function (asked) {
    const { apiName } = asked.request
    counts[apiName] = (counts[apiName] ?? 0) + 1
    return send.call(this, asked)
  }
  process.on('SIGUSR2', () => {
    writeFileSync(`${file}.new`, JSON.stringify(counts))
    renameSync(`${file}.new`, file)
  })
}
