import { resolve } from 'node:path'

/** What users start: with the sizes of V8 and glibc that it sets. Sources need a build before. */
export const program = resolve(import.meta.dirname, '../bin/graphmill.js')
