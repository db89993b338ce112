// Every processor does its work, and writes its dead letters, on a Kafka that denies all but what docs/permissions.md says.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import kafkajs from 'kafkajs'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { processors } from '../../../processors/index.ts'
import type { Broker } from '../../../src/broker/broker.ts'
import { connectKafka } from '../../../src/broker/kafka/kafka.ts'
import { deadTopic, schemasTopic, topicName, topicSpec } from '../../../src/broker/topics.ts'
import { toGraphmillError } from '../../../src/errors.ts'
import { type Permission, permissionsOf } from '../../../src/flow/permissions.ts'
import {
  type InputPort,
  inputGroup,
  inputTopic,
  isReply,
  type OutputPort,
  outputRoute,
} from '../../../src/flow/ports.ts'
import type { AnyProcessor } from '../../../src/flow/processor.ts'
import { type FlowRuntime, groupsOf, run, topicsOf } from '../../../src/flow/run.ts'
import { openCache } from '../../../src/llm/cache/reply-cache.ts'
import { createCodec } from '../../../src/messages/codec.ts'
import type { Header, TypedPayload } from '../../../src/messages/envelope.ts'
import { loadSchemas, type PayloadName } from '../../../src/messages/registry.ts'
import { type Ontologies, openOntologies } from '../../../src/ontology/ontologies.ts'
import { loadCatalogue } from '../../../src/prompt/catalogue/catalogue.ts'
import { readTable } from '../../../src/rows/definition.ts'
import { rowSchema } from '../../../src/rows/row-schema.ts'
import { fixture } from '../../ontology/support/files.ts'
import { brokerSource } from '../../support/brokers.ts'
import { scope, settings } from '../../support/flow.ts'
import { type KafkaServer, startKafka } from '../../support/kafka-server.ts'
import { scriptedLlm } from '../../support/scripted-llm.ts'
import { expectCode } from '../suite/harness.ts'

const present = (await brokerSource('Kafka with an authorizer', ['jars'])) !== undefined
const place = { space: 'gm', ...scope }
const receivers = processors
  .filter(({ inputs }) => (inputs as readonly string[]).includes('prompt-reply'))
  .map(({ name }) => name)
const client = topicName({ ...place, class: 'response', role: 'text-completion', receiver: 'client' })
const rightsOf = (processor: AnyProcessor) =>
  permissionsOf(processor, place, processor.name === 'text-completion' ? ['client'] : receivers)

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs
const operations = {
  read: AclOperationTypes.READ,
  write: AclOperationTypes.WRITE,
  create: AclOperationTypes.CREATE,
  configs: AclOperationTypes.DESCRIBE_CONFIGS,
}
const aclOf = (user: string, { kind, name, right }: Permission) => ({
  resourceType: kind === 'topic' ? AclResourceTypes.TOPIC : AclResourceTypes.GROUP,
  resourceName: name,
  resourcePatternType: ResourcePatternTypes.LITERAL,
  principal: `User:${user}`,
  host: '*',
  operation: operations[right],
  permissionType: AclPermissionTypes.ALLOW,
})

const replies: Readonly<Record<string, string>> = {
  'extract-definitions': '{"entity": "Albion Mill", "definition": "A mill."}',
  'extract-relationships': '{"subject": "Albion Mill", "predicate": "ground", "object": "grain"}',
  'extract-topics': '{"topic": "milling", "definition": "To grind grain."}',
  'extract-rows': '{"name": "Albion Mill"}',
  'agent-kg-extract': '{"type": "definition", "entity": "sluice", "definition": "A gate."}',
  'extract-with-ontologies': [
    '{"type": "entity", "entity": "Albion Mill", "entity_type": "mill"}',
    '{"type": "entity", "entity": "Ada", "entity_type": "Person"}',
    '{"type": "relationship", "subject": "Ada", "subject_type": "Person", "relation": "owns", "object": "Albion Mill", "object_type": "Mill"}',
    '{"type": "attribute", "entity": "Albion Mill", "entity_type": "Mill", "attribute": "opened", "value": 1786}',
  ].join('\n'),
}

describe.skipIf(!present)('on a Kafka with an authorizer', { timeout: 120_000 }, () => {
  let server: KafkaServer
  let admin: Broker
  let ontologies: Ontologies
  let cacheDir: string
  const codec = createCodec(loadSchemas())
  const stop = new AbortController()
  const opened: Broker[] = []
  const stored = Promise.withResolvers<void>()
  const rowsStored = Promise.withResolvers<void>()
  const withdrawn = Promise.withResolvers<void>()
  const runtimes: FlowRuntime[] = []
  const logged: string[] = []
  const as = async (username: string) => {
    const broker = await connectKafka({
      brokers: server.bootstrap,
      sasl: { mechanism: 'plain', username, password: `${username}-secret` },
    })
    opened.push(broker)
    return broker
  }

  beforeAll(async () => {
    cacheDir = await mkdtemp(join(tmpdir(), 'graphmill-cache-'))
    const users = ['admin', ...processors.map(({ name }) => name)]
    server = await startKafka({
      properties: {
        'listener.security.protocol.map': 'PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT',
        'sasl.enabled.mechanisms': 'PLAIN',
        'sasl.mechanism.inter.broker.protocol': 'PLAIN',
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'super.users': 'User:admin;User:ANONYMOUS',
        'listener.name.plaintext.plain.sasl.jaas.config':
          'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="admin-secret" ' +
          `${users.map((user) => `user_${user}="${user}-secret"`).join(' ')};`,
      },
    })
    admin = await as('admin')
    await admin.ensureTopics([
      ...topicsOf(processors, place),
      topicSpec(schemasTopic('gm')),
      topicSpec(client),
    ])
    await changeAcls((acls) =>
      acls.createAcls({
        acl: processors.flatMap((processor) =>
          rightsOf(processor).map((each) => aclOf(processor.name, each)),
        ),
      }),
    )
    ontologies = await openOntologies({ paths: [fixture('mills.ttl')], budget: 2000 })
    const table = readTable(
      'mill',
      { fields: [{ name: 'name', primary_key: true }] },
      { at: [], report: () => {} },
    )!
    const prompts = await loadCatalogue()
    for (const processor of processors) {
      const broker = await as(processor.name)
      await broker.ensureGroups(groupsOf([processor], place))
      runtimes.push(
        await run(
          {
            broker,
            processors: [processor],
            flows: [
              {
                ...scope,
                settings: { ...settings, extractors: receivers, rowSchemas: [rowSchema(table)], ontologies },
              },
            ],
            llm: scriptedLlm(({ origin }) => replies[origin?.promptId ?? ''] ?? 'Hello.'),
            prompts,
            store: {
              write: async () => undefined,
              support: {
                state: async () => void stored.resolve(),
                withdraw: async () => withdrawn.resolve(),
              },
              close: async () => undefined,
            },
            rowStore: { write: async () => rowsStored.resolve(), close: async () => undefined },
            replies: openCache({ dir: cacheDir }),
            log: pino({ level: 'warn' }, { write: (line: string) => void logged.push(line) }),
          },
          stop.signal,
        ),
      )
    }
  }, 180_000)
  afterAll(async () => {
    await Promise.all(runtimes.map((mill) => mill.stop(0)))
    stop.abort()
    await Promise.all(opened.map((broker) => broker.close()))
    await ontologies?.close()
    await server?.stop()
    await rm(cacheDir, { recursive: true, force: true })
  })

  test('every processor does its work', async () => {
    const document = { title: 't', part: 0, text: 'The Albion Mill ground grain.' }
    await send('document', 'TextDocument', document, { version: '1', versionTime: 1 })
    await send('text-completion', 'TextCompletionRequest', { prompt: 'Hello?' }, { replyTo: client })
    const written = new Set(processors.flatMap(({ outputs }) => outputsOf(outputs as readonly OutputPort[])))
    const retractions = outputRoute('retractions', place).topic
    for (const topic of [...written, client]) if (topic !== retractions) await first(topic)
    for (const receiver of receivers)
      await first(topicName({ ...place, class: 'response', role: 'prompt', receiver }))
    await stored.promise
    await rowsStored.promise
    await send('document', 'TextDocument', { ...document, text: '', removed: 'removed' })
    await first(retractions)
    await withdrawn.promise
    await expect.poll(lagOf, { timeout: 60_000, interval: 500 }).toEqual([])
    expect((await admin.listTopics('gm.')).filter(({ name }) => name.endsWith('.dead'))).toEqual([])
    // What a processor follows besides is not needed to handle messages.
    expect(logged.filter((line) => line.includes('topic_refused'))).toEqual([])
  })

  test('every processor writes the dead letters of every input', async () => {
    const readers = new Map<string, number>()
    for (const { name, inputs } of processors)
      for (const port of inputs as readonly InputPort[]) {
        const topic = inputTopic(port, place, name)
        readers.set(topic, (readers.get(topic) ?? 0) + 1)
      }
    for (const topic of readers.keys())
      await admin.publish({ topic, key: 'k', value: Buffer.from('no message'), headers: {} })
    for (const [topic, count] of readers) {
      await expect
        .poll(async () => (await admin.listTopics(deadTopic(topic))).length, {
          timeout: 60_000,
          interval: 500,
        })
        .toBe(1)
      await first(deadTopic(topic), count)
    }
  })

  test('and no processor can do what is not its own', async () => {
    const to = (topic: string) => ({ topic, key: 'k', value: Buffer.from('x'), headers: {} })
    const fact = outputRoute('definitions', place).topic
    const user = opened[1 + processors.findIndex(({ name }) => name === 'prompt')]!
    await expectCode('topic_refused', user.publish(to(fact)))
    const reads = async () => {
      for await (const _ of user.read(
        { topic: fact, from: 'earliest', until: 'end' },
        AbortSignal.timeout(20_000),
      ));
    }
    await expectCode('topic_refused', reads())
    const chunks = processors.find(({ name }) => name === 'extract-topics')!
    await expectCode('topic_refused', user.ensureGroups(groupsOf([chunks], place)))
    await expectCode(
      'topic_refused',
      user.ensureTopics([{ name: 'gm.flow.chunk.other.other', partitions: 1 }]),
    )
  })

  test('requests for replies to topics that it may not write to are dead letters, and hold up no others', {
    timeout: 240_000,
  }, async () => {
    const responses = (receiver: string) =>
      topicName({ ...place, class: 'response', role: 'prompt', receiver })
    const [friend, stranger, seen] = [responses('friend'), responses('stranger'), responses('seen')]
    await admin.ensureTopics([friend, stranger, seen].map((name) => topicSpec(name)))
    const allow = (name: string, operation: kafkajs.AclOperationTypes) => ({
      ...aclOf('prompt', { kind: 'topic', name, right: 'write' }),
      operation,
    })
    await changeAcls((acls) =>
      acls.createAcls({
        acl: [allow(friend, AclOperationTypes.WRITE), allow(seen, AclOperationTypes.DESCRIBE)],
      }),
    )
    const permitted = opened[1 + processors.findIndex(({ name }) => name === 'prompt')]!
    const other = await as('prompt')
    for (const topic of [friend, seen])
      for (const user of [permitted, other]) await becomes(user, topic, true)
    const dead = deadTopic(outputRoute('prompt', place).topic)
    const before = await codesOf(dead)
    const ask = (replyTo: string, count: number) =>
      Promise.all(
        Array.from({ length: count }, (_, n) => {
          const terms = { text: JSON.stringify(`${replyTo} ${n}`) }
          return send('prompt', 'PromptRequest', { promptId: 'extract-definitions', terms }, { replyTo })
        }),
      )
    // More than the processor has in flight at once.
    await Promise.all([ask(stranger, 300), ask(seen, 20), ask(friend, 20)])
    await first(friend, 20)
    await first(dead, before.length + 320)
    expect((await codesOf(dead)).slice(before.length)).toEqual(Array(320).fill('reply_topic_refused'))
    // The producer knows the friend's topic already, and the refusal must not spoil what it knows of the others.
    await changeAcls((acls) => acls.deleteAcls({ filters: [allow(friend, AclOperationTypes.WRITE)] }))
    await becomes(other, friend, 'topic_refused')
    const answered = (await headersIn(responses('extract-topics'))).length
    await Promise.all([ask(friend, 5), ask(responses('extract-topics'), 5)])
    await first(dead, before.length + 325)
    await first(responses('extract-topics'), answered + 5)
    expect((await codesOf(dead)).slice(before.length)).toEqual(Array(325).fill('reply_topic_refused'))
    const paused = []
    const range = { topic: outputRoute('progress', place).topic, from: 'earliest', until: 'end' } as const
    for await (const { value, headers } of admin.read(range, AbortSignal.timeout(30_000)))
      if (headers['type'] === 'Progress') paused.push(codec.decode(value, headers).payload)
    expect(paused.filter((entry) => 'kind' in entry && entry.kind === 'paused')).toEqual([])
  })

  async function changeAcls(change: (acls: kafkajs.Admin) => Promise<unknown>): Promise<void> {
    const kafka = new kafkajs.Kafka({
      brokers: [...server.bootstrap],
      sasl: { mechanism: 'plain', username: 'admin', password: 'admin-secret' },
      logLevel: kafkajs.logLevel.NOTHING,
    })
    const acls = kafka.admin()
    await acls.connect()
    await change(acls)
    await acls.disconnect()
  }

  /** Resolves when the topic is there for this user, or what asking for it rejects with. */
  async function becomes(user: Broker, topic: string, expected: boolean | string): Promise<void> {
    const state = () => user.hasTopic(topic).catch((thrown: unknown) => toGraphmillError(thrown).code)
    await expect.poll(state, { timeout: 60_000, interval: 300 }).toBe(expected)
  }

  async function headersIn(topic: string): Promise<Readonly<Record<string, string>>[]> {
    const found = []
    const range = { topic, from: 'earliest', until: 'end' } as const
    for await (const { headers } of admin.read(range, AbortSignal.timeout(30_000))) found.push(headers)
    return found
  }

  const codesOf = async (dead: string) => (await headersIn(dead)).map((headers) => headers['dead-code'])

  async function send<N extends PayloadName>(
    port: Exclude<OutputPort, 'reply' | 'text-reply'>,
    type: N,
    payload: TypedPayload<N>['payload'],
    more: Partial<Header> = {},
  ): Promise<void> {
    const header = {
      ...{
        source: 'test',
        time: Date.now(),
        ...scope,
        collection: 'default',
        documentId: 'urn:d',
        chunkId: '',
      },
      ...{ correlationId: 'c', causationId: '', replyTo: null, deadline: null, traceparent: null, ...more },
    }
    const { topic } = outputRoute(port, place)
    const sealing = { topic, key: 'urn:d', salt: '', id: (digest: string) => digest, startsCorrelation: true }
    await admin.publish(codec.encode(header, { type, payload } as TypedPayload, sealing))
  }

  /** Resolves when a topic holds `count` messages. */
  async function first(topic: string, count = 1): Promise<void> {
    const signal = AbortSignal.timeout(60_000)
    let left = count
    for await (const _ of admin.read({ topic, from: 'earliest', until: 'never' }, signal))
      if (--left === 0) return
    throw new Error(`${topic} lacks ${left} of ${count} messages`)
  }

  async function lagOf(): Promise<string[]> {
    const pairs = processors.flatMap(({ name, inputs }) =>
      (inputs as readonly InputPort[]).map(
        (port) => [inputGroup(port, place, name), inputTopic(port, place, name)] as const,
      ),
    )
    const lags = await Promise.all(
      pairs.map(async ([group, topic]) => ({ group, lag: await admin.lag(group, topic) })),
    )
    return lags.filter(({ lag }) => lag.total > 0).map(({ group }) => group)
  }
})

const outputsOf = (ports: readonly OutputPort[]) =>
  ports
    .filter((port) => !isReply(port) && port !== 'rejected')
    .map((port) => outputRoute(port as 'chunk', place).topic)
