// The README's way into a store and back, as a reader would type it, on a real Fuseki.
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerSource } from '../support/brokers.ts'
import { type FusekiServer, startFuseki } from '../support/fuseki-server.ts'

const run = promisify(execFile)
const source = await brokerSource('Fuseki', ['jars'])

describe.skipIf(source === undefined)('the README on a store', () => {
  let fuseki: FusekiServer
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'graphmill-readme-'))
    await writeFile(join(folder, 'my-notes.md'), 'Ada Lovelace was a mathematician.\n')
    fuseki = await startFuseki()
  }, 180_000)
  afterAll(async () => {
    await fuseki?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  test('loads and queries with the commands that it shows', async () => {
    const text = await readFile('README.md', 'utf8')
    const section = /^## In a store\n(.*?)^## /ms.exec(text)![1]!
    const [, load, query] = [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, code]) =>
      code!
        .replaceAll('http://127.0.0.1:3030/ds', fuseki.dataset)
        .replaceAll('--model MODEL', '--llm offline --no-cache')
        .replaceAll('bin/graphmill.js', resolve('bin/graphmill.js')),
    )
    const { PATH = '', HOME = '' } = process.env
    const env = { PATH: `${dirname(process.execPath)}${delimiter}${PATH}`, HOME }
    const bash = (code: string) => run('bash', ['-euc', code], { cwd: folder, env })
    const commands = load!.trim().split('\n')
    expect(commands).toHaveLength(3)
    for (const command of commands) {
      await fuseki.clear()
      // The last one loads the file that the second one wrote.
      await bash(command)
      if (command.includes('--out')) continue
      const { stdout } = await bash(query!)
      const [head, ...rows] = stdout.trim().split('\r\n')
      expect(head).toBe('entity,definition,chunk')
      expect(rows).toContainEqual(
        expect.stringMatching(
          /^http:\/\/trustgraph\.ai\/e\/ada-lovelace,a mathematician,urn:graphmill:document:/,
        ),
      )
    }
  }, 60_000)
})
