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
    collectedCounter: <L extends string>(...given: Collected<L, Counter<L>>) =>
      void new Counter(collecting(registry, given)),
    /** The same as a gauge. */
    collectedGauge: <L extends string>(...given: Collected<L, Gauge<L>>) =>
      void new Gauge(collecting(registry, given)),
  }
}

type Collected<L extends string, M> = [
  name: string,
  help: string,
  labelNames: readonly L[],
  collect: (metric: M) => void | Promise<void>,
]

function collecting<L extends string, M extends { reset(): void }>(
  registry: Registry,
  [name, help, labelNames, collect]: Collected<L, M>,
) {
  return {
    name,
    help,
    labelNames,
    registers: [registry],
    collect(this: M) {
      this.reset()
      return collect(this)
    },
  }
}

/** The most values of a label that other programs choose, and the most characters of one. */
const mostValues = 1000
const mostCharacters = 200

/**
 * For labels whose values come from messages and servers: values beyond a number become `other`, so that no sender can fill the memory of
 * the process, and of Prometheus, with series.
 */
export function createLabelBound(): (value: string) => string {
  const known = new Set<string>()
  return (value) => {
    const short = value.slice(0, mostCharacters)
    if (known.size < mostValues) known.add(short)
    return known.has(short) ? short : 'other'
  }
}

/** What `removeSeries` needs of a metric. A histogram lists each series once per bucket, with the bound as `le`. */
interface RemovableMetric {
  get(): Promise<{ readonly values: readonly { readonly labels: Record<string, string | number> }[] }>
  remove(labels: Record<string, string | number>): void
}

export async function removeSeries(
  metric: RemovableMetric,
  isGone: (labels: Record<string, string | number>) => boolean,
): Promise<void> {
  for (const { labels } of (await metric.get()).values) {
    const { le: _, ...series } = labels
    if (isGone(series)) metric.remove(series)
  }
}
