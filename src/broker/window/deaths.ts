// How often processes died with the messages of one partition in flight, as it is stored with every commit. The stored count is
// the one that applies if this process dies now, so a dying process need not write anything. An owner that leaves in order
// stores that it did not die.

export interface Deaths {
  /** Owners that died one after the other without moving the mark. */
  readonly deaths: number
  /** Processes that died while they handled the message at the mark alone. */
  readonly alone: number
}

/** After so many deaths without progress, the messages that may have been in flight are suspects: they are handled alone. */
export const suspectAfter = 2
/** The most suspects of a partition at a time. Messages behind them become suspects after the next deaths. */
export const maxSuspects = 64

/** What is known of deaths in one partition. It changes in place. */
export interface Suspicion {
  /** Owners before this one that died at the present mark. */
  before: number
  /** How many messages from the mark on are still to be handled alone. */
  suspects: number
  /** Deaths alone of the message at the mark: as found, and as stored while it is handled. */
  alone: number
  aloneIfDead: number | undefined
}

export function createSuspicion(): Suspicion {
  return { before: 0, suspects: 0, alone: 0, aloneIfDead: undefined }
}

/** Takes up what the previous owner stored; it may have had `inFlight` messages of the partition in flight. */
export function takeUp(suspicion: Suspicion, { deaths, alone }: Deaths, inFlight: number): void {
  suspicion.before = deaths
  suspicion.alone = alone
  if (deaths >= suspectAfter) suspicion.suspects = Math.min(Math.max(1, inFlight), maxSuspects)
}

/** The mark has moved: as far as is known, no process died of the messages above it. */
export function noteProgress(suspicion: Suspicion): void {
  suspicion.before = suspicion.suspects > 0 ? suspectAfter : 0
  suspicion.alone = 0
  suspicion.aloneIfDead = undefined
}

/** What is to be stored; `inOrder` when the owner is leaving in order. */
export function toStore({ before, alone, aloneIfDead = alone }: Suspicion, inOrder: boolean): Deaths {
  return inOrder ? { deaths: before, alone } : { deaths: before + 1, alone: aloneIfDead }
}
