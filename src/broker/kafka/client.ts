// The base of the Kafka broker: its options, how kafkajs clients are made, and the errors of kafkajs as codes.
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { type ISocketFactoryArgs, Kafka, logLevel, type RetryOptions, type SASLOptions } from 'kafkajs'
import { type Secret, secretText } from '../../config/secret.ts'
import { type ErrorCode, GraphmillError } from '../../errors.ts'
import { connectionFault } from '../../http/connection-fault.ts'
import {
  type Availability,
  type BrokerLog,
  createAvailability,
  type OnAvailability,
} from '../availability.ts'
import type { TlsOptions } from '../broker.ts'
import { openCluster, patchKafkajs, throwWhenOutOfRange } from './quirks.ts'

patchKafkajs()

export interface KafkaSasl {
  readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512'
  readonly username: string
  readonly password: string | Secret
}

export interface KafkaOptions {
  /** `host:port` of some brokers of the cluster. */
  readonly brokers: readonly string[]
  /** The name of this client in the cluster. Default `graphmill`. */
  readonly clientId?: string
  readonly tls?: boolean | TlsOptions
  readonly sasl?: KafkaSasl
  /** A member that sends no heartbeat for longer counts as dead, and its partitions go to others. Default 8,000. */
  readonly sessionTimeoutMs?: number
  /**
   * Kafka's `group.instance.id` in every group: a member that joins again with it within the session timeout gets its partitions back,
   * and the others do not rejoin. No two members of a group may have the same. Default: none. Kafka before 2.3 ignores it.
   */
  readonly groupInstanceId?: string
  /** How long a fetch waits for messages; pausing, leaving and heartbeats wait for it. Default 300. */
  readonly fetchWaitMs?: number
  /** How long a message may wait for a leader before it rejects with `broker_unavailable`. Default 20,000. */
  readonly publishTimeoutMs?: number
  /** How long the metadata of a topic counts: a partition that is added is found within this time. Default 60,000. */
  readonly metadataMaxAgeMs?: number
  readonly log?: BrokerLog
  /** Called when consumers lose the cluster, with the reason, and when it is available again. */
  readonly onAvailability?: OnAvailability
}

/** The options with their defaults, and what is derived from them. */
export interface KafkaSettings extends KafkaOptions {
  readonly clientId: string
  readonly sessionTimeoutMs: number
  readonly fetchWaitMs: number
  readonly publishTimeoutMs: number
  readonly metadataMaxAgeMs: number
  readonly log: BrokerLog
  readonly availability: Availability
}

const silent: BrokerLog = { debug() {}, warn() {} }

export function kafkaSettings(options: KafkaOptions): KafkaSettings {
  return {
    clientId: 'graphmill',
    sessionTimeoutMs: 8_000,
    fetchWaitMs: 300,
    publishTimeoutMs: 20_000,
    metadataMaxAgeMs: 60_000,
    log: silent,
    ...options,
    availability: createAvailability(options.log ?? silent, options.onAvailability),
  }
}

export interface KafkaClient {
  readonly kafka: Kafka
  /** Ends all retries that look for a broker; connections stay. */
  giveUp(): void
  /** Ends every connection, too: kafkajs would wait for the answers of brokers that are gone. */
  abandon(): void
}

/** Gives up after about two seconds without a broker. */
export const impatient: RetryOptions = { retries: 4, initialRetryTime: 100, maxRetryTime: 1000 }
/** Waits for a broker until abandoned. */
export const patient: RetryOptions = {
  retries: Number.MAX_SAFE_INTEGER,
  initialRetryTime: 100,
  maxRetryTime: 1000,
}

/** A new client for every use: consumers of one client would share their view of committed offsets. */
export function createClient(
  settings: KafkaSettings,
  retry: RetryOptions,
  /** Called when a consumer's next offset is not in the log. */
  onOutOfRange?: (partition: number) => void,
): KafkaClient {
  const sockets = new Set<Socket>()
  let givenUp = false
  let abandoned = false
  const kafka = new Kafka({
    // Only an empty list makes kafkajs stop looking for a broker.
    brokers: () => (givenUp ? [] : [...settings.brokers]),
    clientId: settings.clientId,
    connectionTimeout: 5000,
    requestTimeout: 15_000,
    retry,
    // Its errors are expected and retried: they are details for the operator.
    logLevel: logLevel.WARN,
    logCreator:
      () =>
      ({ log: { message, timestamp, logger, stack, ...fields } }) => {
        if (onOutOfRange) throwWhenOutOfRange({ message, partition: fields['partition'] }, onOutOfRange)
        if (!abandoned) settings.log.debug({ ...fields, library: 'kafkajs' }, message)
      },
    socketFactory(target) {
      if (abandoned) throw new Error('abandoned')
      const socket = openSocket(target)
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
      return socket
    },
    ...(settings.tls && { ssl: settings.tls }),
    ...(settings.sasl && { sasl: saslOf(settings.sasl) }),
  })
  return {
    kafka,
    giveUp() {
      givenUp = true
    },
    abandon() {
      givenUp = true
      abandoned = true
      for (const socket of sockets) socket.destroy(new Error('abandoned'))
    },
  }
}

function openSocket({ host, port, ssl, onConnect }: ISocketFactoryArgs): Socket {
  const name = isIP(host) ? {} : { servername: host }
  const socket = ssl
    ? connectTls({ host, port, ...name, ...ssl }, onConnect)
    : connectTcp({ host, port, noDelay: true }, onConnect)
  socket.setKeepAlive(true, 60_000)
  // kafkajs adds listeners to the same socket at each attempt to connect.
  socket.setMaxListeners(0)
  return socket
}

/** kafkajs reads the password at every connection. */
function saslOf({ mechanism, username, password }: KafkaSasl): SASLOptions {
  return {
    mechanism,
    username,
    get password() {
      return secretText(password)
    },
  } as SASLOptions
}

/**
 * Asks a broker about a topic, with a client of its own, since kafkajs goes on asking about every topic it was ever
 * asked for, and a deleted one spoils all answers. Resolves when the topic is there; rejects with `topic_missing`,
 * `topic_refused`, `broker_unavailable` or `broker_refused`.
 */
export async function checkTopic(settings: KafkaSettings, topic: string): Promise<void> {
  const client = createClient(settings, impatient)
  const cluster = openCluster(client.kafka)
  try {
    await cluster.connect()
    await cluster.addMultipleTargetTopics([topic])
  } catch (error) {
    throw kafkaError(error, topic)
  } finally {
    client.abandon()
  }
}

const codes: Readonly<Record<string, ErrorCode>> = {
  UNKNOWN_TOPIC_OR_PARTITION: 'topic_missing',
  INVALID_TOPIC_EXCEPTION: 'topic_name_invalid',
  MESSAGE_TOO_LARGE: 'message_too_large',
  RECORD_LIST_TOO_LARGE: 'message_too_large',
  INVALID_RECORD: 'message_invalid',
  INVALID_TIMESTAMP: 'message_invalid',
  TOPIC_AUTHORIZATION_FAILED: 'topic_refused',
  GROUP_AUTHORIZATION_FAILED: 'broker_refused',
  CLUSTER_AUTHORIZATION_FAILED: 'broker_refused',
  SASL_AUTHENTICATION_FAILED: 'broker_refused',
  UNSUPPORTED_SASL_MECHANISM: 'broker_refused',
  POLICY_VIOLATION: 'broker_refused',
  INVALID_CONFIG: 'broker_refused',
  INVALID_PARTITIONS: 'broker_refused',
  INVALID_REPLICATION_FACTOR: 'broker_refused',
  INVALID_SESSION_TIMEOUT: 'broker_refused',
  FENCED_INSTANCE_ID: 'broker_refused',
  KafkaJSSASLAuthenticationError: 'broker_refused',
  // For example a compression that kafkajs cannot read.
  KafkaJSNotImplemented: 'broker_refused',
}
/** The message of a plain error of kafkajs for a connection without an answer. */
const noAnswer = 'Broker not connected'

/** An error of kafkajs as a coded one. Errors that it does not name count as an unavailable broker. */
export function kafkaError(thrown: unknown, subject: string): GraphmillError {
  if (thrown instanceof GraphmillError) return thrown
  const fault = connectionFault(thrown, brokerOf(thrown))
  if (fault) return fault
  const code = codeOf(thrown)
  const reason =
    refusedTopic(thrown) ?? (thrown instanceof Error ? thrown.message : String(thrown)) + adviceOn(thrown)
  return new GraphmillError(code, `${subject}: ${reason}`, { cause: thrown })
}

/** Whether the cluster has other bounds for a session timeout. Its answer does not name them. */
export const refusesSessionTimeout = (thrown: unknown): boolean => isOfType(thrown, 'INVALID_SESSION_TIMEOUT')

function adviceOn(thrown: unknown): string {
  if (refusesSessionTimeout(thrown))
    return ' Set --session-timeout between group.min.session.timeout.ms and group.max.session.timeout.ms of the cluster (in seconds).'
  if (isOfType(thrown, 'FENCED_INSTANCE_ID')) return '. Give each process a --group-instance-id of its own.'
  return ''
}

function isOfType(thrown: unknown, type: string): boolean {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 8; error = error.cause, depth++)
    if ((error as { type?: unknown }).type === type) return true
  return false
}

/** The broker of the connection, as kafkajs names it somewhere among the causes. */
function brokerOf(thrown: unknown): string {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 8; error = error.cause, depth++) {
    const { broker } = error as { broker?: unknown }
    if (typeof broker === 'string') return `the broker ${broker}`
  }
  return 'a broker'
}

/** What kafkajs says of the first topic that could not be created; the error that contains them all does not. */
function refusedTopic(thrown: unknown): string | undefined {
  const errors = (thrown as { errors?: unknown }).errors
  const [first] = Array.isArray(errors) ? (errors as (Error & { topic?: string })[]) : []
  return first?.topic && `${first.topic}: ${first.message}`
}

function codeOf(thrown: unknown): ErrorCode {
  let ours = false
  for (let error = thrown, depth = 0; error instanceof Error && depth < 8; error = error.cause, depth++) {
    const { type } = error as { type?: unknown }
    const known = codes[String(type)] ?? codes[error.name]
    if (known !== undefined) return known
    ours ||= error.name.startsWith('KafkaJS') || error.message === noAnswer
    const inner = 'errors' in error && Array.isArray(error.errors) ? error.errors[0] : undefined
    if (inner instanceof Error && codes[String((inner as { type?: unknown }).type)]) return codeOf(inner)
  }
  return ours ? 'broker_unavailable' : 'unexpected'
}
