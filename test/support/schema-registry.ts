// A schema registry with Confluent's API, as far as writers and readers use it.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface RegistryServer {
  /** `host:port`. */
  readonly address: string
  /** May be called again. */
  close(): Promise<void>
}

/** Asks for `credentials`, such as `me:secret`, where they are given. */
export async function startRegistry(credentials?: string): Promise<RegistryServer> {
  const ids = new Map<string, number>()
  const authorization = credentials && `Basic ${Buffer.from(credentials).toString('base64')}`
  const server = createServer(async (request, response) => {
    const answer = (status: number, body: object) => response.writeHead(status).end(JSON.stringify(body))
    if (authorization && request.headers.authorization !== authorization)
      return answer(401, { message: 'who?' })
    if (request.method === 'POST') {
      const { schema } = JSON.parse(await text(request)) as { schema: string }
      ids.set(schema, ids.get(schema) ?? ids.size + 7)
      return answer(200, { id: ids.get(schema) })
    }
    const found = [...ids].find(([, id]) => request.url === `/schemas/ids/${id}`)
    return found ? answer(200, { schema: found[0] }) : answer(404, { message: 'none' })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
}
