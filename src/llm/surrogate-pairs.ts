// A character beyond U+FFFF is two code units of a JavaScript string, and a server may split it over two deltas. The halves are
// joined, so that every delta is well-formed.

export interface Pairing {
  /** The text so far that was not returned yet, except for a first half at its end. */
  join(text: string): string
  /** The rest: U+FFFD for a single half, else nothing. */
  end(): string
}

/** `onLone` is called when a single half became U+FFFD. */
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
