// What is counted of batches of triples on their way into a store.
import { Counter, Histogram, type Registry } from 'prom-client'

export interface StoreMetrics {
  /** A batch is durable. */
  wrote(processor: string, batch: { readonly triples: number; readonly seconds: number }): void
  /** The store did not take a batch. */
  failed(processor: string): void
}

export function createStoreMetrics(registry: Registry): StoreMetrics {
  const shared = { labelNames: ['processor'] as const, registers: [registry] }
  const seconds = new Histogram({
    name: 'tg_triples_store_write_duration_seconds',
    help: 'From sending a batch of triples to its being durable',
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    ...shared,
  })
  const size = new Histogram({
    name: 'tg_triples_store_write_batch_size',
    help: 'Triples of a batch',
    buckets: [1, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000],
    ...shared,
  })
  const errors = new Counter({
    name: 'tg_triples_store_write_error_total',
    help: 'Batches that the store did not take',
    ...shared,
  })
  return {
    wrote(processor, batch) {
      seconds.observe({ processor }, batch.seconds)
      size.observe({ processor }, batch.triples)
    },
    failed: (processor) => errors.inc({ processor }),
  }
}
