// Benches on a real Pulsar: the relay over its WebSocket API and over its binary protocol, and the trickle over WebSockets.
import { connect } from '../src/broker/connect.ts'
import { nativePulsar } from '../test/support/native-pulsar.ts'
import { startPulsar } from '../test/support/pulsar-server.ts'
import { startLlmProcess } from './llm-process.ts'
import { barePulsar, barePulsarNative, relayBench } from './relay.ts'
import type { Row } from './row.ts'
import { trickle } from './trickle.ts'

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

export async function pulsarTrickleBench(): Promise<Row[]> {
  const [server, llm] = await Promise.all([startPulsar(), startLlmProcess()])
  const brokerUrl = `pulsar+${server.url}`
  try {
    const rows = await trickle({ site: { brokerUrl, connect: () => connect(brokerUrl) }, llm })
    return rows
      .filter(({ unit }) => unit !== 'a chunk')
      .map((row) => ({ ...row, name: `pulsar ${row.name}` }))
  } finally {
    await llm.stop()
    await server.stop()
  }
}
