// Messages that kill their process, and processes that are killed without a message being why, on any broker.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'vitest'
import type { Broker, ReadMessage } from '../../src/broker/broker.ts'
import { deadTopic, topicName, topicSpec } from '../../src/broker/topics.ts'
import { createCodec } from '../../src/messages/codec.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { seeded } from '../fuzz/target.ts'
import { scope } from '../support/flow.ts'
import type { Site } from './execution.ts'

const codec = createCodec(loadSchemas())
const program = new URL('mortal-worker.ts', import.meta.url).pathname

interface Trial {
  readonly chunks: string
  readonly topics: string
  /** Publishes a chunk for each text. */
  send(texts: readonly string[]): Promise<void>
  /** Starts a replica; resolves when it runs, or has ended before it did. */
  start(): Promise<ChildProcess>
  /** What was made of the chunks so far, by their text. */
  done(): Promise<Set<string>>
  letters(): Promise<readonly ReadMessage[]>
  /** What all replicas have said so far. */
  said(): string
}

async function openTrial(
  broker: Broker,
  { brokerUrl }: Site,
  space: string,
  groupInstanceId?: string,
): Promise<Trial> {
  const place = { space, ...scope, class: 'flow' } as const
  const [chunks, topics] = [topicName({ ...place, role: 'chunk' }), topicName({ ...place, role: 'topics' })]
  await broker.ensureTopics([topicSpec(chunks, { partitions: 2 }), topicSpec(topics)])
  let said = ''

  async function readAll(topic: string): Promise<ReadMessage[]> {
    const found: ReadMessage[] = []
    const range = { topic, from: 'earliest', until: 'end' } as const
    for await (const entry of broker.read(range, new AbortController().signal)) found.push(entry)
    return found
  }

  return {
    chunks,
    topics,
    said: () => said,
    async send(texts) {
      for (const text of texts) {
        const header = {
          ...{ source: 'test', time: 1, ...scope, collection: '', documentId: '', chunkId: text },
          ...{ correlationId: text, causationId: '', replyTo: null, deadline: null, traceparent: null },
        }
        const payload = { text, part: 0, index: 0, offset: 0, length: text.length }
        const sealing = { topic: chunks, key: text, salt: text, id: (digest: string) => digest }
        await broker.publish(codec.encode(header, { type: 'Chunk', payload }, sealing))
      }
    },
    async start() {
      const child = spawn(
        process.execPath,
        [
          '--disable-warning=ExperimentalWarning',
          '--max-old-space-size=200',
          program,
          brokerUrl,
          space,
          ...(groupInstanceId ? [groupInstanceId] : []),
        ],
        { stdio: ['ignore', 'ignore', 'pipe'] },
      )
      const killOnExit = () => void child.kill('SIGKILL')
      process.once('exit', killOnExit)
      child.once('close', () => process.off('exit', killOnExit))
      const running = new Promise<void>((resolve) => {
        child.stderr!.setEncoding('utf8').on('data', (text: string) => {
          said += text
          if (text.includes('running')) resolve()
        })
      })
      await Promise.race([running, once(child, 'close')])
      return child
    },
    async done() {
      const messages = (await readAll(topics)).map(({ value, headers }) => codec.decode(value, headers))
      return new Set(messages.map((message) => (message as Message<'Topics'>).payload.facts[0]!.topic))
    },
    async letters() {
      const found = await broker.listTopics(deadTopic(chunks))
      return found.length === 0 ? [] : await readAll(deadTopic(chunks))
    },
  }
}

const hasEnded = ({ exitCode, signalCode }: ChildProcess) => exitCode !== null || signalCode !== null

async function ended(child: ChildProcess): Promise<void> {
  if (!hasEnded(child)) await once(child, 'close')
}

/**
 * A chunk that kills among others: it ends as a dead letter, and none of the others does. Resolves to what was said. With a
 * `groupInstanceId`, each replica joins under this name.
 */
export async function killing(
  site: Site,
  { poison, groupInstanceId }: { readonly poison: string; readonly groupInstanceId?: string },
): Promise<string> {
  const broker = await site.connect()
  try {
    const trial = await openTrial(broker, site, `killing-${groupInstanceId ?? poison}`, groupInstanceId)
    const good = Array.from({ length: 40 }, (_, index) => `good ${index}`)
    await trial.send([...good.slice(0, 15), poison, ...good.slice(15)])
    let deaths = 0
    let child = await trial.start()
    while ((await trial.letters()).length === 0 || (await trial.done()).size < good.length) {
      expect(deaths).toBeLessThan(12)
      await delay(300)
      if (!hasEnded(child)) continue
      deaths++
      child = await trial.start()
    }
    child.kill('SIGTERM')
    await ended(child)
    const letters = await trial.letters()
    expect(letters.map(({ key, headers }) => [key, headers['dead-code']])).toEqual([
      [poison, 'killed_process'],
    ])
    expect([...(await trial.done())].sort()).toEqual([...good].sort())
    expect(deaths).toBeGreaterThanOrEqual(4)
    return trial.said()
  } finally {
    await broker.close()
  }
}

/** Replicas that are killed at random, with no message being why: all is done, and nothing is dead. */
export async function rollingKills(
  site: Site,
  { kills, seed }: { kills: number; seed: number },
): Promise<void> {
  const broker = await site.connect()
  const rng = seeded(seed)
  const replicas: ChildProcess[] = []
  try {
    const trial = await openTrial(broker, site, 'rolling')
    const sent: string[] = []
    const sendMore = async () => {
      const more = Array.from({ length: 20 }, (_, index) => `slow ${sent.length + index}`)
      sent.push(...more)
      await trial.send(more)
    }
    await sendMore()
    replicas.push(await trial.start(), await trial.start())
    for (let kill = 0; kill < kills; kill++) {
      await sendMore()
      await delay(rng() * 3000)
      const [victim] = replicas.splice(Math.floor(rng() * replicas.length), 1)
      victim!.kill('SIGKILL')
      await ended(victim!)
      replicas.push(await trial.start())
    }
    while ((await trial.done()).size < sent.length) await delay(500)
    expect(await trial.letters()).toEqual([])
  } finally {
    for (const replica of replicas) replica.kill('SIGKILL')
    await broker.close()
  }
}
