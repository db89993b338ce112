// What the contract tests stand on: clients that are closed after each test, fresh names, members of groups that note
// what they were given, and waits for a state.
import { randomUUID } from 'node:crypto'
import { expect, type TestContext, vi } from 'vitest'
import type {
  Broker,
  Delivery,
  OutgoingBytes,
  ReadMessage,
  Subscription,
  TopicSpec,
} from '../../../src/broker/broker.ts'

/** What an implementation may lack. */
export type Capability =
  /** Messages in flight move to a member that joins while the first one goes on. */
  | 'reassignment'
  /** `ordering: 'key'`. */
  | 'key-order'
  | 'compaction'
  /** Messages over 1 MiB: only foreign ones, and their dead letters, are so large. */
  | 'large-messages'
  /** `publishForeign` is given. */
  | 'foreign-producers'

export interface BrokerUnderTest {
  /** One more client of the same cluster. */
  connect(): Promise<Broker>
  stop(): Promise<void>
  /** Publishes a value with neither key nor headers, as a program that is not ours would. */
  publishForeign?(topic: string, value: Uint8Array): Promise<void>
  /** The longest wait for one state, in milliseconds. Default 15,000. */
  readonly patienceMs?: number
  /** How long the slow handler works, in milliseconds: longer than the session timeout. Default 1,500. */
  readonly slowHandlerMs?: number
  /** What this implementation cannot do, each with its reason, which is printed when a test is skipped. */
  readonly lacks?: Readonly<Partial<Record<Capability, string>>>
}

export type Harness = ReturnType<typeof createHarness>

export function createHarness() {
  let opened: BrokerUnderTest | undefined
  let clients: Broker[] = []
  let members: Member[] = []
  const stamp = randomUUID().slice(0, 8)
  let count = 0

  const under = () => {
    if (opened === undefined) throw new Error('the cluster did not start')
    return opened
  }
  const patience = () => under().patienceMs ?? 15_000

  const harness = {
    start(cluster: BrokerUnderTest) {
      opened = cluster
    },
    async stop() {
      await opened?.stop()
    },
    /** A client that is closed when the test ends, unless the test closes it. */
    async client(): Promise<Broker> {
      const client = await under().connect()
      clients.push(client)
      return client
    },
    async closeClients() {
      await Promise.all(clients.map((client) => client.close()))
      await Promise.all(
        members.map((member) => harness.within('the members end with their clients', member.ended)),
      )
      clients = []
      members = []
    },
    get under() {
      return under()
    },
    get slowHandlerMs() {
      return under().slowHandlerMs ?? 1500
    },
    /** A name that no other test has. */
    fresh: (what: string) => `suite-${stamp}.${what}-${++count}`,
    /** A fresh topic, made. */
    async topic(client: Broker, spec: Partial<Omit<TopicSpec, 'name'>> = {}): Promise<string> {
      const name = harness.fresh('topic')
      await client.ensureTopics([{ name, partitions: 3, ...spec }])
      return name
    },
    /** Waits until `condition` holds. */
    async eventually(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
      const deadline = Date.now() + patience()
      await vi.waitFor(
        async () => {
          if (!(await condition())) throw new Error(`waited ${patience()} ms in vain until ${what}`)
        },
        { timeout: deadline - Date.now(), interval: 10 },
      )
    },
    /** Waits for a promise, with a bound. */
    async within<T>(what: string, promise: Promise<T>): Promise<T> {
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(
          () => reject(new Error(`waited ${patience()} ms in vain until ${what}`)),
          patience(),
        )
      })
      return Promise.race([promise, late]).finally(() => clearTimeout(timer))
    },
    /** Joins a group and goes on taking what comes; see `Member`. */
    join(
      client: Broker,
      subscription: Partial<Subscription> & Pick<Subscription, 'topic'>,
      act: Act = ackAll,
    ): Member {
      const member = createMember(
        client,
        {
          group: harness.fresh('group'),
          maxInFlight: 100,
          from: 'earliest',
          ordering: 'none',
          ...subscription,
        },
        act,
      )
      members.push(member)
      return member
    },
    /** Skips the test with the reason, in print, when the implementation lacks this. */
    needs(capability: Capability, { task, skip }: TestContext): void {
      const reason =
        under().lacks?.[capability] ??
        (capability === 'foreign-producers' && under().publishForeign === undefined
          ? 'publishForeign is not given'
          : undefined)
      if (reason === undefined) return
      console.info(`skipped: ${task.name}: ${reason}`)
      skip(reason)
    },
    /** Everything in a topic up to its present end. */
    async readAll(client: Broker, topic: string): Promise<ReadMessage[]> {
      const found: ReadMessage[] = []
      const whole = (async () => {
        for await (const message of client.read(
          { topic, from: 'earliest', until: 'end' },
          new AbortController().signal,
        )) {
          found.push(message)
        }
      })()
      await harness.within('the topic was read to its end', whole)
      return found
    },
  }
  return harness
}

/** What a member does with a delivery. A promise is not waited for before the next one is taken. */
export type Act = (delivery: Delivery, member: Member) => void | Promise<void>

export const ackAll: Act = (delivery) => delivery.ack()
/** Settles nothing. */
export const hold: Act = () => {}

export interface Member {
  readonly group: string
  /** Everything that was delivered, repeats included. */
  readonly deliveries: readonly Delivery[]
  /** The texts that were delivered, in order, repeats included. */
  readonly texts: readonly string[]
  /** What the test does with what is delivered from now on. */
  act: Act
  /** Asks for a graceful end, and waits for it. */
  leave(): Promise<void>
  /** Asks for a graceful end. */
  readonly stop: AbortController
  /** Resolves when the iteration is over; rejects with what it, or `act`, threw. */
  readonly ended: Promise<void>
  readonly over: boolean
}

function createMember(client: Broker, subscription: Subscription, act: Act): Member {
  const deliveries: Delivery[] = []
  const texts: string[] = []
  const stop = new AbortController()
  const acts: Promise<void>[] = []
  let over = false
  const member: Member = {
    group: subscription.group,
    deliveries,
    texts,
    act,
    stop,
    get over() {
      return over
    },
    leave() {
      stop.abort()
      return member.ended
    },
    ended: Promise.resolve(),
  }
  const take = async () => {
    try {
      for await (const delivery of client.consume(subscription, stop.signal)) {
        deliveries.push(delivery)
        texts.push(textOf(delivery))
        acts.push(Promise.resolve(member.act(delivery, member)))
      }
      await Promise.all(acts)
    } finally {
      over = true
    }
  }
  const ended = take()
  ended.catch(() => {}) // handled where one awaits `ended`, at the latest when the clients close
  return Object.assign(member, { ended })
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export const textOf = (message: { readonly value: Uint8Array }) => decoder.decode(message.value)

/** A message with a text as its value. The key is the text unless given. */
export function message(topic: string, text: string, key: string = text): OutgoingBytes {
  return { topic, key, value: encoder.encode(text), headers: {} }
}

/** Publishes `count` texts, `<name>0` on, side by side, and gives them back. */
export async function publishTexts(
  client: Broker,
  topic: string,
  count: number,
  name = 'm',
  key?: (index: number) => string,
): Promise<string[]> {
  const texts = Array.from({ length: count }, (_, index) => `${name}${index}`)
  await Promise.all(texts.map((text, index) => client.publish(message(topic, text, key?.(index)))))
  return texts
}

/** The texts without repeats, sorted: what a set of members saw together. */
export function distinct(...lists: readonly (readonly string[])[]): string[] {
  return [...new Set(lists.flat())].sort()
}

/** The texts without repeats, in the order in which each came first. */
export const firsts = (texts: readonly string[]) => [...new Set(texts)]

/** Where a message lies. Two of one place are one message; two of one text may be a publish that was repeated. */
export const placeOf = (one: { readonly partition: number; readonly position: string }) =>
  `${one.partition} ${one.position}`

export const sorted = (texts: readonly string[]) => [...texts].sort()

/** Expects a rejection with this code. */
export async function expectCode(code: string, promise: Promise<unknown>): Promise<void> {
  await expect(promise).rejects.toMatchObject({ name: 'GraphmillError', code })
}
