// How the metrics of a registry are declared: a name, a help text, the labels.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

export type Instruments = ReturnType<typeof createInstruments>

export function createInstruments(registry: Registry) {
  const registers = [registry]
  return {
    counter: <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
      new Counter({ name, help, labelNames, registers }),
    /** `buckets` are upper bounds. */
    histogram: <L extends string>(
      name: string,
      help: string,
      labelNames: readonly L[],
      buckets: readonly number[],
    ) => new Histogram({ name, help, labelNames, buckets: [...buckets], registers }),
    gauge: <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
      new Gauge({ name, help, labelNames, registers }),
    /** A counter whose series are set by `collect` whenever somebody looks; others disappear. */
    collectedCounter<L extends string>(
      name: string,
      help: string,
      labelNames: readonly L[],
      collect: (counter: Counter<L>) => void | Promise<void>,
    ): void {
      new Counter({
        name,
        help,
        labelNames,
        registers,
        collect() {
          this.reset()
          return collect(this)
        },
      })
    },
    /** A gauge whose series are set by `collect` whenever somebody looks; others disappear. */
    collectedGauge<L extends string>(
      name: string,
      help: string,
      labelNames: readonly L[],
      collect: (gauge: Gauge<L>) => void | Promise<void>,
    ): void {
      new Gauge({
        name,
        help,
        labelNames,
        registers,
        collect() {
          this.reset()
          return collect(this)
        },
      })
    },
  }
}
