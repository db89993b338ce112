// A broker by its URL: the one place that knows which implementations exist. Each is loaded when it is first used.
import { maskAddress } from '../config/address.ts'
import type { Secret } from '../config/secret.ts'
import { GraphmillError } from '../errors.ts'
import type { BrokerLog, OnAvailability } from './availability.ts'
import type { Broker, TlsOptions } from './broker.ts'
import type { KafkaOptions } from './kafka/kafka.ts'
import type { PulsarBinaryOptions, PulsarOptions } from './pulsar/pulsar.ts'

/** How to connect: credentials, certificates, names. */
export interface ConnectOptions {
  /** The name of this client in the cluster. Kafka only. Default `graphmill`. */
  readonly clientId?: string
  /** Certificates. Kafka uses TLS when this is given, Pulsar when the URL says `pulsar+ssl` or `pulsar+wss`. */
  readonly tls?: TlsOptions
  /** Kafka only. */
  readonly sasl?: NonNullable<KafkaOptions['sasl']>
  /** Kafka only: see `KafkaOptions`. Default 8,000. */
  readonly sessionTimeoutMs?: number
  /** Kafka only: see `KafkaOptions`. Default: none. */
  readonly groupInstanceId?: string
  /** Pulsar only. */
  readonly token?: string | Secret
  /** Pulsar only: OAuth2 client credentials, instead of a token. */
  readonly oauth?: NonNullable<PulsarOptions['oauth']>
  /** `pulsar://` and `pulsar+ssl://` only: the address of the admin API. Default: port 8080 of the same host, and 8443 with TLS. */
  readonly adminUrl?: string
  readonly log?: BrokerLog
  /** Called when consumers lose the broker, with the reason, and when it is available again. */
  readonly onAvailability?: OnAvailability
}

type BrokerTarget =
  | { readonly kind: 'kafka'; readonly brokers: readonly string[] }
  | {
      readonly kind: 'pulsar' | 'pulsar-binary'
      readonly location: Pick<PulsarOptions, 'url' | 'tenant' | 'namespace'>
    }

const accepted =
  'use kafka://host:port[,host:port], pulsar://host:port[/tenant/namespace] (with TLS pulsar+ssl) or pulsar+ws://host:port[/tenant/namespace] (with TLS pulsar+wss)'

const oneHost = 'name one host of Pulsar, since each of them, or a proxy before them, leads to all others'

/**
 * A broker at `kafka://host:port[,host:port]`, `pulsar://host:port[/tenant/namespace]` (`pulsar+ssl` with TLS) or
 * `pulsar+ws[s]://host:port[/tenant/namespace]`. Rejects with `broker_url_invalid`; with `pulsar_client_missing`; with `broker_unavailable` after about two seconds without a broker (ten
 * with one that does not answer); with `broker_refused` when it refuses us; and with the reason of `signal` when
 * that aborts before it is connected.
 *
 * @example const broker = await connect('kafka://127.0.0.1:9092')
 */
export async function connect(
  url: string,
  options: ConnectOptions = {},
  signal?: AbortSignal,
): Promise<Broker> {
  const target = targetOf(url)
  switch (target.kind) {
    case 'kafka': {
      const { connectKafka } = await import('./kafka/kafka.ts')
      return connectKafka({ brokers: target.brokers, ...options }, signal)
    }
    case 'pulsar': {
      const { connectPulsarWebSocket } = await import('./pulsar/pulsar.ts')
      return connectPulsarWebSocket({ ...target.location, ...options }, signal)
    }
    case 'pulsar-binary': {
      const { connectPulsarBinary } = await import('./pulsar/pulsar.ts')
      return connectPulsarBinary({ ...target.location, ...options }, signal)
    }
    default:
      return target satisfies never
  }
}

function targetOf(url: string): BrokerTarget {
  const [, scheme = '', rest = ''] = /^([a-z+]+):\/\/(.*)$/i.exec(url) ?? []
  switch (scheme.toLowerCase()) {
    case 'kafka': {
      const brokers = rest.replace(/\/$/, '').split(',')
      if (!brokers.every(isAddress)) throw invalid(url, accepted)
      return { kind: 'kafka', brokers }
    }
    case 'pulsar':
    case 'pulsar+ssl':
      return { kind: 'pulsar-binary', location: pulsarLocation(url, scheme.toLowerCase(), rest) }
    case 'pulsar+ws':
    case 'pulsar+wss':
      return {
        kind: 'pulsar',
        location: pulsarLocation(url, scheme.toLowerCase().slice('pulsar+'.length), rest),
      }
    default:
      throw invalid(url, accepted)
  }
}

function pulsarLocation(url: string, scheme: string, rest: string) {
  const [, address = '', tenant, namespace] = /^([^/]*)(?:\/([-=:.\w]+)\/([-=:.\w]+))?\/?$/.exec(rest) ?? []
  if (address.includes(',') && address.split(',').every(isAddress)) throw invalid(url, oneHost)
  if (!isAddress(address)) throw invalid(url, accepted)
  const inside = tenant === undefined || namespace === undefined ? {} : { tenant, namespace }
  return { url: `${scheme}://${address}`, ...inside }
}

/** The options for the Pulsar server at a URL; undefined for other brokers. Throws `broker_url_invalid`. */
export function pulsarOptions(url: string, options: ConnectOptions): PulsarBinaryOptions | undefined {
  const target = targetOf(url)
  return target.kind === 'kafka' ? undefined : { ...target.location, ...options }
}

/** `host:port`, where an IPv6 host stands in brackets. */
function isAddress(text: string): boolean {
  const port = /^(?:[\w.-]+|\[[\da-f:.]+\]):(\d{1,5})$/i.exec(text)?.[1]
  return port !== undefined && Number(port) > 0 && Number(port) < 65_536
}

function invalid(url: string, instead: string): GraphmillError {
  return new GraphmillError(
    'broker_url_invalid',
    `${JSON.stringify(maskAddress(url))} names no broker: ${instead}`,
  )
}
