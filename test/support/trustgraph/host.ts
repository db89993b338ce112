// TrustGraph's processors for a test: one Python process on a real broker, with the topics and the configuration of flows made by its
// own flow and configuration services. It ends with `stop`, or with this process.
import { spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'

const patienceMs = 60_000
const script = resolve(import.meta.dirname, 'host.py')

/** A message that one of TrustGraph's stores received. */
export interface Stored {
  readonly event: 'triples' | 'graph-embeddings' | 'rows' | 'entity-contexts'
  readonly workspace: string
  // biome-ignore lint/suspicious/noExplicitAny: a record of TrustGraph, which each test knows
  readonly message: any
}

/** What TrustGraph's `PromptClient` gave its caller. */
export interface PromptResult {
  readonly response_type: 'text' | 'json' | 'jsonl'
  readonly text: string | null
  readonly object: unknown
  readonly objects: readonly unknown[] | null
  readonly in_token: number | null
  readonly out_token: number | null
  readonly model: string | null
  /** Each text that was handed on while the reply streamed, and whether it was the last. */
  readonly parts: readonly (readonly [string, boolean])[]
}

export interface TrustGraphOptions {
  readonly python: string
  /** What its processors are told of the broker. */
  readonly broker: Readonly<Record<string, string>>
}

export interface TrustGraph {
  /** All that its stores received, oldest first. */
  readonly stored: readonly Stored[]
  /** Resolves when `condition` holds of what was stored; rejects with what was stored after a minute. */
  until(condition: (stored: readonly Stored[]) => boolean): Promise<void>
  /** Carries out an order, which is a method of `Host` in the script. */
  order<T = void>(name: string, parameters?: Readonly<Record<string, unknown>>): Promise<T>
  stop(): Promise<void>
}

const brief = ({ event, message }: Stored) =>
  `${event} of ${message.metadata.id}, ${JSON.stringify(message).length} characters`

export async function startTrustGraph(options: TrustGraphOptions): Promise<TrustGraph> {
  const child = spawn(options.python, [script], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      ...process.env,
      ...{ TG_BROKER: JSON.stringify(options.broker), OMP_NUM_THREADS: '1', OPENAI_TOKEN: 'none' },
    },
  })
  const killOnExit = () => child.kill('SIGKILL')
  process.once('exit', killOnExit)
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-8000)
  })
  const stored: Stored[] = []
  const orders = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>()
  const looks = new Set<() => void>()
  const ready = Promise.withResolvers<void>()
  const exited = new Promise<void>((done) => {
    child.once('exit', (code) => {
      process.off('exit', killOnExit)
      const error = new Error(`TrustGraph ended with ${code}:\n${said}`)
      ready.reject(error)
      for (const { reject } of orders.values()) reject(error)
      done()
    })
  })
  createInterface(child.stdout).on('line', (line) => {
    const value = JSON.parse(line) as { order?: number; event?: string; error?: string; result?: unknown }
    if (value.order !== undefined) {
      const waiting = orders.get(value.order)
      orders.delete(value.order)
      if (value.error === undefined) waiting?.resolve(value.result)
      else waiting?.reject(new Error(value.error))
    } else if (value.event === 'ready') ready.resolve()
    else {
      stored.push(value as Stored)
      for (const look of looks) look()
    }
  })
  await ready.promise
  let count = 0
  return {
    stored,
    until: (condition) =>
      new Promise((found, failed) => {
        const end = (settle: () => void) => {
          clearTimeout(timer)
          looks.delete(look)
          settle()
        }
        const look = () => condition(stored) && end(found)
        const all = () => new Error(`Only this was stored:\n${stored.map(brief).join('\n')}\n${said}`)
        const timer = setTimeout(() => end(() => failed(all())), patienceMs)
        looks.add(look)
        look()
      }),
    order(name, parameters = {}) {
      const order = ++count
      child.stdin.write(`${JSON.stringify({ order, do: name, with: parameters })}\n`)
      return new Promise((resolve, reject) =>
        orders.set(order, { resolve: resolve as (value: unknown) => void, reject }),
      )
    },
    async stop() {
      child.kill('SIGKILL')
      await exited
    },
  }
}
