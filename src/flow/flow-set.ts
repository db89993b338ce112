// The flows that a process serves. A new set is prepared whole before anything of the old one is touched: what can't be
// prepared changes nothing. A flow that changed drains and starts again, one that is gone drains, the others go on.
import type { Logger } from 'pino'
import { coded } from '../errors.ts'

/** A flow that can be started, told from another version of itself by its fingerprint. */
export interface PreparedFlow {
  /** `workspace/flow`. */
  readonly name: string
  readonly fingerprint: string
  start(signal: AbortSignal): Promise<RunningFlow>
}

export interface RunningFlow {
  readonly done: Promise<void>
  stop(graceMs: number): Promise<void>
}

export interface FlowSet {
  /** Makes exactly these flows run. Rejects when one can't be started; the others run all the same. */
  apply(flows: readonly PreparedFlow[], graceMs: number): Promise<void>
  readonly names: readonly string[]
  stop(graceMs: number): Promise<void>
  /** Rejects when a running flow could not go on. */
  readonly failed: Promise<never>
}

export function createFlowSet(log: Logger, signal: AbortSignal): FlowSet {
  const running = new Map<string, { readonly fingerprint: string; readonly flow: RunningFlow }>()
  const failure = Promise.withResolvers<never>()
  failure.promise.catch(() => undefined)
  let turn: Promise<void> = Promise.resolve()

  async function start(prepared: PreparedFlow): Promise<void> {
    const flow = await prepared.start(signal)
    running.set(prepared.name, { fingerprint: prepared.fingerprint, flow })
    flow.done.catch((error) => failure.reject(error))
    log.info({ flow: prepared.name }, 'flow runs')
  }

  async function end(name: string, graceMs: number): Promise<void> {
    const found = running.get(name)
    running.delete(name)
    await found?.flow.stop(graceMs)
    log.info({ flow: name }, 'flow has ended')
  }

  async function change(flows: readonly PreparedFlow[], graceMs: number): Promise<void> {
    const wanted = new Map(flows.map((flow) => [flow.name, flow]))
    const ending = [...running]
      .filter(([name, { fingerprint }]) => wanted.get(name)?.fingerprint !== fingerprint)
      .map(([name]) => name)
    await Promise.all(ending.map((name) => end(name, graceMs)))
    const started = await Promise.allSettled(
      [...wanted.values()].filter(({ name }) => !running.has(name)).map(start),
    )
    const failed = started.find((result) => result.status === 'rejected')
    if (failed) throw coded(failed.reason)
  }

  return {
    apply(flows, graceMs) {
      const done = turn.then(() => change(flows, graceMs))
      turn = done.catch(() => undefined)
      return done
    },
    get names() {
      return [...running.keys()]
    },
    async stop(graceMs) {
      await Promise.all([...running.keys()].map((name) => end(name, graceMs)))
    },
    failed: failure.promise,
  }
}
