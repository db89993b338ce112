// `npm run bench [-- NAME…]`: a table and bench/results.json. Bounds are reported, never asserted: a machine may be busy.
import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { keepsBound, type Row } from './row.ts'

const benches: Readonly<Record<string, () => Promise<Row[]>>> = {
  items: async () => (await import('./items.ts')).itemsBench(),
  engine: async () => (await import('./engine.ts')).engineBench(),
  envelope: async () => (await import('./envelope.ts')).envelopeBench(),
  flow: async () => (await import('./flow.ts')).flowBench(),
  emit: async () => (await import('./emit.ts')).emitBench(),
  support: async () => (await import('./support.ts')).supportBench(),
  ledger: async () => (await import('./ledger.ts')).ledgerBench(),
  ontology: async () => (await import('./ontology.ts')).ontologyBench(),
  'kafka-model': async () => (await import('./kafka.ts')).slowModelBench(),
  'kafka-flow': async () => (await import('./kafka.ts')).instantModelBench(),
  trickle: async () => (await import('./kafka.ts')).trickleBench(),
  'kafka-load': async () => (await import('./kafka.ts')).kafkaLoadBench(),
  'bulk-load': async () => (await import('./bulk-load.ts')).bulkLoadBench(),
  'kafka-large': async () => (await import('./large.ts')).largeBench(),
  backlog: async () => (await import('./backlog.ts')).backlogBench(),
  'kafka-relay': async () => (await import('./kafka.ts')).kafkaRelayBench(),
  documents: async () => (await import('./documents.ts')).documentsBench(),
  scaling: async () => (await import('./scaling.ts')).scalingBench(),
  sizing: async () => (await import('./scaling.ts')).sizingBench(),
  takeover: async () => (await import('./takeover.ts')).takeoverBench(),
  refusals: async () => (await import('./refusals.ts')).refusalsBench(),
  memory: async () => (await import('./memory.ts')).memoryBench(),
  'cli-start': async () => (await import('./cli-start.ts')).cliStartBench(),
  'pulsar-relay': async () => (await import('./pulsar.ts')).pulsarBench(),
  'pulsar-trickle': async () => (await import('./pulsar.ts')).pulsarTrickleBench(),
  'pulsar-native-relay': async () => (await import('./pulsar.ts')).pulsarNativeBench(),
}

const chosen = process.argv.slice(2)
for (const name of chosen)
  if (!Object.hasOwn(benches, name)) {
    console.error(`There is no bench ${name}. There are: ${Object.keys(benches).join(', ')}.`)
    process.exit(2)
  }

const rows: Row[] = []
for (const [name, bench] of Object.entries(benches)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue
  for (const row of await bench()) {
    rows.push(row)
    const value = row.value >= 100 ? row.value.toFixed(0) : row.value.toPrecision(3)
    const bound = row.bound ? `${row.bound} ${keepsBound(row) ? 'kept' : 'MISSED'}` : ''
    console.log(
      `${row.name.padEnd(64)} ${value.padStart(10)} ${row.unit.padEnd(16)} ${bound.padEnd(16)} ${row.note ?? ''}`.trimEnd(),
    )
  }
}
const machine = {
  node: process.version,
  cores: availableParallelism(),
  cpu: cpus()[0]?.model,
  memory: totalmem(),
}
writeFileSync(new URL('./results.json', import.meta.url), `${JSON.stringify({ machine, rows }, null, 2)}\n`)
