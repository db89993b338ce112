// One connection of the native client: its credentials, its log, and its end. The addon can crash the process when it is closed during
// an operation, and it hangs when its operations hang: therefore operations are counted, and the end has a bound.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
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

/** `serviceUrl` is `pulsar://host:port` or `pulsar+ssl://host:port`. Connects to nothing yet. */
export function openConnection(serviceUrl: string, endpoint: Endpoint): Connection {
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
    operationTimeoutSeconds,
    connectionTimeoutMs,
    statsIntervalInSeconds: 0,
    logLevel: 2,
    ...tlsSettings(files, tls),
    ...authentication(module, endpoint, files),
  })
  const running = new Set<Promise<unknown>>()
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
    async close() {
      await Promise.race([Promise.allSettled(running), delay(closeTimeoutMs, undefined, { ref: false })])
      const closed = native.close().catch(() => {})
      if (running.size === 0) await Promise.race([closed, delay(closeTimeoutMs, undefined, { ref: false })])
      files?.remove()
    },
  }
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

/** The client reads PEM from files only, again at each connection. Only this user can read them, and they go with the client. */
function writeTlsFiles(tls: TlsOptions): TlsFiles | undefined {
  const pems = (['ca', 'cert', 'key'] as const).filter((name) => tls[name] !== undefined)
  if (pems.length === 0) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-tls-'))
  for (const name of pems) writeFileSync(join(folder, name), tls[name] ?? '', { mode: 0o600 })
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove)
  return {
    path: (name) => join(folder, name),
    remove() {
      process.off('exit', remove)
      remove()
    },
  }
}

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

/** A token counts before a client certificate, which then only makes the connection. */
function authentication(module: NativeModule, endpoint: Endpoint, files: TlsFiles | undefined): object {
  const { token } = endpoint
  if (token !== undefined) {
    let last = ''
    // A supplier that rejects would block the client for ever.
    const supply = async (): Promise<string> => {
      try {
        last = await token()
      } catch (err) {
        endpoint.log.warn({ err }, 'no new token for Pulsar: the last one is used')
      }
      return last
    }
    return { authentication: new module.AuthenticationToken({ token: supply }) }
  }
  const { cert, key } = endpoint.tls
  if (files === undefined || cert === undefined || key === undefined) return {}
  const paths = { certificatePath: files.path('cert'), privateKeyPath: files.path('key') }
  return { authentication: new module.AuthenticationTls(paths) }
}
