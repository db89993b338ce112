// The flows that a process serves. A changed flow drains and starts again, a removed one drains, and one that cannot start or
// continue is retried after a pause; the other flows are not affected. The changes of one flow are made one after the other, and no
// flow waits for another.
import type { Logger } from 'pino'
import { type GraphmillError, toGraphmillError } from '../errors.ts'
import { pause } from '../wait.ts'
import type { Clock } from './processor.ts'
import { operatorPauseMs } from './runner/retry.ts'

/** A flow that can be started. Its fingerprint differs from that of any other version of it. */
export interface PreparedFlow {
  /** `workspace/flow`. */
  readonly name: string
  readonly fingerprint: string
  start(signal: AbortSignal): Promise<RunningFlow>
  /** Whether a change elsewhere decides that it can run: the process waits for that, even when no flow runs. */
  readonly mayWait?: boolean
  /** Called when the flow has ended and is no longer configured. */
  gone?(): Promise<void>
}

export interface RunningFlow {
  /** Rejects, at once, when it can't go on. */
  readonly done: Promise<void>
  /** Takes nothing more, and ends when what is in flight is done, or after `graceMs`. A second call may shorten the first. */
  stop(graceMs: number): Promise<void>
}

/** Why a configured flow does not run. */
export interface FlowFault {
  /** `workspace/flow`. */
  readonly flow: string
  readonly error: GraphmillError
  /** Since when it has not run, over all attempts; milliseconds since 1970. */
  readonly since: number
}

export interface FlowSet {
  /** Makes exactly these flows run. Resolves after the first attempt at each. */
  apply(flows: readonly PreparedFlow[]): Promise<void>
  /** The flows that run, or drain because they changed or are gone. */
  readonly names: readonly string[]
  /** The flows that are configured and don't run, until an attempt succeeds. */
  readonly faults: readonly FlowFault[]
  /** Rejects when a fault keeps every configured flow from running, and none may wait, with the fault of one of them. */
  readonly failed: Promise<never>
  /** Ends all flows for good. A second call may shorten the first. */
  stop(graceMs: number): Promise<void>
}

export interface FlowSetOptions {
  readonly log: Logger
  readonly clock: Clock
  /** Ends the start of flows. */
  readonly signal: AbortSignal
  /** How long a flow that changed, is gone or can't go on may finish what it has in flight, in milliseconds. */
  readonly graceMs: number
  /** The shortest time from a fault to the next attempt, in milliseconds. Default `operatorPauseMs`. */
  readonly retryMs?: number
}

/** A version of a flow that was tried at least once. */
interface Attempted {
  readonly prepared: PreparedFlow
  running: RunningFlow | undefined
  fault: FlowFault | undefined
}

export function createFlowSet(options: FlowSetOptions): FlowSet {
  const { log, clock, signal, graceMs, retryMs = operatorPauseMs } = options
  let wanted: ReadonlyMap<string, PreparedFlow> = new Map()
  const current = new Map<string, Attempted>()
  const turns = createTurns()
  const failure = Promise.withResolvers<never>()
  failure.promise.catch(() => undefined)
  let stopping = false

  async function attempt(flow: Attempted): Promise<void> {
    const { prepared } = flow
    try {
      const running = await prepared.start(signal)
      running.done.catch((thrown) => fail(flow, thrown))
      flow.running = running
      flow.fault = undefined
      log.info({ flow: prepared.name }, 'flow runs')
    } catch (thrown) {
      fail(flow, thrown)
    }
    if (stopping) await end(flow, 0)
  }

  function fail(attempted: Attempted, thrown: unknown): void {
    if (!isCurrent(attempted)) return
    const error = toGraphmillError(thrown)
    const flow = attempted.prepared.name
    const fault = { flow, error, since: attempted.fault?.since ?? clock.now() }
    attempted.fault = fault
    log.error({ flow, err: error }, 'flow does not run')
    failWithoutAny()
    void tryAgain(attempted, fault)
  }

  // During the pause the flow finishes what it has in flight.
  async function tryAgain(flow: Attempted, fault: FlowFault): Promise<void> {
    const { name } = flow.prepared
    const paused = pause(retryMs, signal)
    await turns.run(name, async () => {
      if (flow.fault === fault) await end(flow, graceMs)
    })
    await paused
    await turns.run(name, async () => {
      if (flow.fault === fault && isCurrent(flow)) await attempt(flow)
    })
  }

  /** Whether this version of the flow is the one that should run. */
  function isCurrent(flow: Attempted): boolean {
    const { name, fingerprint } = flow.prepared
    const isWanted = wanted.get(name)?.fingerprint === fingerprint
    return isWanted && current.get(name) === flow && !stopping && !signal.aborted
  }

  const faults = () => [...current.values()].filter(isCurrent).flatMap(({ fault }) => fault ?? [])

  function failWithoutAny(): void {
    const found = faults()
    const isLast = found.length > 0 && found.length === wanted.size
    if (isLast && ![...wanted.values()].some(({ mayWait }) => mayWait)) failure.reject(found.at(-1)!.error)
  }

  async function end(flow: Attempted, grace: number): Promise<void> {
    const { running, prepared } = flow
    if (!running) return
    await running.stop(grace)
    if (flow.running !== running) return
    flow.running = undefined
    log.info({ flow: prepared.name }, 'flow has ended')
  }

  async function change(name: string, prepared: PreparedFlow | undefined): Promise<void> {
    const before = current.get(name)
    if (stopping || before?.prepared.fingerprint === prepared?.fingerprint) return
    if (before) {
      log.info({ flow: name }, prepared ? 'flow drains, to start again with its change' : 'flow drains')
      await end(before, graceMs)
      current.delete(name)
      if (!prepared) await before.prepared.gone?.()
    }
    if (!prepared || stopping) return
    const next: Attempted = { prepared, running: undefined, fault: undefined }
    current.set(name, next)
    await attempt(next)
  }

  return {
    async apply(flows) {
      wanted = new Map(flows.map((flow) => [flow.name, flow]))
      const prepared = wanted
      const names = new Set([...current.keys(), ...turns.names(), ...prepared.keys()])
      await Promise.all([...names].map((name) => turns.run(name, () => change(name, prepared.get(name)))))
      failWithoutAny()
    },
    get names() {
      return [...current.values()]
        .filter(({ running, fault }) => running && !fault)
        .map(({ prepared }) => prepared.name)
    },
    get faults() {
      return faults()
    },
    failed: failure.promise,
    async stop(grace) {
      stopping = true
      await Promise.all([...current.values()].map((flow) => end(flow, grace)))
      await turns.over()
    },
  }
}

/** Runs the changes of each flow one after the other. */
function createTurns() {
  const turns = new Map<string, Promise<void>>()
  return {
    run(name: string, act: () => Promise<void>): Promise<void> {
      const done = (turns.get(name) ?? Promise.resolve()).then(act)
      const over = done.then(leave, leave)
      function leave() {
        if (turns.get(name) === over) turns.delete(name)
      }
      turns.set(name, over)
      return done
    },
    names: () => turns.keys(),
    over: () => Promise.all(turns.values()),
  }
}
