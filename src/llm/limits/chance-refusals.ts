// Judges refusals. Servers refuse single calls at any load, by chance; a limit refuses many of the calls that follow each other.
// So the calls are looked at in the order of their starts (CUSUM, a sequential test of two shares): each refusal adds to the
// evidence of a limit, each other call takes from it, by how likely it is at the share that is refused by chance.

export interface JudgedCall {
  refused: boolean
}

export interface ChanceRefusals {
  started(): JudgedCall
  /** The call was refused: whether that may be chance. */
  mayBeChance(call: JudgedCall): boolean
  /** Whether the share by chance is measured, well below the known limit. */
  readonly measures: boolean
  /** True once after it has shown that servers refuse by chance: limits that were found before may be none. */
  doubtsLimit(): boolean
}

/** Logarithms of how much likelier a limit is than chance: where chance is rare, and else. */
const singleEvidence = 4
const limitEvidence = 8
/** A limit refuses this share more than chance does. */
const limitShare = 0.3
/** The share by chance is the median of so many samples, between bounds: a burst of refusals spoils few of them. */
const samples = 9
const sampleCalls = 40
const leastShare = 0.005
const mostShare = 0.25
/** A sample of which more was refused was taken above a limit. */
const spoiledShare = 0.4
/** What is supposed before there are samples. */
const firstShare = 0.12
const laterShare = 0
/** Below this share a single refusal shows that a known limit is touched. */
const noticedShare = 0.02
const firstSamples = 3
/** Calls between two samples, once there are enough of them: they are taken slowly. */
const restCalls = 400
const enoughSamples = 3
/** The calls that are judged together. */
const mostRecent = 200

export function createChanceRefusals(): ChanceRefusals {
  let recent: JudgedCall[] = []
  let limitFound = false
  /** Until a limit is found all calls are samples, later only those after each backing off. */
  let sample: JudgedCall[] | undefined = []
  let rest = 0
  let wasNoticed = false
  let complete: (readonly JudgedCall[])[] = []

  function chanceShare(): number {
    const supposed = Array<number>(firstSamples).fill(limitFound ? laterShare : firstShare)
    const shares = [
      ...supposed.slice(complete.length),
      ...complete.map(refusedShare).filter((share) => share < spoiledShare),
    ].sort((a, b) => a - b)
    return Math.min(mostShare, Math.max(leastShare, shares[Math.floor(shares.length / 2)]!))
  }

  function measure(call: JudgedCall): void {
    rest--
    if (!sample) return
    sample.push(call)
    if (sample.length < sampleCalls) return
    complete = [...complete, sample].slice(-samples)
    sample = limitFound ? undefined : []
    rest = complete.length < enoughSamples ? 0 : restCalls
  }

  /** The most evidence at this call or a later one. */
  function evidenceAt(call: JudgedCall): number {
    const chance = chanceShare()
    const more = Math.log((chance + limitShare) / chance)
    const less = Math.log((1 - chance - limitShare) / (1 - chance))
    const at = recent.indexOf(call)
    let sum = 0
    let most = 0
    recent.forEach((each, index) => {
      sum = Math.max(0, sum + (each.refused ? more : less))
      if (index >= at) most = Math.max(most, sum)
    })
    return most
  }

  return {
    get measures() {
      return limitFound && sample !== undefined
    },
    started() {
      const call = { refused: false }
      recent.push(call)
      if (recent.length > mostRecent) recent.shift()
      measure(call)
      return call
    },
    mayBeChance(call) {
      call.refused = true
      const evidence = evidenceAt(call)
      const everyOne = recent.every(({ refused }) => refused)
      const enough = limitFound && chanceShare() < noticedShare ? singleEvidence : limitEvidence
      if (limitFound && evidence >= singleEvidence && rest <= 0) sample ??= []
      if (evidence < enough && !everyOne) return true
      // What was refused at the limit is no sample.
      if (!limitFound) {
        complete = complete.slice(0, -1)
        sample = []
      }
      limitFound = true
      recent = []
      return false
    },
    doubtsLimit() {
      const noticed = limitFound && chanceShare() >= noticedShare
      const doubts = noticed && !wasNoticed
      wasNoticed = noticed
      return doubts
    },
  }
}

const refusedShare = (calls: readonly JudgedCall[]) =>
  calls.filter(({ refused }) => refused).length / calls.length
