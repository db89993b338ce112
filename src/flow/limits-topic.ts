// The compacted topic <space>.notify.limits: the replicas that share limits of models publish their leases there, and each reads all of
// them in one order. While it cannot be written or read, no call begins: nothing could be published either.
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Logger } from 'pino'
import type { Broker } from '../broker/broker.ts'
import { limitsTopic, schemasTopic, topicSpec } from '../broker/topics.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import {
  createSharedLimits,
  type LeaseHolder,
  type SharedLimits,
  type SharedLimitsOptions,
} from '../llm/limits/shared-limits.ts'
import { type Codec, createCodec } from '../messages/codec.ts'
import { emptyHeader } from '../messages/envelope.ts'
import type { LimitLease, LimitLeaseInit } from '../messages/generated.ts'
import { loadSchemas } from '../messages/registry.ts'
import type { SchemaRegistry } from '../messages/schema-registry.ts'
import type { LimitState } from '../observe/limit-metrics.ts'
import { pause } from '../wait.ts'
import { systemClock, uuids } from './clock.ts'
import { readContextKeys } from './context-signature.ts'
import { createSchemasTopic, decodeEntry, type SchemasTopic } from './schemas-topic.ts'

export interface LimitsTopicOptions {
  readonly space: string
  readonly log: Logger
  readonly registry: SchemaRegistry | undefined
  /** The value of `--context-key`: leases without a signature by one of the keys do not count. */
  readonly contextKey: (() => string) | undefined
}

export interface LimitsTopic {
  /** The limits of a model that this process shares: of a workspace, or of all if it is empty. They hold back all calls until `start`. */
  share(options: Omit<SharedLimitsOptions, 'replica' | 'model'> & SharedModel): SharedLimits
  /** Publishes and reads from now on, if limits are shared. */
  start(broker: Broker): void
  /** Publishes that this replica leaves. Its calls have ended. */
  close(): Promise<void>
  states(): readonly LimitState[]
}

interface SharedModel {
  readonly workspace: string
  /** `<provider> <destination> <model>`. */
  readonly id: string
  /** The name of the model. */
  readonly model: string
}

interface Member extends Pick<SharedModel, 'workspace' | 'model'> {
  readonly holder: LeaseHolder
  isPublishing: boolean
  /** Whether it was logged that the budget is used up. */
  isExhausted: boolean
}

/** How often leases are looked at when nothing happens, in milliseconds. */
const tickMs = 500
/** How long the end waits for the last leases, in milliseconds. */
const closeMs = 3000
/** After a fault, in milliseconds. */
const againMs = 5000

export function createLimitsTopic({ space, log, registry, contextKey }: LimitsTopicOptions): LimitsTopic {
  const topic = limitsTopic(space)
  const replica = uuids.next()
  const members = new Map<string, Member>()
  const over = new AbortController()
  let connected: Broker | undefined
  let opened: { readonly broker: Broker; readonly codec: Codec; readonly schemas: SchemasTopic } | undefined
  /** Aborted when there is one more member. */
  let joined = new AbortController()
  let reading: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined

  async function publish({ holder, workspace }: Member, lease: LimitLeaseInit): Promise<void> {
    const { broker, codec } = opened!
    const key = [workspace || '*', holder.model, replica].join('/')
    const id = `${replica}-${lease.number}`
    const header = { ...emptyHeader, source: 'limits', time: systemClock.now(), workspace, flow: '' }
    const payload = { ...lease, signature: signatureOf(lease, workspace, keysOf(contextKey)?.[0]) }
    const message = { type: 'LimitLease', payload } as const
    await broker.publish(codec.encode(header, message, { topic, key, salt: id, id: () => id }))
  }

  function tick(member: Member): void {
    const { holder, workspace, model } = member
    if (!opened || member.isPublishing || over.signal.aborted) return
    const exhausted = holder.limits.exhausted()
    if (exhausted && !member.isExhausted)
      log.warn({ err: exhausted, remedy: exhausted.remedy }, 'the budget of a model is used up; calls wait')
    else if (!exhausted && member.isExhausted) log.info({ workspace, model }, 'calls to a model go on')
    member.isExhausted = exhausted !== undefined
    const lease = holder.next()
    if (!lease) return
    member.isPublishing = true
    publish(member, lease)
      .catch((thrown) =>
        log.warn({ topic, err: toGraphmillError(thrown) }, 'a share of limits could not be published'),
      )
      .finally(() => {
        member.isPublishing = false
      })
  }

  async function open(broker: Broker): Promise<NonNullable<typeof opened>> {
    if (opened) return opened
    const codec = createCodec(loadSchemas())
    await broker.ensureTopics([topicSpec(topic), topicSpec(schemasTopic(space))])
    await checkPartitions(broker, topic)
    const schemas = createSchemasTopic(broker, codec, space, registry)
    await schemas.announce(over.signal)
    opened = { broker, codec, schemas }
    return opened
  }

  /** Reads for the members that there are now. A later one needs all leases, too: they are then read again from the first. */
  async function readFor(members: ReadonlyMap<string, Member>, positions: Record<number, string>) {
    const { broker, schemas } = await open(connected!)
    const signal = AbortSignal.any([over.signal, joined.signal])
    const onUnreadable = () => undefined // Nobody must be stopped by it.
    for await (const entry of broker.read({ topic, from: { ...positions }, until: 'never' }, signal)) {
      const message = await decodeEntry(entry, 'LimitLease', { schemas, signal, onUnreadable })
      const member = message && members.get(keyOf(message.workspace, message.payload.model))
      if (member && isSigned(message.payload, message.workspace, keysOf(contextKey))) {
        member.holder.heard(message.payload)
        tick(member)
      }
      positions[entry.partition] = entry.position
    }
  }

  /** Ends when the process does. */
  async function read(): Promise<void> {
    while (!over.signal.aborted) {
      joined = new AbortController()
      const [served, positions] = [new Map(members), {}]
      while (!over.signal.aborted && !joined.signal.aborted) {
        try {
          await readFor(served, positions)
        } catch (thrown) {
          const err = toGraphmillError(thrown)
          if (over.signal.aborted || joined.signal.aborted) break
          log.error({ topic, err, remedy: err.remedy }, 'the shared limits cannot be read; no call begins')
          await pause(againMs, over.signal)
          if (err.code !== 'topic_missing') continue
          opened = undefined
          break
        }
      }
    }
  }

  function begin(): void {
    if (!connected || members.size === 0) return
    joined.abort()
    reading ??= read()
    timer ??= setInterval(() => {
      for (const member of members.values()) tick(member)
    }, tickMs)
  }

  return {
    share({ workspace, id, model, ...limits }) {
      const holder = createSharedLimits({ ...limits, replica, model: id })
      const member: Member = { holder, workspace, model, isPublishing: false, isExhausted: false }
      holder.onNeeded = () => tick(member)
      members.set(keyOf(workspace, id), member)
      begin()
      return holder.limits
    },
    start(broker) {
      connected = broker
      begin()
    },
    async close() {
      clearInterval(timer)
      over.abort()
      const left = [...members.values()].map((member) => opened && publish(member, member.holder.last()))
      await Promise.race([Promise.allSettled(left), pause(closeMs, new AbortController().signal)])
      await reading
    },
    states: () =>
      [...members.values()].map(({ holder, workspace, model }) => ({
        ...{ workspace, model, share: holder.limits.share(), budget: holder.budget() },
        isExhausted: holder.limits.exhausted() !== undefined,
      })),
  }
}

const keyOf = (workspace: string, id: string) => JSON.stringify([workspace, id])

/** Leases are claimed in the order of one partition. */
async function checkPartitions(broker: Broker, topic: string): Promise<void> {
  const found = (await broker.listTopics(topic)).find(({ name }) => name === topic)
  if (found && found.partitions > 1)
    throw new GraphmillError(
      'configuration_invalid',
      `${topic} has ${found.partitions} partitions and must have 1: delete it, and create it with \`graphmill topics create\`.`,
    )
}

function keysOf(contextKey: (() => string) | undefined): readonly string[] | undefined {
  if (!contextKey) return undefined
  const { keys, takesUnsigned } = readContextKeys(contextKey())
  return takesUnsigned ? [...keys, ''] : keys
}

function signatureOf(lease: LimitLeaseInit, workspace: string, key: string | undefined): string {
  if (!key) return ''
  const { model, replica, number, wants, least, has, budgets = [] } = lease
  const uses = budgets.map(({ period, spent, reserved }) => [period, spent, reserved])
  const covered = JSON.stringify([workspace, model, replica, number, wants, least, has, uses])
  return createHmac('sha256', key).update(covered).digest('base64url')
}

/** Without keys every lease counts. */
function isSigned(lease: LimitLease, workspace: string, keys: readonly string[] | undefined): boolean {
  const given = Buffer.from(lease.signature)
  const expected = keys?.map((key) => Buffer.from(signatureOf(lease, workspace, key)))
  return expected?.some((each) => each.length === given.length && timingSafeEqual(each, given)) ?? true
}
