// From a configuration to a broker.
import { readFileSync } from 'node:fs'
import type { Logger } from 'pino'
import type { OnAvailability } from '../broker/availability.ts'
import type { Broker } from '../broker/broker.ts'
import { type ConnectOptions, connect } from '../broker/connect.ts'
import type { Config } from '../config/config.ts'
import type { OptionName } from '../config/options.ts'
import { GraphmillError } from '../errors.ts'
import { untilAvailable } from '../flow/runner/retry.ts'
import { createSchemaRegistry, type SchemaRegistry } from '../messages/schema-registry.ts'

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
  'pulsar-token',
  'schema-registry',
] as const satisfies readonly OptionName[]

/** Connects at once or throws, the reason of the signal too: for commands that a person waits for. */
export function openBroker(config: Config, signal?: AbortSignal): Promise<Broker> {
  return open(config, {}, signal)
}

async function open(config: Config, watch: Partial<BrokerWatch>, signal?: AbortSignal): Promise<Broker> {
  const { broker: url } = config.options
  if (!url)
    throw new GraphmillError(
      'usage',
      'No broker is named: give --broker kafka://host:port or pulsar+ws://host:port.',
    )
  return connect(url, { ...connectOptions(config), ...watch }, signal)
}

/** The schema registry, if one is configured. */
export function openRegistry({ options }: Config): SchemaRegistry | undefined {
  return options['schema-registry'] ? createSchemaRegistry(options['schema-registry']) : undefined
}

export interface BrokerWatch {
  readonly log: Logger
  /** Told when the broker goes away, also before it was ever there, and when it is back. */
  readonly onAvailability: OnAvailability
}

/** Waits for a broker that is away: for `run`, which may be started before its broker. */
export async function awaitBroker(config: Config, watch: BrokerWatch, signal: AbortSignal): Promise<Broker> {
  const onFailure = (error: GraphmillError) => {
    watch.log.warn({ err: error }, 'waiting for the broker')
    watch.onAvailability(error)
  }
  const broker = await untilAvailable(() => open(config, watch, signal), { signal, onFailure })
  watch.onAvailability(undefined)
  return broker
}

function connectOptions({ options }: Config): ConnectOptions {
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
  const [username, password, token] = [
    options['sasl-username'],
    options['sasl-password'],
    options['pulsar-token'],
  ]
  if (mechanism && (!username || !password))
    throw new GraphmillError('configuration_invalid', 'sasl-mechanism needs sasl-username and sasl-password.')
  return {
    ...((options.tls || ca || cert) && {
      tls: { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) },
    }),
    ...(mechanism && username && password && { sasl: { mechanism, username, password } }),
    ...(token && { token }),
  }
}
