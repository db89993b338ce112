// The broker on a real Pulsar: the whole contract, and what only a server that fails can show.
import WebSocket from 'ws'
import { connectPulsarBinary, connectPulsarWebSocket } from '../../../src/broker/pulsar/pulsar.ts'
import { brokerSource } from '../../support/brokers.ts'
import { nativePulsar } from '../../support/native-pulsar.ts'
import { startPulsar } from '../../support/pulsar-server.ts'
import { brokerSuite } from '../suite.ts'

if ((await brokerSource('Pulsar', ['jars'])) !== undefined) {
  brokerSuite('Pulsar WebSocket', async () => {
    const server = await startPulsar()
    return {
      connect: async () => connectPulsarWebSocket({ url: server.url }),
      stop: () => server.stop(),
      publishForeign: (topic, value) =>
        publishForeign(`${server.url}/ws/v2/producer/persistent/public/default/${topic}`, value),
      lacks: {
        reassignment: 'Pulsar takes in-flight messages from a member only when its connection is lost',
      },
    }
  })
}

if (nativePulsar('Pulsar binary') && (await brokerSource('Pulsar', ['jars'])) !== undefined) {
  brokerSuite('Pulsar binary', async () => {
    const server = await startPulsar()
    const { binaryUrl: url, adminUrl } = server
    return {
      connect: async () => connectPulsarBinary({ url, adminUrl }),
      stop: () => server.stop(),
      publishForeign: (topic, value) =>
        publishForeign(`${server.url}/ws/v2/producer/persistent/public/default/${topic}`, value),
      lacks: {
        reassignment: 'Pulsar takes in-flight messages from a member only when its connection is lost',
      },
    }
  })
}

/** As any WebSocket client would: a payload and nothing else. */
function publishForeign(url: string, value: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url)
    socket
      .on('error', reject)
      .on('open', () => socket.send(JSON.stringify({ payload: Buffer.from(value).toString('base64') })))
      .on('message', (answer) => {
        socket.close()
        if (JSON.parse(answer.toString()).result === 'ok') resolve()
        else reject(new Error(answer.toString()))
      })
  })
}
