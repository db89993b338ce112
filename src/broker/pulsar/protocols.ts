// Which of the two protocols of Pulsar can be used: whether the native module loads here, and whether a server has its WebSocket
// service on. For `doctor`.
import { toGraphmillError } from '../../errors.ts'
import { ask, endpointOf, type PulsarBinaryOptions, webUrlOf } from './endpoint.ts'

export interface Protocols {
  /** `host:port` where the WebSocket service was asked. */
  readonly web: string
  /** Undefined when the native module loads, otherwise why it does not. */
  readonly withoutNative: string | undefined
  /** Undefined when the WebSocket service answers, otherwise why it does not. */
  readonly withoutWebSocket: string | undefined
}

/** `options.url` may be any URL of the server. */
export async function findProtocols(options: PulsarBinaryOptions): Promise<Protocols> {
  const { loadNativeModule } = await import('./binary/native-module.ts')
  const reason = (thrown: unknown): string => toGraphmillError(thrown).message
  let withoutNative: string | undefined
  try {
    loadNativeModule()
  } catch (thrown) {
    withoutNative = reason(thrown)
  }
  const endpoint = endpointOf({ ...options, url: webUrlOf(options) })
  const sockets = { ...endpoint, adminBase: endpoint.socketBase.replace(/^ws/, 'http') }
  // A plain request: the service refuses it, and a server without the service knows nothing at this path.
  const path = `/reader/persistent/${endpoint.namespace}/graphmill-doctor`
  const withoutWebSocket = await ask(sockets, { method: 'GET', path, timeoutMs: 5_000 }).then(
    ({ status }) => (status === 404 ? 'webSocketServiceEnabled is not set' : undefined),
    reason,
  )
  return { web: new URL(endpoint.socketBase).host, withoutNative, withoutWebSocket }
}
