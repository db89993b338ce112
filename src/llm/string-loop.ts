// Detects a model that repeats a phrase inside one string without end. Between two quotes, the same period must follow itself for
// 32,768 characters, which is 32 times at least: no refrain, border or sequence of a fact does. Lists of numbers, nulls and
// booleans between strings may. Time is linear, and 2,048 characters are remembered.

const quote = '"'
const backslash = 0x5c
/** The longest period, and how often one is searched for, in characters. */
const maxPeriod = 1024
const remembered = 2 * maxPeriod
const leastLength = 32_768

export interface StringLoop {
  /** How many characters of this piece are read when the loop is certain; undefined while there is none. Any pieces give the same loop. */
  end(text: string): number | undefined
}

/** Watches one text, whose pieces are given to `end` in order. */
export function watchStringLoop(): StringLoop {
  /** The last characters since a quote, and how many there were. */
  let tail = ''
  let count = 0
  /** How far back each of the last `matched` characters has its equal; 0 when that is not known. */
  let period = 0
  let matched = 0
  /** The text ended in an odd number of backslashes. */
  let isEscaped = false

  function restart(): void {
    tail = ''
    count = period = matched = 0
  }

  /** Where in `piece`, which has no quote that ends a string, the loop is certain. */
  function read(piece: string): number | undefined {
    for (let from = 0; from < piece.length; ) {
      const part = piece.slice(from, from + maxPeriod - (count % maxPeriod))
      const known = tail + part
      for (let at = tail.length; period > 0 && at < known.length; at++) {
        if (known.charCodeAt(at) !== known.charCodeAt(at - period)) period = 0
        else if (++matched >= leastLength) return from + at - tail.length + 1
      }
      tail = known.slice(-remembered)
      count += part.length
      from += part.length
      if (period === 0 && count >= remembered && count % maxPeriod === 0) {
        period = periodOf(tail)
        matched = remembered
      }
    }
    return undefined
  }

  return {
    end(text) {
      let from = 0
      for (let at = text.indexOf(quote); at >= 0; at = text.indexOf(quote, at + 1)) {
        const slashes = backslashesBefore(text, at)
        if ((slashes % 2 === 1) !== (slashes === at && isEscaped)) continue
        const end = read(text.slice(from, at))
        if (end !== undefined) return from + end
        restart()
        from = at + 1
      }
      const end = read(text.slice(from))
      const slashes = backslashesBefore(text, text.length)
      isEscaped = (slashes % 2 === 1) !== (slashes === text.length && isEscaped)
      return end === undefined ? undefined : from + end
    },
  }
}

function backslashesBefore(text: string, place: number): number {
  let count = 0
  while (count < place && text.charCodeAt(place - 1 - count) === backslash) count++
  return count
}

/** The smallest period of a text that has it twice, by the borders of its beginnings; 0 when it has none, or is a list. */
function periodOf(text: string): number {
  const borders = new Uint16Array(text.length)
  for (let at = 1, border = 0; at < text.length; at++) {
    while (border > 0 && text.charCodeAt(at) !== text.charCodeAt(border)) border = borders[border - 1]!
    if (text.charCodeAt(at) === text.charCodeAt(border)) border++
    borders[at] = border
  }
  const period = text.length - borders.at(-1)!
  return period > maxPeriod || isList(text.slice(0, period)) ? 0 : period
}

/** Brackets, or elements of a list that are no strings: numbers, nulls and booleans. */
function isList(text: string): boolean {
  return /[,[\]{}]/.test(text) && /^[\s\d.,:+\-E[\]{}nultrefas]*$/.test(text)
}
