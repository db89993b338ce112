// A process that dies at any moment, on the memory broker: from then on nothing that it does reaches the broker or the store, what it had
// acked last may come again, and nothing is finished or handed back.
import type { Broker, Delivery } from '../../src/broker/broker.ts'
import type { MemoryCluster } from '../../src/broker/memory/memory.ts'
import { GraphmillError } from '../../src/errors.ts'
import type { TripleStore } from '../../src/rdf/store.ts'

export interface Death {
  /** How many more messages and writes are to be stored. */
  readonly after: number
  /** Whether the last one is stored, and only its answer is lost. */
  readonly stored: boolean
  /** How many acks of each partition are lost. */
  readonly rewind: number
}

export interface Life {
  broker(broker: Broker): Broker
  store(store: TripleStore): TripleStore
  /** From now on the next death is counted down to. */
  arm(death: Death): void
  readonly isDead: boolean
  /** Dies now, if it has not. The groups give to others what was not acked. */
  end(cluster: MemoryCluster, groups: Iterable<string>): void
}

export function createLife(): Life {
  let isDead = false
  let death: Death | undefined
  let left = Number.POSITIVE_INFINITY

  const gone = () => new GraphmillError('broker_unavailable', 'this process is dead')

  async function act<T>(work: () => Promise<T>): Promise<T> {
    if (isDead) throw gone()
    if (left-- > 0) return await work()
    isDead = true
    if (death?.stored) await work()
    throw gone()
  }

  return {
    broker: (broker) => ({
      ...broker,
      publish: (message) => act(() => broker.publish(message)),
      async *consume(subscription, signal) {
        for await (const delivery of broker.consume(subscription, signal))
          yield mortal(delivery, () => isDead)
      },
    }),
    store: (store) => ({
      ...store,
      write: (...given) => act(() => store.write(...given)),
      ...(store.support && {
        support: {
          state: (...given) => act(() => store.support!.state(...given)),
          withdraw: (...given) => act(() => store.support!.withdraw(...given)),
        },
      }),
    }),
    arm(next) {
      death = next
      left = next.after
    },
    get isDead() {
      return isDead
    },
    end(cluster, groups) {
      isDead = true
      for (const group of groups) cluster.faults.evict(group, { rewind: death?.rewind ?? 0 })
    },
  }
}

function mortal(delivery: Delivery, isDead: () => boolean): Delivery {
  const { topic, partition, position, key, value, headers, timestamp, signal, attempt, suspect } = delivery
  return {
    ...{ topic, partition, position, key, value, headers, timestamp, signal, attempt, suspect },
    ack: async () => (isDead() ? undefined : delivery.ack()),
    retryLater: async (delayMs) => (isDead() ? undefined : delivery.retryLater(delayMs)),
  }
}
