// The image, built and run by a Docker daemon, and docker-compose.yml with the real Kafka. The bases are stand-ins: what is shown here is
// our files, not the official images.
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { parse } from 'yaml'
import { serverVariables } from '../../src/config/models.ts'
import { brokerSource } from '../support/brokers.ts'
import { type Docker, importKafka, importNode, startDocker } from '../support/docker.ts'
import { kafkaJars } from '../support/kafka-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { healthPath } from '../support/pulsar-server.ts'
import { startTcpRelay } from '../support/tcp-relay.ts'

const composed = parse(readFileSync('docker-compose.yml', 'utf8'), { merge: true })
const example = '/app/examples/the-first-railways.md'

test('compose passes every variable of a model server on, and chooses no provider against them', () => {
  for (const name of ['graphmill', 'graphmill-pulsar']) {
    const { environment } = composed.services[name]
    for (const { variable } of Object.values(serverVariables)) expect(environment[variable]).toBe(null)
    // biome-ignore lint/suspicious/noTemplateCurlyInString: as in the file
    expect(environment.GRAPHMILL_LLM).toBe('${GRAPHMILL_LLM:-auto}')
  }
})

test('no health check starts a JVM or a Node', () => {
  const checks = Object.entries<{ healthcheck?: { test: string[] } }>(composed.services).map(
    ([name, { healthcheck }]) => [name, healthcheck?.test.slice(0, 2).join(' ')],
  )
  expect(checks).toEqual([
    ['kafka', 'CMD bash'],
    ['graphmill', undefined],
    ['pulsar', 'CMD curl'],
    ['graphmill-pulsar', undefined],
  ])
  // What every test with a real Pulsar waits for.
  expect(composed.services.pulsar.healthcheck.test.at(-1)).toBe(`http://127.0.0.1:8080/admin/v2${healthPath}`)
  expect(readFileSync('Dockerfile', 'utf8')).toMatch(/^HEALTHCHECK .* CMD \["bash", /m)
})

const what = 'the image and docker-compose.yml'
const present = (await brokerSource(what, ['jars'])) !== undefined

describe.skipIf(!present)('in a container', { timeout: 600_000 }, () => {
  let docker: Docker | undefined
  const run: Docker['run'] = (...parameters) => docker!.run(...parameters)
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-compose-'))

  beforeAll(async () => {
    docker = await startDocker(what)
    if (!docker) return
    await importNode(docker)
    const building = run(
      'build',
      '--network',
      'host',
      '--build-arg',
      'REVISION=abc',
      '--tag',
      'graphmill',
      '.',
    )
    await Promise.all([building, importKafka(docker, await kafkaJars())])
    // Without ports of this machine, which may be in use.
    for (const service of Object.values<{ ports?: unknown }>(composed.services)) delete service.ports
    writeFileSync(join(folder, 'compose.json'), JSON.stringify(composed))
  }, 900_000)
  // Where no daemon could start, nothing is shown, which is not the same as passed.
  beforeEach(({ skip }) => skip(!docker))
  afterAll(async () => {
    await docker?.stop()
    rmSync(folder, { recursive: true, force: true })
  }, 300_000)

  const compose = async (variables: Record<string, string>, ...parameters: readonly string[]) => {
    const project = [
      '--file',
      join(folder, 'compose.json'),
      '--project-name',
      'mill',
      '--project-directory',
      '.',
    ]
    const env = { ...withoutModels(), ...docker!.environment, ...variables }
    const { stdout } = await promisify(execFile)('docker-compose', [...project, ...parameters], {
      env,
      timeout: 300_000,
    })
    return stdout
  }
  const inspect = async (name: string) => JSON.parse(await run('inspect', name))[0]

  test('it is the production install and the build, at most 70 MB above its base, with labels, a health check and a user', async () => {
    const { version, license } = JSON.parse(readFileSync('package.json', 'utf8'))
    const { Config } = await inspect('graphmill')
    expect(Config).toMatchObject({
      User: '1000:1000',
      Healthcheck: { Test: ['CMD', 'bash', '-c', expect.anything()] },
    })
    const label = (name: string) => Config.Labels[`org.opencontainers.image.${name}`]
    expect(['title', 'version', 'licenses', 'revision'].map(label)).toEqual([
      'graphmill',
      version,
      license,
      'abc',
    ])
    const sizes = await run('history', '--human=false', '--format', '{{.Size}} {{.Comment}}', 'graphmill')
    const ours = sizes.split('\n').filter((line) => !line.includes('Imported'))
    const bytes = ours.reduce((sum, line) => sum + Number.parseInt(line || '0', 10), 0)
    expect(bytes).toBeGreaterThan(10e6)
    expect(bytes).toBeLessThanOrEqual(70e6)
    const installed = await inImage('cat', '/app/node_modules/.package-lock.json')
    const packages = Object.values<{ dev?: boolean }>(JSON.parse(installed).packages)
    expect(packages.length).toBeGreaterThan(20)
    expect(packages.filter(({ dev }) => dev)).toEqual([])
    expect((await inImage('ls', '/app')).trim().split('\n')).toEqual([
      'LICENSE',
      'bin',
      'dist',
      'examples',
      'node_modules',
      'package.json',
    ])
  })

  const hardened = [
    '--read-only',
    '--cap-drop',
    'ALL',
    '--security-opt',
    'no-new-privileges',
    '--memory',
    '512m',
  ]
  const inImage = (program: string, ...parameters: readonly string[]) =>
    run('run', '--rm', '--network', 'none', '--entrypoint', program, 'graphmill', ...parameters)

  test('it extracts with a read-only root, and without capabilities, new privileges or a network', async () => {
    const quads = await run(
      'run',
      '--rm',
      '--network',
      'none',
      ...hardened,
      'graphmill',
      'extract',
      '--llm',
      'offline',
      example,
    )
    expect(quads.split('\n').filter((line) => line.endsWith(' .')).length).toBeGreaterThan(50)
  })

  test('it says that a loopback address is the container itself', async () => {
    const server = ['--env', 'OPENAI_BASE_URL=http://127.0.0.1:9/v1', '--env', 'GRAPHMILL_MODEL=m']
    const said = await run('run', '--rm', '--network', 'none', ...server, 'graphmill', 'doctor').catch(
      ({ stdout }) => stdout,
    )
    expect(said).toContain('that address is the container itself')
  })

  test('compose up becomes healthy with Kafka and takes a load to triples; SIGTERM ends it in time', async () => {
    await compose({}, 'up', '--detach', '--no-build')
    await vi.waitFor(
      async () => expect((await inspect('mill_graphmill_1')).State.Health.Status).toBe('healthy'),
      { timeout: 180_000, interval: 500 },
    )
    const { HostConfig } = await inspect('mill_graphmill_1')
    expect(HostConfig).toMatchObject({
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges:true'],
    })
    expect(await run('logs', 'mill_graphmill_1')).not.toContain('"level":50')
    const { documentId } = JSON.parse(await compose({}, 'run', '--rm', 'graphmill', 'load', example))
    await vi.waitFor(
      async () => {
        const stored = await run('exec', 'mill_graphmill_1', 'bash', '-c', 'cat /data/triples/*.nq')
        expect(stored).toContain(documentId)
      },
      { timeout: 120_000, interval: 500 },
    )
    const uids = (await run('top', 'mill_graphmill_1', '-o', 'pid,uid')).trim().split('\n').slice(1)
    expect(new Set(uids.map((line) => line.trim().split(/\s+/)[1]))).toEqual(new Set(['1000']))
    // A model server on this machine, by the address that the documentation names.
    await using llm = await startLlmServer()
    const relay = await startTcpRelay(llm.port, undefined, docker!.gateway)
    const OPENAI_BASE_URL = `http://host.docker.internal:${relay.port}/v1`
    await compose(
      { OPENAI_BASE_URL },
      ...['run', '--rm', '--no-deps', 'graphmill', 'extract', example],
    ).finally(() => relay.stop())
    expect(llm.counts.completed).toBeGreaterThan(0)
    const refused = compose({ GRAPHMILL_MODEL: 'm' }, 'run', '--rm', '--no-deps', 'graphmill', 'run', '--all')
    await expect(refused).rejects.toThrow('The model m is named, but no server is configured')
    const { StopTimeout } = (await inspect('mill_graphmill_1')).Config
    const before = performance.now()
    await compose({}, 'stop', 'graphmill')
    // The container's own grace period, which is longer than what the process may take; beyond it, the code would be 137.
    expect(performance.now() - before).toBeLessThan((StopTimeout ?? 150) * 1000)
    expect((await inspect('mill_graphmill_1')).State.ExitCode).toBe(0)
    await compose({}, 'down', '--volumes')
  })
})

/** The environment without variables that name a model or its server. */
function withoutModels(): NodeJS.ProcessEnv {
  const names = [
    ...Object.values(serverVariables).map(({ variable }) => variable),
    'GRAPHMILL_LLM',
    'GRAPHMILL_MODEL',
  ]
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !names.includes(name)))
}
