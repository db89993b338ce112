// The bench on a real Pulsar, over its WebSocket API and over its binary protocol: the relay.
import { connect } from '../src/broker/connect.ts'
import { nativePulsar } from '../test/support/native-pulsar.ts'
import { startPulsar } from '../test/support/pulsar-server.ts'
import { barePulsar, barePulsarNative, relayBench } from './relay.ts'
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

/** The same through the native client, where its module loads. */
export async function pulsarNativeBench(): Promise<Row[]> {
  if (!nativePulsar('pulsar-native-relay')) return []
  const { binaryUrl, adminUrl, stop } = await startPulsar()
  try {
    return await relayBench({
      name: 'pulsar native',
      connect: () => connect(binaryUrl, { adminUrl }),
      count: 20_000,
      bare: barePulsarNative(binaryUrl),
    })
  } finally {
    await stop()
  }
}
