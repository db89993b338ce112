// Handlers of a process run side by side, except one that may kill the process: it runs alone, so that a death is attributed to it.
// First come, first served.

export interface Solitude {
  /** Resolves when a handler may begin, beside others or `alone`. Returns undefined when it may begin at once. */
  enter(alone: boolean): Promise<void> | undefined
  /** The handler has ended. */
  leave(): void
}

interface Turn {
  readonly alone: boolean
  readonly begin: () => void
}

/** One for all runners of a process. */
export function createSolitude(): Solitude {
  const waiting: Turn[] = []
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
