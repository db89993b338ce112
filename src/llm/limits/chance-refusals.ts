// Whether a refusal may be chance. Servers refuse single calls at any load; a limit refuses many of the calls that follow. So until
// a limit is found, a few refusals among other calls change nothing. Afterwards every refusal counts.

export interface ChanceRefusals {
  started(): RecentCall
  /** The call was refused: whether that may be chance. Once it is not, it never is again. */
  mayBeChance(call: RecentCall): boolean
}

export interface RecentCall {
  refused: boolean
}

/** The calls that are looked at. */
const mostRecent = 200
/** So many refusals of them may be chance, plus a share of the calls. */
const tolerated = 3
const toleratedShare = 1 / 8

export function createChanceRefusals(): ChanceRefusals {
  const recent: RecentCall[] = []
  let limitFound = false

  return {
    started() {
      const call = { refused: false }
      if (limitFound) return call
      recent.push(call)
      if (recent.length > mostRecent) recent.shift()
      return call
    },
    mayBeChance(call) {
      if (limitFound) return false
      call.refused = true
      const refused = recent.filter((each) => each.refused).length
      limitFound = refused === recent.length || refused > tolerated + toleratedShare * recent.length
      return !limitFound
    },
  }
}
