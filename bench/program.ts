import { resolve } from 'node:path'

/**
 * What users start: with the sizes of V8 and glibc that it sets. Sources need a build before. `BENCH_PROGRAM` is the `bin/graphmill.js`
 * of another checkout to compare with.
 */
export const program = process.env['BENCH_PROGRAM'] ?? resolve(import.meta.dirname, '../bin/graphmill.js')
