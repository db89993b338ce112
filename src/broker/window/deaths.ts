// How often processes died over the messages of one partition, as it is stored with every commit. What is stored is what
// counts if this process dies now, so a death needs no last act. An owner that leaves in order stores that it was none.

export interface Deaths {
  /** Owners that died one after the other without having moved the mark. */
  readonly deaths: number
  /** Processes that died while they handled the message at the mark alone. */
  readonly alone: number
}

/** After so many deaths without progress, the messages that may have been in flight are handled alone. */
export const suspectAfter = 2
/** The most that are, of a partition, before it goes on as usual: what lies behind them comes after the next deaths. */
export const maxSuspects = 64

/** What is known of one partition. It changes in place. */
export interface Suspicion {
  /** Owners before this one that died at the present mark. */
  before: number
  /** Messages from the mark on that are still to be handled alone. */
  suspects: number
  /** Of the message at the mark: what was found, and what is stored while it is handled. */
  alone: number
  aloneIfDead: number | undefined
}

export function createSuspicion(): Suspicion {
  return { before: 0, suspects: 0, alone: 0, aloneIfDead: undefined }
}

/** Takes up what the owner before stored; `inFlight` messages of the partition may have been in its hands. */
export function takeUp(suspicion: Suspicion, { deaths, alone }: Deaths, inFlight: number): void {
  suspicion.before = deaths
  suspicion.alone = alone
  if (deaths >= suspectAfter) suspicion.suspects = Math.min(Math.max(1, inFlight), maxSuspects)
}

/** The mark has moved: a process that died before did not die of what lies above it, as far as is known. */
export function noteProgress(suspicion: Suspicion): void {
  suspicion.before = suspicion.suspects > 0 ? suspectAfter : 0
  suspicion.alone = 0
  suspicion.aloneIfDead = undefined
}

/** What is to be stored; `inOrder` while the partition is about to be left. */
export function toStore({ before, alone, aloneIfDead = alone }: Suspicion, inOrder: boolean): Deaths {
  return inOrder ? { deaths: before, alone } : { deaths: before + 1, alone: aloneIfDead }
}
