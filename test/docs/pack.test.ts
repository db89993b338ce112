import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

const run = promisify(execFile)
let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-pack-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A Node on the path that is too old for graphmill. */
async function oldNode(): Promise<string | undefined> {
  for (const place of (process.env['PATH'] ?? '').split(delimiter)) {
    const version = await run(join(place, 'node'), ['--version']).catch(() => undefined)
    const [major = 99, minor = 0] = version?.stdout.slice(1).split('.').map(Number) ?? []
    if (major < 22 || (major === 22 && minor < 18)) return join(place, 'node')
  }
  return undefined
}

/** Whether a parent folder has the package `node`, which would replace an old Node. */
function packageNodeInReach(path: string): boolean {
  try {
    createRequire(join(path, 'x.js')).resolve('node/package.json')
    return true
  } catch {
    return false
  }
}

/**
 * A project that depends only on the packed program, locked to the versions that graphmill was tested with, so that the newest
 * versions of a registry do not matter.
 */
function writeProject(folder: string, tarball: string): void {
  const read = (name: string) => JSON.parse(readFileSync(resolve(import.meta.dirname, '../..', name), 'utf8'))
  const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta, bin, version } =
    read('package.json')
  const locked = Object.entries<{ dev?: boolean }>(read('package-lock.json').packages)
  const project = { name: 'somebody', private: true, dependencies: { graphmill: `file:${tarball}` } }
  const packages = {
    '': project,
    'node_modules/graphmill': {
      ...{ version, resolved: `file:${tarball}`, bin },
      ...{ dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta },
    },
    ...Object.fromEntries(locked.filter(([path, { dev }]) => path !== '' && !dev)),
  }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(project))
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify({ lockfileVersion: 3, packages }))
}

/** What a strict project says of the declarations of the package, which it checks too. */
async function compileStrictly(folder: string): Promise<void> {
  const tsc = resolve('node_modules/.bin/tsc')
  const strict = {
    strict: true,
    skipLibCheck: false,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
  }
  const how = { target: 'es2024', noEmit: true, types: ['node'] }
  for (const [module, moduleResolution] of [
    ['node16', 'node16'],
    ['esnext', 'bundler'],
  ]) {
    const compilerOptions = { ...strict, ...how, module, moduleResolution }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['app.mts'] }))
    writeFileSync(join(folder, 'app.mts'), program)
    await run(tsc, ['-p', folder]).catch(({ stdout }: { stdout: string }) => {
      throw new Error(`${moduleResolution}: ${stdout}`)
    })
    writeFileSync(join(folder, 'app.mts'), program.replace("'definitions'", "'definition'"))
    await expect(run(tsc, ['-p', folder])).rejects.toMatchObject({
      stdout: expect.stringContaining('TS2367'),
    })
  }
  writeFileSync(join(folder, 'app.mts'), program)
  const { stdout } = await run(process.execPath, [join(folder, 'app.mts')], { cwd: folder, env })
  expect(stdout).toBe('mill: a machine that grinds grain\ndone\n')
}

/** A program of a user. */
const program = `import * as everything from 'graphmill'
import { createOffline, extract, type ExtractionSummary, ExtractionIncomplete, type Triple } from 'graphmill'

const triples: Triple[] = []
let summary: ExtractionSummary | undefined
try {
  const text = 'A mill is a machine that grinds grain.'
  for await (const event of extract({ text }, { llm: createOffline() })) {
    if (event.type === 'fact' && event.kind === 'definitions') console.log(\`\${event.fact.entity}: \${event.fact.definition}\`)
    if (event.type === 'triples') triples.push(...event.triples)
    if (event.type === 'end') summary = event.summary
  }
} catch (error) {
  if (error instanceof ExtractionIncomplete) console.error(error.summary.failed.map(({ code }) => code))
  throw error
}
console.log(summary?.outcome)
if (triples.length === 0 || typeof everything.extract !== 'function') process.exit(1)
`

/** The environment of this test with its own Node first on the path. */
const env = { ...process.env, PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH']}` }

test('the packed program runs after an installation from its package alone', async (context) => {
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], { env })
  const [tarball] = readdirSync(folder)
  writeProject(folder, tarball!)
  writeFileSync(join(folder, 'mill.txt'), 'A mill is a machine that grinds grain.')
  await run('npm', ['ci', '--no-audit', '--no-fund', '--omit=optional'], { cwd: folder, env })
  const { stdout, stderr } = await run(join(folder, 'node_modules/.bin/graphmill'), ['extract', 'mill.txt'], {
    cwd: folder,
    env,
  })
  expect(stdout).toContain('a machine that grinds grain')
  expect(stderr).toMatch(/chunks +1/)
  const library = `import { defineProcessor, parseItems } from 'graphmill'
    console.log(typeof defineProcessor)
    for await (const { type, value } of parseItems('So: {"E": "a"}', { required: ['e'] })) console.log(type, value?.e)`
  const ran = await run(process.execPath, ['--input-type=module', '-e', library], { cwd: folder, env })
  expect(ran.stdout.trim().split('\n')).toEqual(['function', 'item a', 'end undefined'])

  expect(readdirSync(join(folder, 'node_modules/graphmill/docs'))).toEqual(
    expect.arrayContaining(['README.md', 'architecture.md', 'library.md']),
  )
  const files = readdirSync(join(folder, 'node_modules/graphmill'), { recursive: true, encoding: 'utf8' })
  expect(files.filter((name) => name.endsWith('.map'))).toEqual([])
  expect(files).toContain(join('dist', 'api.md'))
  await compileStrictly(folder)

  const old = packageNodeInReach(folder) ? undefined : await oldNode()
  if (old === undefined)
    return context.annotate(
      'no Node below 22.18 on the path, or a newer one above this folder: what an old one says was not looked at',
    )
  const refused = await run(old, [join(folder, 'node_modules/graphmill/bin/graphmill.js'), '--help'], {
    cwd: folder,
  }).catch((error) => error)
  expect(refused.stderr).toMatch(/graphmill needs Node 22\.18 or newer/)
  expect(refused.code).toBe(1)
}, 300_000)
