// How `doctor` checks the embeddings endpoint and a real SPARQL store.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  type EmbeddingsServerDouble,
  startEmbeddingsServer,
} from '../../ontology/support/embeddings-server.ts'
import { brokerSource } from '../../support/brokers.ts'
import { graphmill } from '../../support/command.ts'
import { type FusekiServer, startFuseki } from '../../support/fuseki-server.ts'
import { freePorts } from '../../support/ports.ts'

async function doctor(...args: readonly string[]) {
  const { code, stdout, stderr } = await graphmill(['doctor', '--json', ...args])
  const rows = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<'check' | 'state' | 'detail' | 'fix', string>)
  return { code, said: stdout + stderr, found: new Map(rows.map((row) => [row.check, row])) }
}

test('does not mention embeddings and stores that are not configured', async () => {
  const { found } = await doctor()
  expect([...found.keys()]).toEqual(['files', 'model', 'broker', 'schema registry'])
})

test('skips the model if none is configured, and fails for a named model without a server', async () => {
  expect((await doctor()).found.get('model')).toMatchObject({ state: 'skipped' })
  const { code, found } = await doctor('--model', 'llama3.2')
  expect(found.get('model')).toMatchObject({
    state: 'failed',
    detail: expect.stringMatching(/llama3\.2.*\[llm_not_configured\]/),
    fix: expect.stringContaining('OPENAI_BASE_URL'),
  })
  expect(code).toBe(1)
})

describe('the embeddings endpoint', () => {
  let server: EmbeddingsServerDouble
  beforeAll(async () => {
    server = await startEmbeddingsServer()
  })
  afterEach(() => {
    server.answer = undefined
  })
  afterAll(() => server.close())

  const configured = () => ['--embeddings', `${server.url}/v1`, '--embeddings-model', 'words']

  test('is asked for one word', async () => {
    const before = server.requests.length
    const { code, found } = await doctor(...configured(), '--embeddings-key', 'sk-embed')
    expect(found.get('embeddings')).toMatchObject({
      state: 'ok',
      detail: expect.stringMatching(/^words answers .* vectors of 64 numbers$/),
    })
    expect(code).toBe(0)
    expect(server.requests.slice(before)).toEqual([['mill']])
    expect(server.authorization).toBe('Bearer sk-embed')
  })

  test.each([
    [401, /answered 401: not you/, /Set --embeddings-key/],
    [404, /answered 404: not you/, /--embeddings-model names a model.*path in --embeddings/],
    [500, /answered 500: not you/, /Check that the embeddings server is up/],
  ])('that answers %i is reported with what to do', async (status, detail, fix) => {
    server.answer = { status, body: 'not you, sk-embed' }
    const { code, found, said } = await doctor(...configured(), '--embeddings-key', 'sk-embed')
    expect(found.get('embeddings')).toMatchObject({
      state: 'failed',
      detail: expect.stringMatching(detail),
      fix: expect.stringMatching(fix),
    })
    expect(code).toBe(1)
    expect(said).not.toContain('sk-embed')
  })

  test('that refuses the connection, has no model or no address is reported with a fix', async () => {
    const [port] = await freePorts(1)
    const away = await doctor('--embeddings', `http://127.0.0.1:${port}`, '--embeddings-model', 'words')
    expect(away.found.get('embeddings')).toMatchObject({
      state: 'failed',
      detail: expect.stringMatching(/does not answer.*ECONNREFUSED.*\[embeddings_unavailable\]/),
      fix: expect.stringMatching(/is up and that --embeddings names it/),
    })
    const unnamed = await doctor('--embeddings', server.url)
    expect(unnamed.found.get('embeddings')).toMatchObject({
      state: 'failed',
      detail: expect.stringContaining('embeddings-model must name'),
    })
    expect(unnamed.code).toBe(1)
  })
})

const source = await brokerSource('doctor on Fuseki', ['jars'])

describe.skipIf(source === undefined)('the store', { timeout: 60_000 }, () => {
  let own: FusekiServer
  let readOnly: FusekiServer
  beforeAll(async () => {
    const user = { name: 'mill', password: 'pass-of-mill' }
    ;[own, readOnly] = await Promise.all([startFuseki({ user }), startFuseki({ readOnly: true })])
  }, 180_000)
  afterAll(() => Promise.all([own?.stop(), readOnly?.stop()]))

  const as = (login: string, path = '') => own.dataset.replace('//', `//${login}@`) + path
  const mine = 'mill:pass-of-mill'

  test('that accepts updates is not changed', async () => {
    for (const place of [
      ['--store', as(mine, '/update')],
      ['--store', as(mine, '/data'), '--store-protocol', 'graph-store'],
    ]) {
      const { code, found, said } = await doctor(...place)
      expect(found.get('store')).toMatchObject({
        state: 'ok',
        detail: `${new URL(own.dataset).host} accepts updates`,
      })
      expect(code).toBe(0)
      expect(said).not.toContain('pass-of-mill')
    }
    expect((await own.dump()).trim()).toBe('')
  })

  test.each([
    ['with another key', () => [as('mill:wrong-pass', '/update')], /401; the credentials/, /--store-token/],
    ['at a wrong address', () => [as(mine, '/updates')], /404; there is nothing/, /endpoint for updates/],
    ['where only queries go', () => [as(mine, '/query')], /415.*takes no updates/, /endpoint for updates/],
    [
      'by another protocol than it takes',
      () => [as(mine, '/update'), '--store-protocol', 'graph-store'],
      /415.*no updates in this protocol/,
      /--store-protocol/,
    ],
    [
      'that is read-only',
      () => [`${readOnly.dataset}/data`, '--store-protocol', 'graph-store'],
      /405: .*Read-only; .*takes no updates/,
      /read-only/,
    ],
  ])('%s is reported with what to do', async (_, place, detail, fix) => {
    const { code, found, said } = await doctor('--store', ...place())
    expect(found.get('store')).toMatchObject({
      state: 'failed',
      detail: expect.stringMatching(detail),
      fix: expect.stringMatching(fix),
    })
    expect(found.get('store')!.detail).toContain('[store_refused]')
    expect(code).toBe(1)
    expect(said).not.toMatch(/(wrong|pass)-/)
  })

  test('that refuses the connection or has no address is reported with a fix', async () => {
    const [port] = await freePorts(1)
    const away = await doctor('--store', `http://127.0.0.1:${port}/ds/update`)
    expect(away.found.get('store')).toMatchObject({
      state: 'failed',
      detail: expect.stringMatching(/does not answer.*ECONNREFUSED.*\[store_failed\]/),
      fix: expect.stringContaining('store in --store'),
    })
    const none = await doctor('--store', 'fuseki.example.org')
    expect(none.found.get('store')).toMatchObject({
      state: 'failed',
      detail: expect.stringContaining('must begin with http'),
    })
    expect(none.code).toBe(1)
  })
})
