// A real Kafka on free loopback ports: one node, or three that replicate. Its folders go when it stops.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { mavenArtifacts } from './maven.ts'
import { freePorts } from './ports.ts'

const run = promisify(execFile)
const clusterId = 'MkU3OEVBNTcwNTJENDM2Qk'
const startTimeoutMs = 100_000

export interface KafkaServerOptions {
  /** Default 1. Three replicate every topic three times and store a message on two before they confirm it. */
  readonly brokers?: 1 | 3
  /** More lines for `server.properties`, or others instead. */
  readonly properties?: Readonly<Record<string, string | number>>
}

export interface KafkaServer {
  /** Addresses of the brokers, `127.0.0.1:port`. */
  readonly bootstrap: readonly string[]
  /** The folders with the data of the brokers. */
  readonly folders: readonly string[]
  /** SIGKILL. Resolves when the process is gone. */
  kill(broker: number): Promise<void>
  /** SIGTERM. Resolves when the process is gone. */
  shutDown(broker: number): Promise<void>
  /** Starts a broker that was killed or shut down, on its old port and data. */
  restart(broker: number): Promise<void>
  /** Ends every broker and deletes its data. */
  stop(): Promise<void>
}

/** A client that looks for a broker that is gone may get its port as its own, and gives it back when it notices. */
async function startAgain(node: Node, jars: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(node, jars)
    } catch (error) {
      if (attempt === 5 || !(error as Error).message.includes('Address already in use')) throw error
      await pause(2000)
    }
  }
}

interface Node {
  readonly id: number
  readonly port: number
  readonly controllerPort: number
  readonly folder: string
  process?: ChildProcess
}

/** The folder with the jars of Kafka. */
export const kafkaJars = () =>
  mavenArtifacts({
    name: 'kafka-4.3.1',
    artifacts: ['org.apache.kafka:kafka_2.13:4.3.1', 'org.apache.logging.log4j:log4j-slf4j-impl:2.25.4'],
  })

/** Resolves when every broker takes requests. */
export async function startKafka(options: KafkaServerOptions = {}): Promise<KafkaServer> {
  const jars = await kafkaJars()
  const root = await mkdtemp(join(tmpdir(), 'graphmill-kafka-'))
  const ports = await freePorts((options.brokers ?? 1) * 2)
  const nodes: Node[] = Array.from({ length: options.brokers ?? 1 }, (_, index) => ({
    id: index + 1,
    port: ports[index * 2]!,
    controllerPort: ports[index * 2 + 1]!,
    folder: join(root, `node-${index + 1}`),
  }))
  const server: KafkaServer = {
    bootstrap: nodes.map((node) => `127.0.0.1:${node.port}`),
    folders: nodes.map((node) => join(node.folder, 'data')),
    kill: (broker) => end(nodes[broker]!, 'SIGKILL'),
    shutDown: (broker) => end(nodes[broker]!, 'SIGTERM'),
    restart: (broker) => startAgain(nodes[broker]!, jars),
    async stop() {
      // A broker of three that shuts down cleanly waits for its controllers: with all going, killing is the end of it.
      await Promise.all(nodes.map((node) => end(node, 'SIGKILL')))
      await rm(root, { recursive: true, force: true })
    },
  }
  try {
    await Promise.all(nodes.map((node) => format(node, nodes, jars, options.properties ?? {})))
    await Promise.all(nodes.map((node) => start(node, jars)))
    return server
  } catch (error) {
    await server.stop()
    throw error
  }
}

async function format(node: Node, nodes: readonly Node[], jars: string, extra: object): Promise<void> {
  await mkdir(node.folder, { recursive: true })
  const properties = Object.entries({ ...propertiesOf(node, nodes), ...extra })
  const file = join(node.folder, 'server.properties')
  await writeFile(file, properties.map(([name, value]) => `${name}=${value}\n`).join(''))
  await writeFile(join(node.folder, 'log4j2.xml'), log4j)
  const tool = ['kafka.tools.StorageTool', 'format', '-t', clusterId, '-c', file]
  await run('java', ['-Xmx256m', ...logging(node), '-cp', `${jars}/*`, ...tool])
}

function propertiesOf(node: Node, nodes: readonly Node[]): Record<string, string | number> {
  const replicas = nodes.length
  return {
    'process.roles': 'broker,controller',
    'node.id': node.id,
    'controller.quorum.voters': nodes
      .map(({ id, controllerPort }) => `${id}@127.0.0.1:${controllerPort}`)
      .join(),
    'controller.listener.names': 'CONTROLLER',
    listeners: `PLAINTEXT://127.0.0.1:${node.port},CONTROLLER://127.0.0.1:${node.controllerPort}`,
    'advertised.listeners': `PLAINTEXT://127.0.0.1:${node.port}`,
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'inter.broker.listener.name': 'PLAINTEXT',
    'log.dirs': join(node.folder, 'data'),
    'default.replication.factor': replicas,
    'min.insync.replicas': Math.min(replicas, 2),
    'offsets.topic.replication.factor': replicas,
    'offsets.topic.num.partitions': 3,
    'transaction.state.log.replication.factor': replicas,
    'transaction.state.log.min.isr': 1,
    'share.coordinator.state.topic.replication.factor': replicas,
    'share.coordinator.state.topic.min.isr': 1,
    'auto.create.topics.enable': 'false',
    'group.initial.rebalance.delay.ms': 0,
    'group.min.session.timeout.ms': 1000,
    'broker.session.timeout.ms': 3000,
    'broker.heartbeat.interval.ms': 500,
    'controller.quorum.election.timeout.ms': 500,
    'controller.quorum.fetch.timeout.ms': 1000,
    'log.cleaner.dedupe.buffer.size': 4 * 1024 * 1024,
  }
}

const log4j = `<Configuration status="ERROR">
  <Appenders><Console name="out"><PatternLayout pattern="%p %c{1} %m%n"/></Console></Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
`

const logging = (node: Node) => [`-Dlog4j2.configurationFile=${join(node.folder, 'log4j2.xml')}`]

/** Resolves at the line with which Kafka says that it is ready. */
async function start(node: Node, jars: string): Promise<void> {
  const heap = ['-Xms128m', '-Xmx384m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']
  const main = ['-cp', `${jars}/*`, 'kafka.Kafka', join(node.folder, 'server.properties')]
  const child = spawn('java', [...heap, ...logging(node), ...main], { stdio: ['ignore', 'pipe', 'ignore'] })
  node.process = child
  // A test that dies takes its servers with it.
  const killOnExit = () => child.kill('SIGKILL')
  process.once('exit', killOnExit)
  child.once('exit', () => process.off('exit', killOnExit))

  const lastLines: string[] = []
  const started = Promise.withResolvers<void>()
  createInterface(child.stdout).on('line', (line) => {
    if (line.includes('Kafka Server started')) started.resolve()
    if (lastLines.push(line) > 40) lastLines.shift()
  })
  const fail = (what: string) =>
    started.reject(new Error(`Kafka ${node.id} ${what}\n${lastLines.join('\n')}`))
  child.once('error', (error) => fail(error.message))
  child.once('close', (code) => fail(`ended with code ${code}`))
  const timer = setTimeout(() => fail('did not start in time'), startTimeoutMs)
  try {
    await started.promise
  } finally {
    clearTimeout(timer)
  }
}

async function end(node: Node, signal: NodeJS.Signals): Promise<void> {
  const child = node.process
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
  await new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.kill(signal)
  })
}
