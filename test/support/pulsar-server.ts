// A real Pulsar standalone on free loopback ports, with its WebSocket and admin APIs. Its folder goes when it stops.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { mavenArchive } from './maven.ts'
import { freePorts } from './ports.ts'

const distribution = 'org.apache.pulsar:pulsar-server-distribution:4.0.8:tar.gz:bin'
const startTimeoutMs = 170_000

export interface PulsarServerOptions {
  /** More lines for `standalone.conf`, or others instead. */
  readonly settings?: Readonly<Record<string, string | number | boolean>>
  /** Which port of 127.0.0.1 it is to name to clients of the binary protocol, for its own. Default: its own. */
  readonly advertise?: (brokerPort: number) => Promise<number>
  /** What a server needs to be asked whether it is ready, where the settings make it ask for a token. */
  readonly token?: string
}

export interface PulsarServer {
  /** `ws://127.0.0.1:port`, for `connectPulsarWebSocket`. `connect` wants it with `pulsar+` before it. */
  readonly url: string
  /** `pulsar://127.0.0.1:port`, for `connectPulsarBinary` and `connect`. */
  readonly binaryUrl: string
  /** `http://127.0.0.1:port` of the admin API. */
  readonly adminUrl: string
  /** SIGKILL. Resolves when the process is gone. */
  kill(): Promise<void>
  /** SIGTERM. Resolves when the process is gone. */
  shutDown(): Promise<void>
  /** Starts a server that was killed or shut down, on its old ports and data. */
  restart(): Promise<void>
  /** Ends the server and deletes its data. */
  stop(): Promise<void>
}

interface Place {
  readonly folder: string
  readonly lib: string
  readonly webPort: number
}

/** Resolves when topics can be made. The distribution (245 MB) is downloaded once. */
export async function startPulsar(options: PulsarServerOptions = {}): Promise<PulsarServer> {
  const lib = join(await mavenArchive(distribution), 'lib')
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-pulsar-'))
  const [webPort, brokerPort] = (await freePorts(2)) as [number, number]
  const place = { folder, lib, webPort }
  const advertised = await options.advertise?.(brokerPort)
  const listeners = advertised && { advertisedListeners: `tests:pulsar://127.0.0.1:${advertised}` }
  const settings = Object.entries({ ...settingsOf(webPort, brokerPort), ...listeners, ...options.settings })
  await writeFile(
    join(folder, 'standalone.conf'),
    settings.map(([name, value]) => `${name}=${value}\n`).join(''),
  )
  await writeFile(join(folder, 'log4j2.xml'), log4j)
  let child: ChildProcess | undefined
  const server: PulsarServer = {
    url: `ws://127.0.0.1:${webPort}`,
    binaryUrl: `pulsar://127.0.0.1:${advertised ?? brokerPort}`,
    adminUrl: `http://127.0.0.1:${webPort}`,
    kill: () => end(child, 'SIGKILL'),
    shutDown: () => end(child, 'SIGTERM'),
    async restart() {
      child = launch(place)
      await ready(child, webPort, options.token)
    },
    async stop() {
      await end(child, 'SIGKILL')
      await rm(folder, { recursive: true, force: true })
    },
  }
  try {
    await server.restart()
    return server
  } catch (error) {
    await server.stop()
    throw error
  }
}

function settingsOf(webPort: number, brokerPort: number): Record<string, string | number | boolean> {
  return {
    clusterName: 'standalone',
    bindAddress: '127.0.0.1',
    advertisedAddress: '127.0.0.1',
    // without this the bookie listens on every address
    listeningInterface: loopbackInterface(),
    allowLoopback: true,
    brokerServicePort: brokerPort,
    webServicePort: webPort,
    webSocketServiceEnabled: true,
    // 5 MiB, the largest message of Pulsar, is 7 MiB in base64
    webSocketMaxTextFrameSize: 8 * 1024 * 1024,
    allowAutoTopicCreation: false,
    brokerDeleteInactiveTopicsEnabled: false,
    managedLedgerDefaultEnsembleSize: 1,
    managedLedgerDefaultWriteQuorum: 1,
    managedLedgerDefaultAckQuorum: 1,
    // each look for new entries would come 10 ms late
    managedLedgerNewEntriesCheckDelayInMillis: 0,
    loadBalancerEnabled: false,
    loadManagerClassName: 'org.apache.pulsar.broker.loadbalance.NoopLoadManager',
    journalSyncData: false,
    diskUsageThreshold: 0.99,
    diskUsageWarnThreshold: 0.98,
  }
}

function loopbackInterface(): string {
  const found = Object.entries(networkInterfaces()).find(([, addresses]) =>
    addresses?.some(({ address }) => address === '127.0.0.1'),
  )
  return found?.[0] ?? 'lo'
}

const log4j = `<Configuration status="ERROR">
  <Appenders><Console name="out"><PatternLayout pattern="%p %c{1} %m%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
`

const opened = [
  ...['java.io', 'java.util.zip', 'java.nio', 'jdk.internal.misc', 'jdk.internal.platform'].map(
    (name) => `java.base/${name}`,
  ),
  'java.management/sun.management',
  'jdk.management/com.sun.management.internal',
]

function launch({ folder, lib }: Place): ChildProcess {
  const memory = ['-Xms256m', '-Xmx512m', '-XX:MaxDirectMemorySize=512m', '-XX:+UseSerialGC']
  const netty = ['-Dio.netty.tryReflectionSetAccessible=true', '-Djava.net.preferIPv4Stack=true']
  const logging = `-Dlog4j2.configurationFile=${join(folder, 'log4j2.xml')}`
  const modules = opened.flatMap((name) => ['--add-opens', `${name}=ALL-UNNAMED`])
  const starter = ['org.apache.pulsar.PulsarStandaloneStarter', '--config', join(folder, 'standalone.conf')]
  const parts = ['-nss', '-nfw', '--num-bookies', '1', '-a', '127.0.0.1']
  const data = [
    '--metadata-url',
    `rocksdb://${folder}/metadata`,
    '--bookkeeper-dir',
    join(folder, 'bookkeeper'),
  ]
  const command = [...memory, ...netty, logging, ...modules, '-cp', `${lib}/*`, ...starter, ...parts, ...data]
  const child = spawn('java', command, { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] })
  // A test that dies takes its server with it.
  const killOnExit = (): void => void child.kill('SIGKILL')
  process.once('exit', killOnExit)
  child.once('exit', () => process.off('exit', killOnExit))
  return child
}

/** In the admin API: the server writes and reads a message. */
export const healthPath = '/brokers/health?topicVersion=V2'

/** Resolves when the server has written and read a message: after a kill its storage is later than its admin API. */
async function ready(child: ChildProcess, webPort: number, token: string | undefined): Promise<void> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const lastLines: string[] = []
  createInterface(child.stdout as NodeJS.ReadableStream).on('line', (line) => {
    if (lastLines.push(line) > 40) lastLines.shift()
  })
  const ask = (path: string): Promise<string> =>
    fetch(`http://127.0.0.1:${webPort}/admin/v2${path}`, {
      headers,
      signal: AbortSignal.timeout(5_000),
    }).then(
      (response) => response.text(),
      () => '',
    )
  const deadline = Date.now() + startTimeoutMs
  for (;;) {
    const answers = await Promise.all([ask('/namespaces/public'), ask(healthPath)])
    if (answers[0].includes('public/default') && answers[1] === 'ok') return
    const ended = child.exitCode !== null || child.signalCode !== null
    if (ended || Date.now() > deadline) {
      throw new Error(`Pulsar ${ended ? 'ended' : 'did not start in time'}\n${lastLines.join('\n')}`)
    }
    await delay(100)
  }
}

async function end(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
  await new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.kill(signal)
  })
}
