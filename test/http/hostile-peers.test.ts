// Stores, registries and embeddings servers that redirect, or answer without end: models have a test of their own.
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createGzip } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { GraphmillError } from '../../src/errors.ts'
import { createSchemaRegistry } from '../../src/messages/schema-registry.ts'
import { createEmbed } from '../../src/ontology/embeddings.ts'
import { openSparqlStore } from '../../src/rdf/sparql-store.ts'

const peers = {
  store: (origin: string) =>
    openSparqlStore({ url: `${origin}/update`, token: 'secret' }).write([], { workspace: 'w', flow: 'f' }),
  registry: (origin: string) =>
    createSchemaRegistry(origin.replace('//', '//user:secret@')).find(1, new AbortController().signal),
  embeddings: (origin: string) =>
    createEmbed({ url: origin, model: 'm', apiKey: 'secret', timeoutMs: 20_000 })(['mill']),
}

async function startServer(listener: RequestListener) {
  const server = createServer((request, response) => {
    response.on('error', () => {})
    listener(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => {
      throw new Error('it succeeded')
    },
    (thrown: unknown) => thrown as GraphmillError,
  )

describe.each(Object.entries(peers))('the %s', (name, ask) => {
  test('is not followed to another host', async () => {
    const asked: string[] = []
    const other = await startServer(({ url }, response) => {
      asked.push(url ?? '')
      response.end('{}')
    })
    for (const status of [301, 302, 307, 308]) {
      const origin = await startServer(({ url }, response) => {
        response.writeHead(status, { location: `${other}${url}?token=1` }).end()
      })
      const error = await failureOf(ask(origin))
      expect(error).toMatchObject({ code: `${name}_refused`, retry: 'operator' })
      expect(error.message).toContain(`it is at ${other}/`)
      expect(error.message).not.toContain('token')
    }
    expect(asked).toEqual([])
  })

  test.each([200, 400])('is refused when its answer (%s) unpacks without end', async (status) => {
    const origin = await startServer((_, response) => {
      response.writeHead(status, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
      const gzip = createGzip()
      gzip.pipe(response)
      response.on('close', () => gzip.destroy())
      const blanks = Buffer.alloc(1024 * 1024, ' ')
      const more = () => {
        if (gzip.destroyed) return
        if (gzip.write(blanks)) setImmediate(more)
        else gzip.once('drain', more)
      }
      more()
    })
    const error = await failureOf(ask(origin))
    expect(error).toMatchObject({ code: `${name}_refused`, retry: 'operator' })
    expect(error.message).toMatch(/answers with more than \d+ bytes/)
  })
})
