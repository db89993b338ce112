// An account that is no administrator of its tenant, before a server that answers as Pulsar 4.0 does when authorization is on: it may not
// even ask for a topic that exists to be made, nor see its retention.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { connectPulsarWebSocket } from '../../../src/broker/pulsar/pulsar.ts'

test('uses the topics that exist, and is refused when one would have to be created', async () => {
  const changes: string[] = []
  const server = createServer((request, response) => {
    const { method = '', url = '' } = request
    if (method !== 'GET') changes.push(`${method} ${url}`)
    const answer = (status: number, body: unknown) => response.writeHead(status).end(JSON.stringify(body))
    if (url.endsWith('/persistent/public/default/partitioned')) return answer(200, [])
    if (method !== 'GET' || url.includes('/retention'))
      return answer(403, { reason: "Don't have permission to administrate resources on this tenant" })
    if (url.includes('/gm.there/partitions')) return answer(200, { partitions: 3 })
    return answer(404, { reason: 'Topic not found' })
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`
  const broker = await connectPulsarWebSocket({ url })
  onTestFinished(() => broker.close())

  await broker.ensureTopics([{ name: 'gm.there', partitions: 3, compacted: true }])
  expect(changes).toEqual([])
  await expect(broker.ensureTopics([{ name: 'gm.absent', partitions: 3 }])).rejects.toMatchObject({
    code: 'topic_refused',
  })
  expect(changes).toEqual(['PUT /admin/v2/persistent/public/default/gm.absent/partitions'])
})
