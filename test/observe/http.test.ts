import { afterEach, expect, test } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import { type HttpServer, type Readiness, serveHttp } from '../../src/observe/http.ts'
import { createMetrics } from '../../src/observe/metrics.ts'

const servers: HttpServer[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close()
})

let state: Readiness = 'ready'
const serve = async (address = '127.0.0.1:0', insist = true) => {
  const server = await serveHttp({
    address,
    insist,
    registry: createMetrics().registry,
    state: () => state,
    details: () => ({ away: ['llm:x'] }),
    status: async () => ({ flows: ['a/b'] }),
  })
  servers.push(server)
  return server.url
}

test('tells that it is alive, and whether it is ready, with details', async () => {
  const url = await serve()
  const get = async (path: string) => {
    const response = await fetch(`${url}${path}`)
    return [response.status, await response.json()]
  }
  expect(await get('/healthz')).toEqual([200, { status: 'alive' }])
  expect(await get('/readyz')).toEqual([200, { status: 'ready', away: ['llm:x'] }])
  expect(await get('/status.json')).toEqual([200, { flows: ['a/b'] }])
  for (state of ['starting', 'away', 'stopping'] as const)
    expect(await get('/readyz')).toEqual([503, { status: state, away: ['llm:x'] }])
  state = 'ready'
})

test('serves metrics in the form of Prometheus', async () => {
  const response = await fetch(`${await serve()}/metrics`)
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  const text = await response.text()
  expect(text).toMatch(/^graphmill_build_info\{version="[^"]+",node="[^"]+"\} 1$/m)
  expect(text).toMatch(/^process_cpu_seconds_total /m)
})

test('a port that is taken is an error where it was asked for, and any other will do where it was not', async () => {
  const address = (await serve()).slice('http://'.length)
  await expect(serve(address)).rejects.toMatchObject({ code: 'configuration_invalid' })
  expect(await serve(address, false)).not.toContain(address)
})

test('an address that is none is refused', async () => {
  await expect(serve('8000')).rejects.toThrow(GraphmillError)
})
