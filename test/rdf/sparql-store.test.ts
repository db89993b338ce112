// The store on a real Fuseki, over both protocols; what only a store that misbehaves shows, on a server of our own.
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import { definitionTriples, relationshipTriples } from '../../src/rdf/facts.ts'
import { entityIri } from '../../src/rdf/iri.ts'
import { subgraphProvenance } from '../../src/rdf/provenance.ts'
import { reify } from '../../src/rdf/reify.ts'
import { openSparqlStore } from '../../src/rdf/sparql-store.ts'
import { storeProtocols } from '../../src/rdf/sparql-text.ts'
import { iri, literal, type Triple, triple } from '../../src/rdf/term.ts'
import { brokerSource } from '../support/brokers.ts'
import { type FusekiServer, startFuseki } from '../support/fuseki-server.ts'
import { hostileTriples, keys, readKeys, safe } from './quads.ts'

const scope = { workspace: 'default', flow: 'default' }
const paths = { update: '/update', 'graph-store': '/data' } as const

const ada = definitionTriples({
  entity: 'Ada',
  definition: 'A "mathematician"\nof London \\u0022 } ; CLEAR ALL #',
})
const knew = relationshipTriples({ subject: 'Ada', predicate: 'knew', object: 'Café 1', objectEntity: true })
const extraction = { chunkId: 'd/0/0', unit: 'u', run: { id: 'r', startedAt: 0 }, version: '1' }
const found = [
  ...ada.triples,
  ...knew.triples,
  ...subgraphProvenance(extraction, [...ada.stated, ...knew.stated]),
]

const source = await brokerSource('Fuseki', ['jars'])

describe.skipIf(source === undefined)('on Fuseki', () => {
  let fuseki: FusekiServer
  beforeAll(async () => {
    fuseki = await startFuseki()
  }, 180_000)
  afterAll(() => fuseki?.stop())
  afterEach(() => fuseki.clear())

  const kept = async () => readKeys(await fuseki.dump(), 'N-Quads')

  describe.each(storeProtocols)('%s', (protocol) => {
    const open = () => openSparqlStore({ url: fuseki.dataset + paths[protocol], protocol })

    test('keeps facts in the default graph and provenance in its own', async () => {
      await open().write(found, scope)
      expect(await kept()).toEqual(keys(reify(found)))
    })

    test('holds no more when the same triples are written again', async () => {
      const store = open()
      await store.write(found, scope)
      await store.write(found.toReversed(), scope)
      await open().write(found, scope)
      expect(await kept()).toEqual(keys(reify(found)))
    })

    test('keeps every text and IRI unchanged, whatever characters it has', async () => {
      // A graph of the Graph Store Protocol stands in the address, and Fuseki is particular about what stands there.
      const graphs =
        protocol === 'update' ? (g: string | null) => g : (g: string | null) => g && 'urn:graph:source'
      const hostile = fc
        .sample(hostileTriples, 200)
        .flat()
        .filter((each) => isNamed(each) && !JSON.stringify(each).match(/[/:]\.{1,2}["/?#]/))
        .map((each) => ({ ...each, g: graphs(each.g) }))
      const escapes = ['\\u0041', '\\\\u0022', '\\\u2028', '\\U00000041', '"\\', '\\u005cu0022'].map(
        (text, index) => triple(iri(`urn:s:${index}`), iri('urn:p'), literal(text)),
      )
      const triples = [...hostile, ...escapes]
      await open().write(triples, scope)
      expect(await kept()).toEqual(keys(reify(triples).map(safe)))
    })

    test('distinguishes names that differ only by dots', async () => {
      const names = ['', '.', '..', 'a/../b', 'b', 'a/./b', 'a/b', 'a.b', '...'].map((name) =>
        triple(iri(entityIri(name)), iri('urn:p'), literal('x')),
      )
      await open().write(names, scope)
      expect((await kept()).length).toBe(names.length)
    })

    test('takes more than fits one request', async () => {
      const many = Array.from({ length: 12_000 }, (_, index) =>
        triple(iri(`urn:s:${index}`), iri('urn:p'), literal(`number ${index}`), index % 2 ? null : 'urn:g'),
      )
      await open().write(many, scope)
      expect((await kept()).length).toBe(many.length)
    }, 30_000)

    test('refuses triples that RDF cannot express, and stores none of their batch', async () => {
      const broken = triple(iri('relative'), iri('urn:p'), literal('x'))
      await expect(open().write([...found, broken], scope)).rejects.toMatchObject({ code: 'message_invalid' })
      expect(await kept()).toEqual([])
    })

    test('says that the operator must act when the endpoint is a different one', async () => {
      const store = openSparqlStore({ url: `${fuseki.dataset}/query`, protocol })
      const error = await store.write(found, scope).catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ code: 'store_refused', retry: 'operator' })
    })
  })

  test('is unavailable while the store is down, and writes when it is up again', async () => {
    const store = openSparqlStore({ url: `${fuseki.dataset}/update` })
    await store.write(found, scope)
    await fuseki.kill()
    await expect(store.write(found, scope)).rejects.toMatchObject({ code: 'store_failed', retry: 'later' })
    await fuseki.restart()
    await store.write(found, scope)
    expect(await kept()).toEqual(keys(reify(found)))
  }, 60_000)
})

describe.skipIf(source === undefined)('on Fuseki with a password', () => {
  let fuseki: FusekiServer
  beforeAll(async () => {
    fuseki = await startFuseki({ user: { name: 'mill', password: 'p@ss:word' } })
  }, 180_000)
  afterAll(() => fuseki?.stop())

  test('logs in with the user and password of the address', async () => {
    const url = fuseki.dataset.replace('//', `//mill:${encodeURIComponent('p@ss:word')}@`)
    await openSparqlStore({ url: `${url}/update` }).write(found, scope)
    expect(readKeys(await fuseki.dump(), 'N-Quads')).toEqual(keys(reify(found)))
  })

  test('says that the operator must act without them, and does not show a password', async () => {
    const url = fuseki.dataset.replace('//', '//mill:wrong-one@')
    const error = await openSparqlStore({ url: `${url}/update` })
      .write(found, scope)
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'store_refused', retry: 'operator' })
    expect(String(error)).not.toContain('wrong-one')
  })
})

describe('on a server', () => {
  let server: Server | undefined
  afterEach(() => {
    server?.closeAllConnections()
    server?.close()
  })

  interface Answer {
    readonly status: number
    readonly headers?: Record<string, string>
  }
  const seen: { request: IncomingMessage; body: string }[] = []

  /** Answers 204 unless `answer` says otherwise for a body; undefined: never. */
  async function serve(answer: (body: string) => Answer | undefined): Promise<string> {
    seen.length = 0
    server = createServer(async (request, response) => {
      let body = ''
      for await (const piece of request) body += piece
      seen.push({ request, body })
      const said = answer(body)
      if (said) response.writeHead(said.status, said.headers).end('words of the server')
    })
    await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/ds/update?timeout=5`
  }

  const fine = { status: 204 }
  const oneTriple = [triple(iri('urn:s'), iri('urn:p'), literal('x'))]
  const failing = async (store: ReturnType<typeof openSparqlStore>, signal?: AbortSignal) =>
    (await store.write(oneTriple, scope, signal).catch((thrown: unknown) => thrown)) as GraphmillError

  test('sends a token as a bearer, and keeps the query of the address', async () => {
    const url = await serve(() => fine)
    await openSparqlStore({ url, token: 'secret' }).write(oneTriple, scope)
    expect(seen.at(-1)!.request.headers).toMatchObject({ authorization: 'Bearer secret' })
    expect(seen.at(-1)!.request.url).toBe('/ds/update?timeout=5')
    await openSparqlStore({ url, protocol: 'graph-store' }).write(oneTriple, scope)
    expect(seen.at(-1)!.request.url).toBe('/ds/update?timeout=5&default')
  })

  test.each([500, 502, 503, 429, 408])('%i is to be tried again later', async (status) => {
    const url = await serve(() => ({ status, headers: { 'retry-after': '7' } }))
    const error = await failing(openSparqlStore({ url }))
    expect(error).toMatchObject({ code: 'store_failed', retry: 'later', retryAfterMs: 7000 })
    expect(error.message).toContain(`answered ${status}: words of the server`)
  })

  test.each([400, 401, 403, 404, 405, 415, 302])(
    '%i to the first, empty write is for the operator',
    async (status) => {
      const url = await serve(() => ({ status, headers: { location: '/elsewhere' } }))
      expect(await failing(openSparqlStore({ url }))).toMatchObject({
        code: 'store_refused',
        retry: 'operator',
      })
      expect(seen).toHaveLength(1)
      expect(seen[0]!.body).not.toContain('urn:s')
    },
  )

  test.each([400, 413, 422])(
    '%i once the store took a write is the fault of what was sent',
    async (status) => {
      const url = await serve((body) => (body.includes('urn:s') ? { status } : fine))
      expect(await failing(openSparqlStore({ url }))).toMatchObject({
        code: 'message_invalid',
        retry: 'never',
      })
    },
  )

  test('a store that never answers is unavailable after the timeout', async () => {
    const url = await serve(() => undefined)
    expect(await failing(openSparqlStore({ url, timeoutMs: 50 }))).toMatchObject({ code: 'store_failed' })
  })

  test('a store that never answers is abandoned when the signal aborts', async () => {
    const stop = new AbortController()
    const url = await serve(() => {
      stop.abort(new GraphmillError('aborted', 'stop'))
      return undefined
    })
    expect(await failing(openSparqlStore({ url }), stop.signal)).toMatchObject({ code: 'aborted' })
  })
})

test.each(['', 'ds/update', 'ftp://host/ds', 'http://', 'http://user:50%@host/ds'])(
  'the address %j is refused',
  (url) => {
    expect(() => openSparqlStore({ url })).toThrow(expect.objectContaining({ code: 'configuration_invalid' }))
  },
)

/** Blank nodes get labels of the store's own. */
function isNamed({ s, o }: Triple): boolean {
  return s.type !== 'b' && o.type !== 'b' && (o.triple === null || isNamed(o.triple))
}
