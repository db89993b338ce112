import { readdirSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createEmbed, endpointOf } from '../../src/ontology/embeddings.ts'
import { loadOntology } from '../../src/ontology/load.ts'
import { createOntologyService, type OntologyService } from '../../src/ontology/ontology-service.ts'
import { type EmbeddingsServerDouble, startEmbeddingsServer } from './support/embeddings-server.ts'
import { file, folder, turtle } from './support/files.ts'

let server: EmbeddingsServerDouble

beforeEach(async () => {
  server = await startEmbeddingsServer()
})

afterEach(() => server.close())

const embed = (path: string, apiKey?: string) =>
  createEmbed({ url: server.url + path, model: 'm', apiKey, timeoutMs: 5000 })

/** Two hundred classes, too many for the budget of this desk. */
const classes = Array.from(
  { length: 200 },
  (_, index) => `e:Thing${index} a owl:Class ; rdfs:comment "Nothing of note." .`,
)

async function openRestartingService(cacheDir: string, more = ''): Promise<OntologyService> {
  const text = turtle(
    `${classes.join('\n')}\ne:WaterMill a owl:Class ; rdfs:label "water mill" . e:Brewery a owl:Class . ${more}`,
  )
  const loaded = await loadOntology([file('e.ttl', text)])
  const embeddings = {
    url: `${server.url}/v1/embeddings`,
    model: 'm',
    apiKey: undefined,
    timeoutMs: 5000,
    cacheDir,
  }
  return createOntologyService(loaded, { budget: 60, embeddings })
}

describe('the servers', () => {
  test.each(['/v1/embeddings', '/v1', '', '/api/embed'])(
    'at %j give one vector a text, of length 1, in the order of the texts',
    async (path) => {
      const [a, b, again] = await embed(path)(['water mill', 'brewery', 'water mill'])
      expect(Math.hypot(...a!)).toBeCloseTo(1)
      expect(again).toEqual(a)
      expect(b).not.toEqual(a)
      expect(server.requests).toEqual([['water mill', 'brewery', 'water mill']])
    },
  )

  test('get their own key, and errors do not show it', async () => {
    await embed('', 'sk-secret')(['a'])
    expect(server.authorization).toBe('Bearer sk-secret')
    server.answer = { status: 401, body: 'sk-secret is not known' }
    await expect(embed('', 'sk-secret')(['a'])).rejects.toMatchObject({
      code: 'embeddings_refused',
      message: expect.not.stringContaining('sk-secret'),
    })
  })

  test.each([
    [500, 'oops', 'embeddings_unavailable'],
    [429, 'slow down', 'embeddings_unavailable'],
    [404, 'no such model', 'embeddings_refused'],
    [200, 'not json', 'embeddings_refused'],
    [200, '{"data":[]}', 'embeddings_refused'],
    [200, '{"data":[{"embedding":["a"]}]}', 'embeddings_refused'],
  ])('that answer %d %s are the error %s', async (status, body, code) => {
    server.answer = { status, body }
    await expect(embed('')(['a'])).rejects.toMatchObject({ code })
  })

  test('that are unavailable are tried later', async () => {
    await server.close()
    await expect(embed('')(['a'])).rejects.toMatchObject({ code: 'embeddings_unavailable' })
  })

  test('are named by a URL without a password', () => {
    expect(endpointOf('http://h:11434/api/embeddings').pathname).toBe('/api/embed')
    for (const url of ['h:11434', 'ftp://h/v1', 'http://user:pass@h/v1', ''])
      expect(() => endpointOf(url)).toThrowError(expect.objectContaining({ code: 'configuration_invalid' }))
  })
})

describe('selection by embeddings', () => {
  test('takes the elements that are close to the chunk, and asks for one vector per chunk', async () => {
    const service = await openRestartingService(folder())
    const terms = await service.select('The water mill stood by the river.')
    expect(terms.classes).toHaveProperty('WaterMill')
    expect(Object.keys(terms.classes).length).toBeLessThan(20)
    const before = server.requests.length
    await service.select('A brewery burnt down.')
    expect(server.requests.slice(before)).toEqual([['A brewery burnt down.']])
  })

  test('keeps vectors on disk: an ontology that changed a little, and a chunk seen before, cost little', async () => {
    const cache = folder()
    await (await openRestartingService(cache)).select('The water mill.')
    expect(server.requests.flat()).toHaveLength(202 + 1)
    expect(readdirSync(cache).length).toBeGreaterThan(0)
    const before = server.requests.length
    const terms = await (await openRestartingService(cache, 'e:Bakery a owl:Class .')).select(
      'The water mill.',
    )
    expect(server.requests.slice(before)).toEqual([['Bakery']])
    expect(terms.classes).toHaveProperty('WaterMill')
  })

  test('continues where it stopped when the server comes back', async () => {
    const cache = folder()
    const service = await openRestartingService(cache)
    server.answer = { status: 503, body: '' }
    await expect(service.select('A brewery.')).rejects.toMatchObject({ code: 'embeddings_unavailable' })
    server.answer = undefined
    expect((await service.select('A brewery.')).classes).toHaveProperty('Brewery')
  })

  test('asks no server when the whole ontology fits', async () => {
    const loaded = await loadOntology([file('s.ttl', turtle('e:A a owl:Class .'))])
    const embeddings = { url: server.url, model: 'm', apiKey: undefined, timeoutMs: 5000, cacheDir: folder() }
    expect(
      (await createOntologyService(loaded, { budget: 2000, embeddings }).select('text')).classes,
    ).toHaveProperty('A')
    expect(server.requests).toEqual([])
  })
})
