// Metrics of batches of triples on their way into a store.
import type { Instruments } from './instruments.ts'

export interface StoreMetrics {
  /** A batch is durable. */
  wrote(processor: string, batch: { readonly triples: number; readonly seconds: number }): void
  /** The store did not take a batch. */
  failed(processor: string): void
}

const labels = ['processor'] as const
const secondBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const tripleBuckets = [1, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000]

export function createStoreMetrics({ counter, histogram }: Instruments): StoreMetrics {
  const seconds = histogram(
    'tg_triples_store_write_duration_seconds',
    'From sending a batch of triples to its being durable',
    labels,
    secondBuckets,
  )
  const size = histogram('tg_triples_store_write_batch_size', 'Triples of a batch', labels, tripleBuckets)
  const errors = counter('tg_triples_store_write_error_total', 'Batches that the store did not take', labels)
  return {
    wrote(processor, batch) {
      seconds.observe({ processor }, batch.seconds)
      size.observe({ processor }, batch.triples)
    },
    failed: (processor) => errors.inc({ processor }),
  }
}
