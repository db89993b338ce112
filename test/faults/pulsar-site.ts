// A Pulsar server for the fault tests, over each of its protocols.
import { connect } from '../../src/broker/connect.ts'
import { nativePulsar } from '../support/native-pulsar.ts'
import type { PulsarServer } from '../support/pulsar-server.ts'
import type { Site } from './execution.ts'

export type PulsarWay = 'WebSocket' | 'binary'

/** `what` is skipped over the binary protocol, in print, where its module does not load. */
export const pulsarWays = (what: string): readonly PulsarWay[] =>
  nativePulsar(what) ? ['WebSocket', 'binary'] : ['WebSocket']

/** Processes that the tests start read the address of the admin API from the environment. */
export function pulsarSite({ url, binaryUrl, adminUrl }: PulsarServer, way: PulsarWay): Site {
  process.env['GRAPHMILL_PULSAR_ADMIN'] = adminUrl
  const brokerUrl = way === 'binary' ? binaryUrl : `pulsar+${url}`
  return { brokerUrl, connect: () => connect(brokerUrl, { adminUrl }) }
}
