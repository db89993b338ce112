// What `npm ci` of a checkout prints: nothing but how much it has installed, on any Node.
import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

const run = promisify(execFile)
let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-install-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const { PATH = '' } = process.env

test('npm warns of nothing, on a Node that is too old for the packages either', async () => {
  copyFileSync('.npmrc', join(folder, '.npmrc'))
  for (const name of ['package.json', 'package-lock.json']) {
    const content = readFileSync(name, 'utf8').replaceAll(/"node": ">[^"]*"/g, '"node": ">=999"')
    writeFileSync(join(folder, name), content)
  }
  const env = { PATH, HOME: folder }
  const install = ['ci', '--dry-run', '--offline', '--no-audit']
  const { stdout, stderr } = await run('npm', install, { cwd: folder, env })
  expect(stderr).toBe('')
  expect(stdout.split('\n').filter((line) => !/^(add .*|added \d+ packages in .*|)$/.test(line))).toEqual([])
  // They would be there.
  const loud = await run('npm', [...install, '--loglevel=warn'], { cwd: folder, env })
  expect(loud.stderr).toContain('EBADENGINE')
})

test('every package with an install script is allowed to run it, or denied', () => {
  const { allowScripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { allowScripts: object }
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
    packages: Record<string, { hasInstallScript?: true; os?: string[] }>
  }
  const names = Object.entries(packages)
    .filter(([, { hasInstallScript, os = ['linux'] }]) => hasInstallScript && os.includes('linux'))
    .map(([path]) => path.replace(/.*node_modules\//, ''))
  expect(Object.keys(allowScripts).sort()).toEqual([...new Set(names)].sort())
})

test('an old Node without the one of node_modules, whose script did not run, is an error that says how to get it', async () => {
  for (const name of ['bin', 'node_modules/node']) mkdirSync(join(folder, name), { recursive: true })
  copyFileSync('bin/graphmill.js', join(folder, 'bin/graphmill.js'))
  writeFileSync(join(folder, 'node_modules/node/package.json'), '{"name":"node","version":"24.0.0"}')
  const old = 'Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.1.0"}})'
  const parameters = ['--import', `data:text/javascript,${old}`, join(folder, 'bin/graphmill.js')]
  const { GRAPHMILL_NODE_TRIED: _, ...env } = process.env
  await expect(run(process.execPath, parameters, { env })).rejects.toMatchObject({
    code: 1,
    stderr:
      'graphmill needs Node 22.18 or newer; this is 20.1.0. Run `npm rebuild node` to install one in node_modules.\n',
  })
})
