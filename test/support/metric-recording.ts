// Scrapes of a process as the input series of promtool's unit tests: what took seconds is laid out over minutes.

/** What /metrics answered, or undefined when the process was gone. */
export interface Scrape {
  /** In which minute of the unit test. */
  readonly minute: number
  readonly text: string | undefined
}

export interface Recording {
  readonly scrapes: readonly Scrape[]
  /** What Prometheus adds. */
  readonly labels: Readonly<Record<string, string>>
  /** Between two scrapes: a line from one value to the next, or the first one until the next. Default `line`. */
  readonly between?: 'line' | 'step'
  /** Times in the metrics count from here, in seconds since 1970: the unit test begins in 1970. */
  readonly startedAt: number
}

export interface InputSeries {
  readonly series: string
  readonly values: string
}

/** The series of the metrics that are `wanted`, a value a minute, up to the given minute. */
export function inputSeries(
  { scrapes, labels, between = 'line', startedAt }: Recording,
  wanted: ReadonlySet<string>,
  until: number,
): InputSeries[] {
  const read = scrapes.map(({ text = '' }) => samplesOf(text, wanted, startedAt))
  const names = new Set(read.flatMap((samples) => [...samples.keys()]))
  const added = Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  const valueAt = (name: string, minute: number): string => {
    const at = scrapes.findLastIndex((scrape) => scrape.minute <= minute)
    const value = read[at]?.get(name)
    if (value === undefined) return read[at - 1]?.has(name) && scrapes[at]?.minute === minute ? 'stale' : '_'
    const next = read[at + 1]?.get(name)
    if (between === 'step' || next === undefined) return String(value)
    const { minute: from } = scrapes[at]!
    return String(value + ((next - value) * (minute - from)) / (scrapes[at + 1]!.minute - from))
  }
  return [...names].map((name) => ({
    series: withLabels(name, added),
    values: Array.from({ length: until + 1 }, (_, minute) => valueAt(name, minute)).join(' '),
  }))
}

/** The values by series, such as `graphmill_lag{processor="prompt"}`. */
function samplesOf(text: string, wanted: ReadonlySet<string>, startedAt: number): Map<string, number> {
  const samples = new Map<string, number>()
  for (const [, series = '', name = '', value] of text.matchAll(/^((\w+)(?:\{.*\})?) (\S+)$/gm))
    if (wanted.has(name))
      samples.set(series, Number(value) - (/_timestamp_seconds$/.test(name) ? startedAt : 0))
  return samples
}

function withLabels(series: string, added: readonly string[]): string {
  const [name, own] = series.endsWith('}') ? series.slice(0, -1).split(/\{(.*)/s) : [series, '']
  return `${name}{${[own, ...added].filter(Boolean).join(',')}}`
}

/** The metrics that expressions name. */
export function metricsIn(expressions: readonly string[]): Set<string> {
  return new Set(expressions.flatMap((each) => each.match(/\b(?:graphmill|tg|process|nodejs)_\w+/g) ?? []))
}
