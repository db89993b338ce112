// Opens the binary protocol: checks the port, the credentials and the admin API, each with its own error.
import { GraphmillError, toGraphmillError } from '../../../errors.ts'
import { wait } from '../../../wait.ts'
import { checkConnection, fullTopicName } from '../admin.ts'
import { type Endpoint, endpointOf, type PulsarBinaryOptions, webUrlOf } from '../endpoint.ts'
import type { PulsarTransport } from '../transport.ts'
import { type Connections, createConnections } from './client.ts'
import { loadNativeModule } from './native-module.ts'
import { checkReach } from './reach.ts'
import { binaryTransport } from './transport.ts'

/** A server that was just started may need some attempts. */
const connectAttempts = 4
const connectDelayMs = 500
/** The server must say within this time whether it accepts the credentials. */
const verdictSeconds = 3

export async function openBinary(
  options: PulsarBinaryOptions,
  signal: AbortSignal | undefined,
): Promise<{ readonly endpoint: Endpoint; readonly transport: PulsarTransport }> {
  loadNativeModule()
  const service = new URL(options.url)
  const found = endpointOf({ ...options, url: webUrlOf(options) })
  await found.token?.()
  await reach(service, found, signal)
  const connections = createConnections(options.url, found)
  try {
    const isGiven = options.adminUrl !== undefined
    const [endpoint] = await Promise.all([
      withAdmin(connections, found, { isGiven, signal }),
      checkCredentials(createConnections(options.url, found, verdictSeconds), found, service),
    ])
    return { endpoint, transport: binaryTransport(endpoint, connections) }
  } catch (thrown) {
    // The client goes on to try for some seconds.
    void connections.close()
    throw thrown
  }
}

async function reach(service: URL, endpoint: Endpoint, signal: AbortSignal | undefined): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await checkReach(service, endpoint)
    } catch (error) {
      signal?.throwIfAborted()
      const isSilent =
        (error as Error).cause instanceof Error && ((error as Error).cause as Error).name === 'AbortError'
      if (isSilent || toGraphmillError(error).retry !== 'later' || attempt === connectAttempts) throw error
      await wait(connectDelayMs, signal)
    }
  }
}

/**
 * Asks for a topic that need not exist: an answer about it shows that we are let in. The client does not say that it was refused: it
 * is disconnected until its time is up.
 */
async function checkCredentials(trial: Connections, endpoint: Endpoint, { host }: URL): Promise<void> {
  const { connection } = await trial.lease()
  const topic = fullTopicName(endpoint, 'graphmill-connects')
  try {
    await connection.run(host, () => connection.native.getPartitionsForTopic(topic))
  } catch (thrown) {
    const { code, message } = toGraphmillError(thrown)
    if (code === 'topic_missing' || code === 'topic_refused') return
    const refused = /Disconnected/.test(message)
    const words = refused
      ? 'closes connections: it refuses the credentials'
      : 'does not answer, or refuses the credentials'
    const text = `Pulsar at ${host} ${words}`
    throw new GraphmillError(refused ? 'broker_refused' : 'broker_unavailable', text, { cause: thrown })
  } finally {
    void trial.close()
  }
}

/** The endpoint with its admin API, or without when nothing is there. */
async function withAdmin(
  connections: Connections,
  endpoint: Endpoint,
  { isGiven, signal }: { readonly isGiven: boolean; readonly signal: AbortSignal | undefined },
): Promise<Endpoint> {
  try {
    await checkConnection(endpoint, signal)
    return endpoint
  } catch (thrown) {
    const err = toGraphmillError(thrown)
    if (isGiven || err.code !== 'broker_unavailable') throw thrown
    endpoint.log.warn(
      { err },
      "Pulsar's admin API cannot be reached: topics are used as they are, and neither lag nor deaths nor expired messages are known; --pulsar-admin names its address",
    )
    const partitionsOf = async (topic: string): Promise<number> => {
      const name = fullTopicName(endpoint, topic)
      const { connection, release } = await connections.lease()
      try {
        const parts = await connection.run(topic, () => connection.native.getPartitionsForTopic(name))
        return parts.length === 1 && parts[0] === name ? 0 : parts.length
      } finally {
        release()
      }
    }
    return { ...endpoint, withoutAdmin: partitionsOf }
  }
}
