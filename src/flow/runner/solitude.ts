// Handlers of a process work side by side, but for one that may kill it: that one works alone, so that a death is its own.
// First come, first served.

export interface Solitude {
  /** Resolves when one may begin: beside others, or `alone`. Returns nothing where that is at once. */
  enter(alone: boolean): Promise<void> | undefined
  /** What was entered is over. */
  leave(): void
}

interface Waiting {
  readonly alone: boolean
  readonly begin: () => void
}

/** One for all runners of a process. */
export function createSolitude(): Solitude {
  const waiting: Waiting[] = []
  let working = 0
  let isAlone = false

  const mayBegin = (alone: boolean) => (alone ? working === 0 : !isAlone)

  function begin(alone: boolean): void {
    working++
    isAlone = alone
  }

  return {
    enter(alone) {
      if (waiting.length === 0 && mayBegin(alone)) {
        begin(alone)
        return undefined
      }
      return new Promise((resolve) => waiting.push({ alone, begin: resolve }))
    },
    leave() {
      working--
      isAlone = false
      for (let [next] = waiting; next && mayBegin(next.alone); [next] = waiting) {
        waiting.shift()
        begin(next.alone)
        next.begin()
      }
    },
  }
}
