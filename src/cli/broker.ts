// From a configuration to a broker, and the frame of every command that uses one.
import { readFileSync } from 'node:fs'
import type { Logger } from 'pino'
import type { OnAvailability } from '../broker/availability.ts'
import type { Broker } from '../broker/broker.ts'
import { type ConnectOptions, connect } from '../broker/connect.ts'
import { maskAddress } from '../config/address.ts'
import type { Config } from '../config/config.ts'
import type { OptionName } from '../config/options.ts'
import { GraphmillError } from '../errors.ts'
import { untilAvailable } from '../flow/runner/retry.ts'
import { createSchemasTopic, type SchemasTopic } from '../flow/schemas-topic.ts'
import { onShutdown } from '../flow/shutdown.ts'
import { type Codec, createCodec } from '../messages/codec.ts'
import { loadSchemas } from '../messages/registry.ts'
import { createSchemaRegistry, type SchemaRegistry } from '../messages/schema-registry.ts'
import { trustGraphBroker } from '../trustgraph/broker.ts'
import type { Wire } from '../trustgraph/wire.ts'
import { trustGraphCodec } from '../trustgraph/wire-codec.ts'
import { flowsOf, wireOf } from './flows.ts'

/** The options that `openBroker` reads. */
export const brokerOptions = [
  'broker',
  'space',
  'tls',
  'tls-ca',
  'tls-cert',
  'tls-key',
  'sasl-mechanism',
  'sasl-username',
  'sasl-password',
  'session-timeout',
  'pulsar-token',
  'pulsar-admin',
  'pulsar-oauth-issuer',
  'pulsar-oauth-client-id',
  'pulsar-oauth-client-secret',
  'pulsar-oauth-audience',
  'pulsar-oauth-scope',
  'schema-registry',
] as const satisfies readonly OptionName[]

/** What a one-shot command gets for its work on a broker. */
export interface BrokerSession {
  readonly config: Config
  readonly broker: Broker
  /** Aborted by the first SIGTERM or SIGINT, with the error `aborted`. */
  readonly signal: AbortSignal
}

/** Connects; the topics of flows on TrustGraph's wire are found by our names. Throws the error, or the signal's reason. */
export async function openFlowBroker(config: Config, signal?: AbortSignal): Promise<Broker> {
  const wire = wireIn(config)
  const broker = await openBroker(config, signal)
  return wire ? trustGraphBroker(broker, wire) : broker
}

/** The wire of the flows file, if there is one. */
export function wireIn(config: Config): Wire | undefined {
  return config.options.flows === undefined ? undefined : wireOf(flowsOf(config), config)
}

/** Connects, runs `act`, and closes the connection. Throws what connecting or `act` throws, or the signal's reason. */
export async function withBroker<T>(config: Config, act: (session: BrokerSession) => Promise<T>): Promise<T> {
  const shutdown = onShutdown()
  const broker = await openFlowBroker(config, shutdown.asked)
  try {
    return await act({ config, broker, signal: shutdown.asked })
  } finally {
    await broker.close()
    shutdown.dispose()
  }
}

/** Decodes and encodes the messages of the broker. */
export function openSchemas(
  broker: Broker,
  config: Config,
): { readonly codec: Codec; readonly schemas: SchemasTopic } {
  const wire = wireIn(config)
  const avro = createCodec(loadSchemas())
  const codec = wire ? trustGraphCodec(avro, wire) : avro
  return { codec, schemas: createSchemasTopic(broker, codec, config.options.space, openRegistry(config)) }
}

/** Connects once, without retries. Throws the error, or the signal's reason. */
export async function openBroker(
  config: Config,
  signal?: AbortSignal,
  watch: Partial<BrokerWatch> & Pick<ConnectOptions, 'groupInstanceId'> = {},
): Promise<Broker> {
  const { broker: url } = config.options
  if (!url)
    throw new GraphmillError(
      'usage',
      'No broker is named: give --broker kafka://host:port, pulsar://host:port or pulsar+ws://host:port.',
    )
  return connect(url, { ...connectOptions(config), ...watch }, signal)
}

/** The schema registry, if one is configured. */
export function openRegistry({ options }: Config): SchemaRegistry | undefined {
  return options['schema-registry'] ? createSchemaRegistry(options['schema-registry']) : undefined
}

export interface BrokerWatch {
  readonly log: Logger
  /** Called with the error when the broker becomes unavailable (also before the first connection), and with nothing when it is back. */
  readonly onAvailability: OnAvailability
}

/**
 * Connects, with retries while the broker is unavailable: `run` may be started before its broker. Only `run` joins groups
 * with a group.instance.id: another command in its container would take its partitions away.
 */
export async function awaitBroker(config: Config, watch: BrokerWatch, signal: AbortSignal): Promise<Broker> {
  const onFailure = (error: GraphmillError) => {
    watch.log.warn({ err: error }, 'waiting for the broker')
    watch.onAvailability(error)
  }
  const groupInstanceId = config.options['group-instance-id']
  const options = { ...watch, ...(groupInstanceId && { groupInstanceId }) }
  const broker = await untilAvailable(() => openBroker(config, signal, options), { signal, onFailure })
  watch.onAvailability(undefined)
  return broker
}

/** What the options say about how to connect. Throws `configuration_invalid`. */
export function connectOptions({ options }: Config): ConnectOptions {
  const file = (name: 'tls-ca' | 'tls-cert' | 'tls-key') => {
    const path = options[name]
    if (path === undefined) return undefined
    try {
      return readFileSync(path, 'utf8')
    } catch (cause) {
      throw new GraphmillError('configuration_invalid', `${name}: ${(cause as Error).message}.`, { cause })
    }
  }
  const [ca, cert, key] = [file('tls-ca'), file('tls-cert'), file('tls-key')]
  const mechanism = options['sasl-mechanism']
  const { 'sasl-username': username, 'sasl-password': password, 'pulsar-token': token } = options
  if (mechanism && (!username || !password))
    throw new GraphmillError('configuration_invalid', 'sasl-mechanism needs sasl-username and sasl-password.')
  return {
    ...((options.tls || ca || cert) && {
      tls: { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) },
    }),
    ...(mechanism && username && password && { sasl: { mechanism, username, password } }),
    ...(token && { token }),
    ...(!token && oauthOf(options)),
    ...(options['pulsar-admin'] && { adminUrl: adminUrlOf(options['pulsar-admin']) }),
    sessionTimeoutMs: options['session-timeout'] * 1000,
  }
}

function oauthOf(options: Config['options']): Pick<ConnectOptions, 'oauth'> {
  const issuer = options['pulsar-oauth-issuer']
  if (!issuer) return {}
  const { 'pulsar-oauth-client-id': clientId, 'pulsar-oauth-client-secret': clientSecret } = options
  const { 'pulsar-oauth-audience': audience, 'pulsar-oauth-scope': scope } = options
  if (!/^https?:\/\//i.test(issuer) || !URL.canParse(issuer))
    throw new GraphmillError('configuration_invalid', 'pulsar-oauth-issuer must be an http or https URL.')
  if (!clientId || !clientSecret)
    throw new GraphmillError(
      'configuration_invalid',
      'pulsar-oauth-issuer needs pulsar-oauth-client-id and pulsar-oauth-client-secret.',
    )
  return { oauth: { issuer, clientId, clientSecret, ...(audience && { audience }), ...(scope && { scope }) } }
}

function adminUrlOf(url: string): string {
  if (/^https?:\/\/[^/]+\/?$/i.test(url) && URL.canParse(url)) return new URL(url).origin
  throw new GraphmillError(
    'configuration_invalid',
    `pulsar-admin must be http://host:port or https://host:port, not ${maskAddress(url)}.`,
  )
}
