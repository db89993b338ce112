// Compiles src and processors to dist, and copies beside them the files that are read at run time,
// so that `new URL('../../schemas/', import.meta.url)` is right both in src and in dist/src.
import { execFileSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
rmSync(`${root}/dist`, { recursive: true, force: true })
execFileSync(`${root}/node_modules/.bin/tsc`, ['-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
for (const folder of ['schemas', 'prompts'])
  cpSync(`${root}/${folder}`, `${root}/dist/${folder}`, { recursive: true })
