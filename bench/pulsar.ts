// The bench on a real Pulsar, over its WebSocket API: the relay.
import { connect } from '../src/broker/connect.ts'
import { startPulsar } from '../test/support/pulsar-server.ts'
import { barePulsar, relayBench } from './relay.ts'
import type { Row } from './row.ts'

export async function pulsarBench(): Promise<Row[]> {
  const server = await startPulsar()
  try {
    return await relayBench({
      name: 'pulsar',
      connect: () => connect(`pulsar+${server.url}`),
      count: 20_000,
      bare: barePulsar(server.url),
    })
  } finally {
    await server.stop()
  }
}
