// The flows that a process serves. A flow that changed drains and starts again, one that is gone drains, the others go on.
// The changes of one flow come one after the other; no flow waits for another one's.
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
  /** Takes nothing more, and ends when what is in hand is done, or after `graceMs`. A second call may shorten the first. */
  stop(graceMs: number): Promise<void>
}

export interface FlowSet {
  /** Makes exactly these flows run. Rejects when one can't be started; the others run all the same. */
  apply(flows: readonly PreparedFlow[], graceMs: number): Promise<void>
  /** Those that run or drain. */
  readonly names: readonly string[]
  /** Ends all, for good. A second call may shorten the first. */
  stop(graceMs: number): Promise<void>
  /** Rejects when a running flow could not go on. */
  readonly failed: Promise<never>
}

export function createFlowSet(log: Logger, signal: AbortSignal): FlowSet {
  const running = new Map<string, { readonly fingerprint: string; readonly flow: RunningFlow }>()
  /** By name: resolves when the changes of the flow that were asked for are made. */
  const turns = new Map<string, Promise<void>>()
  const failure = Promise.withResolvers<never>()
  failure.promise.catch(() => undefined)
  let stopping = false

  async function start(prepared: PreparedFlow): Promise<void> {
    const flow = await prepared.start(signal)
    running.set(prepared.name, { fingerprint: prepared.fingerprint, flow })
    flow.done.catch((error) => failure.reject(error))
    log.info({ flow: prepared.name }, 'flow runs')
    if (stopping) await end(prepared.name, 0)
  }

  async function end(name: string, graceMs: number): Promise<void> {
    await running.get(name)?.flow.stop(graceMs)
    if (running.delete(name)) log.info({ flow: name }, 'flow has ended')
  }

  async function change(name: string, wanted: PreparedFlow | undefined, graceMs: number): Promise<void> {
    const found = running.get(name)
    if (stopping || found?.fingerprint === wanted?.fingerprint) return
    if (found) {
      log.info({ flow: name }, wanted ? 'flow drains, to start again with its change' : 'flow drains')
      await end(name, graceMs)
    }
    if (wanted && !stopping) await start(wanted)
  }

  function inTurn(name: string, act: () => Promise<void>): Promise<void> {
    const done = (turns.get(name) ?? Promise.resolve()).then(act)
    const over = done.then(leave, leave)
    function leave() {
      if (turns.get(name) === over) turns.delete(name)
    }
    turns.set(name, over)
    return done
  }

  return {
    async apply(flows, graceMs) {
      const wanted = new Map(flows.map((flow) => [flow.name, flow]))
      const names = [...new Set([...running.keys(), ...turns.keys(), ...wanted.keys()])]
      const changed = await Promise.allSettled(
        names.map((name) => inTurn(name, () => change(name, wanted.get(name), graceMs))),
      )
      const failed = changed.find((result) => result.status === 'rejected')
      if (failed) throw coded(failed.reason)
    },
    get names() {
      return [...running.keys()]
    },
    async stop(graceMs) {
      stopping = true
      await Promise.all([...running.keys()].map((name) => end(name, graceMs)))
      await Promise.all(turns.values())
    },
    failed: failure.promise,
  }
}
