// When a model has lost its way: it writes the same items over and over, or white space without end.

/** So many items in succession, each equal to an earlier one of the run, are a loop. */
const mostRepeats = 20
/** So many characters of white space in succession are nothing else either. */
const mostBlank = 4096

export interface RepetitionGuard {
  /** Told of every item; true when this one makes a loop of it. */
  repeats(isRepeat: boolean): boolean
  /** The text up to the place where white space is too much, or undefined where it is not. */
  blank(text: string): string | undefined
}

export function createRepetitionGuard(): RepetitionGuard {
  let repeated = 0
  let blank = 0
  return {
    repeats(isRepeat) {
      repeated = isRepeat ? repeated + 1 : 0
      return repeated >= mostRepeats
    },
    blank(text) {
      // Mostly a few characters that do not end in white space.
      if (blank + text.length < mostBlank && !isBlank(text.charCodeAt(text.length - 1))) {
        if (text !== '') blank = 0
        return undefined
      }
      const leading = blanksFrom(text, 0)
      if (blank + leading >= mostBlank) return text.slice(0, mostBlank - blank)
      // So many in succession stand on one of these places, wherever they begin.
      for (let place = mostBlank - 1; place < text.length; place += mostBlank) {
        const first = place + 1 - blanksBefore(text, place + 1)
        if (first <= place && blanksFrom(text, first) >= mostBlank) return text.slice(0, first + mostBlank)
      }
      blank = leading === text.length ? blank + leading : blanksBefore(text, text.length)
      return undefined
    },
  }
}

/** How many white space characters stand in succession from `place` on, and before it; not more are counted than are too many. */
function blanksFrom(text: string, place: number): number {
  let count = 0
  while (count < mostBlank && isBlank(text.charCodeAt(place + count))) count++
  return count
}

function blanksBefore(text: string, place: number): number {
  let count = 0
  while (count < mostBlank && isBlank(text.charCodeAt(place - 1 - count))) count++
  return count
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
}
