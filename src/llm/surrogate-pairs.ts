// Characters beyond U+FFFF are two code units of a JavaScript string, and a server may put them into two deltas.
// Pairs are joined before anyone looks, so every text that leaves is well-formed.

export interface Pairing {
  /** What is whole of the text so far and has not left yet. */
  join(text: string): string
  /** The rest: U+FFFD for half of a pair, else nothing. */
  end(): string
}

/** `onLone` is told when half of a pair stood alone and became U+FFFD. */
export function createPairing(onLone: () => void): Pairing {
  let held = ''

  function whole(text: string): string {
    if (text.isWellFormed()) return text
    onLone()
    return text.toWellFormed()
  }

  return {
    join(text) {
      const all = held + text
      held = /[\ud800-\udbff]$/.test(all) ? all.slice(-1) : ''
      return whole(held === '' ? all : all.slice(0, -1))
    },
    end() {
      const rest = held
      held = ''
      return whole(rest)
    },
  }
}
