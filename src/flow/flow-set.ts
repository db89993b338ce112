// The flows that a process serves. A flow that changed drains and starts again, one that is gone drains, one that can't be
// started or go on is tried again after a pause, the others go on. The changes of one flow come one after the other; no
// flow waits for another one's.
import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from 'pino'
import { type GraphmillError, toGraphmillError } from '../errors.ts'
import type { Clock } from './processor.ts'
import { operatorPauseMs } from './runner/retry.ts'

/** A flow that can be started, told from another version of itself by its fingerprint. */
export interface PreparedFlow {
  /** `workspace/flow`. */
  readonly name: string
  readonly fingerprint: string
  start(signal: AbortSignal): Promise<RunningFlow>
  /** It has ended, and is wanted no more. */
  gone?(): Promise<void>
}

export interface RunningFlow {
  /** Rejects, at once, when it can't go on. */
  readonly done: Promise<void>
  /** Takes nothing more, and ends when what is in hand is done, or after `graceMs`. A second call may shorten the first. */
  stop(graceMs: number): Promise<void>
}

/** Why a flow that is wanted does not run. */
export interface FlowFault {
  /** `workspace/flow`. */
  readonly flow: string
  readonly error: GraphmillError
  /** Since when it has not run, however often it was tried again; milliseconds since 1970. */
  readonly since: number
}

export interface FlowSet {
  /** Makes exactly these flows run. Resolves when each was tried. */
  apply(flows: readonly PreparedFlow[]): Promise<void>
  /** Those that run, or drain because they changed or are gone. */
  readonly names: readonly string[]
  /** Those that are wanted and don't run, until a try succeeds. */
  readonly faults: readonly FlowFault[]
  /** Rejects when a fault keeps every flow that is wanted from running: with that of one of them. */
  readonly failed: Promise<never>
  /** Ends all, for good. A second call may shorten the first. */
  stop(graceMs: number): Promise<void>
}

export interface FlowSetOptions {
  readonly log: Logger
  readonly clock: Clock
  /** Ends what waits to be started. */
  readonly signal: AbortSignal
  /** How long a flow that changed, is gone or can't go on may finish what it has in hand. */
  readonly graceMs: number
  /** How long after a fault a flow is tried again, at the soonest. Default `operatorPauseMs`. */
  readonly retryMs?: number
}

/** A flow that was tried at least once. */
interface Place {
  readonly prepared: PreparedFlow
  running: RunningFlow | undefined
  fault: FlowFault | undefined
}

export function createFlowSet(options: FlowSetOptions): FlowSet {
  const { log, clock, signal, graceMs, retryMs = operatorPauseMs } = options
  let wanted: ReadonlyMap<string, PreparedFlow> = new Map()
  const places = new Map<string, Place>()
  /** By name: resolves when the changes of the flow that were asked for are made. */
  const turns = new Map<string, Promise<void>>()
  const failure = Promise.withResolvers<never>()
  failure.promise.catch(() => undefined)
  let stopping = false

  async function attempt(place: Place): Promise<void> {
    const { prepared } = place
    try {
      const running = await prepared.start(signal)
      running.done.catch((thrown) => fail(place, thrown))
      place.running = running
      place.fault = undefined
      log.info({ flow: prepared.name }, 'flow runs')
    } catch (thrown) {
      fail(place, thrown)
    }
    if (stopping) await end(place, 0)
  }

  function fail(place: Place, thrown: unknown): void {
    if (!isCurrent(place)) return
    const error = toGraphmillError(thrown)
    const flow = place.prepared.name
    const fault = { flow, error, since: place.fault?.since ?? clock.now() }
    place.fault = fault
    log.error({ flow, err: error }, 'flow does not run')
    failWithoutAny()
    void tryAgain(place, fault)
  }

  // What a flow has in hand is finished during the pause.
  async function tryAgain(place: Place, fault: FlowFault): Promise<void> {
    const { name } = place.prepared
    const pause = wait(retryMs, undefined, { signal }).catch(() => undefined)
    await inTurn(name, async () => {
      if (place.fault === fault) await end(place, graceMs)
    })
    await pause
    await inTurn(name, async () => {
      if (place.fault === fault && isCurrent(place)) await attempt(place)
    })
  }

  /** Whether this version of the flow is the one that is to run. */
  function isCurrent(place: Place): boolean {
    const { name, fingerprint } = place.prepared
    const isWanted = wanted.get(name)?.fingerprint === fingerprint
    return isWanted && places.get(name) === place && !stopping && !signal.aborted
  }

  function faults(): FlowFault[] {
    return [...places.values()].filter(isCurrent).flatMap(({ fault }) => fault ?? [])
  }

  function failWithoutAny(): void {
    const found = faults()
    if (found.length > 0 && found.length === wanted.size) failure.reject(found.at(-1)!.error)
  }

  async function end(place: Place, grace: number): Promise<void> {
    const { running, prepared } = place
    if (!running) return
    await running.stop(grace)
    if (place.running !== running) return
    place.running = undefined
    log.info({ flow: prepared.name }, 'flow has ended')
  }

  async function change(name: string, prepared: PreparedFlow | undefined): Promise<void> {
    const place = places.get(name)
    if (stopping || place?.prepared.fingerprint === prepared?.fingerprint) return
    if (place) {
      log.info({ flow: name }, prepared ? 'flow drains, to start again with its change' : 'flow drains')
      await end(place, graceMs)
      places.delete(name)
      if (!prepared) await place.prepared.gone?.()
    }
    if (!prepared || stopping) return
    const next: Place = { prepared, running: undefined, fault: undefined }
    places.set(name, next)
    await attempt(next)
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
    async apply(flows) {
      wanted = new Map(flows.map((flow) => [flow.name, flow]))
      const prepared = wanted
      const names = new Set([...places.keys(), ...turns.keys(), ...prepared.keys()])
      await Promise.all([...names].map((name) => inTurn(name, () => change(name, prepared.get(name)))))
      failWithoutAny()
    },
    get names() {
      return [...places.values()]
        .filter(({ running, fault }) => running && !fault)
        .map(({ prepared }) => prepared.name)
    },
    get faults() {
      return faults()
    },
    failed: failure.promise,
    async stop(grace) {
      stopping = true
      await Promise.all([...places.values()].map((place) => end(place, grace)))
      await Promise.all(turns.values())
    },
  }
}
