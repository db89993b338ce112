// One connection of the native client: its credentials, its log, and its end. The addon can crash the process when it is closed during
// an operation, and it hangs when its operations hang: therefore operations are counted, and the end has a bound.
import { closeSync, existsSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { getCACertificates } from 'node:tls'
import { GraphmillError } from '../../../errors.ts'
import type { BrokerLog } from '../../availability.ts'
import type { TlsOptions } from '../../broker.ts'
import type { Endpoint } from '../endpoint.ts'
import { codeOfRefusal } from '../refusal.ts'
import { loadNativeModule, type NativeClient, type NativeModule } from './native-module.ts'

/** The client gives up an operation after this time. It takes whole seconds. */
const operationTimeoutSeconds = 10
const connectionTimeoutMs = 4_000
/** The client's level for warnings. */
const warnings = 2
/** How long the end waits for operations, and then for the client. */
const closeTimeoutMs = 5_000

export interface Connection {
  readonly native: NativeClient
  readonly module: NativeModule
  /** Runs an operation of the client. Rejects with the code for its result; `subject` is what it is about. */
  run<T>(subject: string, operation: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** Where the client says what it does: the logger of the client is one for the process, and would write to stdout. */
let log: BrokerLog | undefined
/** The logger goes on to read the log level in the first client of the process, which must therefore stay. */
const first: NativeClient[] = []

/** `serviceUrl` is `pulsar://host:port` or `pulsar+ssl://host:port`. Connects to nothing yet. `token` is used as long as it lasts. */
function openConnection(
  serviceUrl: string,
  endpoint: Endpoint,
  token: string | undefined,
  timeoutSeconds = operationTimeoutSeconds,
): Connection {
  const module = loadNativeModule()
  log = endpoint.log
  module.Client.setLogHandler((level, file, line, text) =>
    log?.debug({ level, place: `${file}:${line}` }, `pulsar-client: ${text}`),
  )
  const { tls } = endpoint
  // The client's own list of authorities is a file that the install of its package makes.
  const trusted =
    tls.ca ?? (serviceUrl.startsWith('pulsar+ssl:') ? getCACertificates().join('\n') : undefined)
  const files = writeTlsFiles({ ...tls, ...(trusted !== undefined && { ca: trusted }) })
  const native = new module.Client({
    serviceUrl,
    operationTimeoutSeconds: timeoutSeconds,
    connectionTimeoutMs,
    statsIntervalInSeconds: 0,
    logLevel: warnings,
    ...tlsSettings(files, tls),
    ...authentication(module, endpoint, { files, token }),
  })
  if (first.length === 0) first.push(native)
  const running = new Set<Promise<unknown>>()
  let closed: Promise<void> | undefined
  const end = async (): Promise<void> => {
    await Promise.race([Promise.allSettled(running), delay(closeTimeoutMs, undefined, { ref: false })])
    const ended = native.close().catch(() => {})
    if (running.size === 0) await Promise.race([ended, delay(closeTimeoutMs, undefined, { ref: false })])
    files?.remove()
  }
  return {
    native,
    module,
    async run(subject, operation) {
      const result = operation()
      running.add(result)
      try {
        return await result
      } catch (thrown) {
        throw nativeError(thrown, subject)
      } finally {
        running.delete(result)
      }
    },
    close() {
      closed ??= end()
      return closed
    },
  }
}

export interface Lease {
  readonly connection: Connection
  /** Call it once, when nothing of the connection is used any more. */
  release(): void
}

export interface Connections {
  /** The connection with the current token. */
  lease(): Promise<Lease>
  /** Others to the same server. */
  another(): Connections
  /** Call it when all leases are released, or it cuts them off. */
  close(): Promise<void>
}

/** A token that was replaced needs a new connection: the old one is closed when its last lease is released. */
export function createConnections(
  serviceUrl: string,
  endpoint: Endpoint,
  timeoutSeconds?: number,
): Connections {
  const open = new Set<LeasedConnection>()
  let newest: LeasedConnection | undefined
  const closeUnlessUsed = (old: LeasedConnection | undefined): void => {
    if (old === undefined || old === newest || old.leases > 0) return
    void old.connection.close().then(() => open.delete(old))
  }
  const current = (token: string | undefined): LeasedConnection => {
    if (newest !== undefined && newest.token === token) return newest
    const old = newest
    newest = { token, leases: 0, connection: openConnection(serviceUrl, endpoint, token, timeoutSeconds) }
    open.add(newest)
    closeUnlessUsed(old)
    return newest
  }
  return {
    async lease() {
      const leased = current(await endpoint.token?.())
      leased.leases++
      const release = (): void => {
        leased.leases--
        closeUnlessUsed(leased)
      }
      return { connection: leased.connection, release }
    },
    another: () => createConnections(serviceUrl, endpoint),
    async close() {
      await Promise.all([...open].map(({ connection }) => connection.close()))
    },
  }
}

interface LeasedConnection {
  readonly token: string | undefined
  readonly connection: Connection
  leases: number
}

/** The client's errors end in the name of a result. */
export function nativeError(thrown: unknown, subject: string): GraphmillError {
  const words = (thrown as Error).message
  const text = `Pulsar refused ${subject}: ${words}`
  return new GraphmillError(codeOfRefusal(words), text, { cause: thrown })
}

interface TlsFiles {
  path(name: keyof TlsOptions): string
  remove(): void
}

/**
 * The client reads PEM from files only, again at each connection. Where the system has /proc, the files have no name any more, so that
 * nothing of them is left when the process is killed. Elsewhere only this user can read them, and they go with the client.
 */
function writeTlsFiles(tls: TlsOptions): TlsFiles | undefined {
  const pems = (['ca', 'cert', 'key'] as const).filter((name) => tls[name] !== undefined)
  if (pems.length === 0) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-tls-'))
  folders.add(folder)
  const remove = (): void => {
    removeFolder(folder)
    folders.delete(folder)
  }
  for (const name of pems) writeFileSync(join(folder, name), tls[name] ?? '', { mode: 0o600 })
  if (!existsSync(descriptors)) return { path: (name) => join(folder, name), remove }
  const opened = new Map(pems.map((name) => [name as string, openSync(join(folder, name), 'r')]))
  remove()
  return {
    path: (name) => join(descriptors, String(opened.get(name))),
    remove() {
      for (const descriptor of opened.values()) closeSync(descriptor)
    },
  }
}

const descriptors = '/proc/self/fd'
/** Those of open connections. One listener for all: many would bring a warning. */
const folders = new Set<string>()
const removeFolder = (folder: string): void => rmSync(folder, { recursive: true, force: true })
process.once('exit', () => folders.forEach(removeFolder))

function tlsSettings(files: TlsFiles | undefined, tls: TlsOptions): object {
  return {
    tlsValidateHostname: tls.rejectUnauthorized !== false,
    tlsAllowInsecureConnection: tls.rejectUnauthorized === false,
    ...(files !== undefined && { tlsTrustCertsFilePath: files.path('ca') }),
    ...(tls.cert !== undefined && {
      tlsCertificateFilePath: files?.path('cert'),
      tlsPrivateKeyFilePath: files?.path('key'),
    }),
  }
}

/**
 * A token counts before a client certificate, which then only makes the connection. It is a text: a function, as the client also
 * takes it, would keep the process from ending, and its own OAuth2 blocks this thread while it asks for a token.
 */
function authentication(
  module: NativeModule,
  { tls: { cert, key } }: Endpoint,
  { files, token }: { readonly files: TlsFiles | undefined; readonly token: string | undefined },
): object {
  if (token !== undefined) return { authentication: new module.AuthenticationToken({ token }) }
  if (files === undefined || cert === undefined || key === undefined) return {}
  const paths = { certificatePath: files.path('cert'), privateKeyPath: files.path('key') }
  return { authentication: new module.AuthenticationTls(paths) }
}
