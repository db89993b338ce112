// @ts-check
// Compiles src and processors to dist, and copies the files that are read at run time to the same relative paths,
// so that `new URL('../../schemas/', import.meta.url)` works both in src and in dist/src.
// Processes that run from dist keep the previous build, and so does dist if the sources do not compile.
// Plain JavaScript, because it has to run on whatever Node npm found.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'
import { parse } from 'yaml'
import { apiPage, exportsOf } from './api.js'
import { sbomOf } from './sbom.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const [made, old] = [`${root}/.cache/dist-${process.pid}`, `${root}/.cache/dist-${process.pid}-old`]
try {
  const project = ['-p', 'tsconfig.build.json', '--outDir', made]
  execFileSync(`${root}/node_modules/.bin/tsc`, project, { cwd: root, stdio: 'inherit' })
  cpSync(`${root}/schemas`, `${made}/schemas`, { recursive: true })
  // As JSON, so that a processor does not need the YAML parser for them.
  mkdirSync(`${made}/prompts`)
  for (const name of readdirSync(`${root}/prompts`)) {
    const prompt = parse(readFileSync(`${root}/prompts/${name}`, 'utf8'))
    writeFileSync(`${made}/prompts/${basename(name, '.yaml')}.json`, JSON.stringify(prompt, null, 2))
  }
  // The script of the HTML page, with the packages that draw.
  await build({
    input: `${root}/page/main.ts`,
    output: { file: `${made}/page/main.js`, format: 'iife', minify: true },
    logLevel: 'warn',
  })
  for (const name of ['page.html', 'page.css']) cpSync(`${root}/page/${name}`, `${made}/page/${name}`)
  writeFileSync(`${made}/sbom.cdx.json`, `${JSON.stringify(sbomOf(root), null, 2)}\n`)
  const exported = exportsOf(readFileSync(`${root}/src/index.ts`, 'utf8'), `${made}/src`)
  writeFileSync(`${made}/api.md`, apiPage(exported))
  try {
    renameSync(`${root}/dist`, old)
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ENOENT') throw error // there was none before
  }
  renameSync(made, `${root}/dist`)
} finally {
  for (const folder of [made, old]) rmSync(folder, { recursive: true, force: true })
}
