// Detects a model that repeats itself: the same items over and over, or white space without end.

/** This many items in succession, each equal to an earlier one of the run, are a loop. */
const maxRepeats = 20
/** This many characters of white space in succession are a loop too. */
const maxBlank = 4096

export function createRepetitionGuard() {
  let repeated = 0
  let blank = 0
  return {
    /** Call it for every item; true when this one makes it a loop. */
    repeats(isRepeat: boolean): boolean {
      repeated = isRepeat ? repeated + 1 : 0
      return repeated >= maxRepeats
    },
    /** The text up to the place where there is too much white space; undefined when there is not. */
    blank(text: string): string | undefined {
      // The common case: a few characters that do not end in white space.
      if (blank + text.length < maxBlank && !isBlank(text.charCodeAt(text.length - 1))) {
        if (text !== '') blank = 0
        return undefined
      }
      const leading = blanksFrom(text, 0)
      if (blank + leading >= maxBlank) return text.slice(0, maxBlank - blank)
      // A run that is too long covers one of these places, wherever it begins.
      for (let place = maxBlank - 1; place < text.length; place += maxBlank) {
        const first = place + 1 - blanksBefore(text, place + 1)
        if (first <= place && blanksFrom(text, first) >= maxBlank) return text.slice(0, first + maxBlank)
      }
      blank = leading === text.length ? blank + leading : blanksBefore(text, text.length)
      return undefined
    },
  }
}

/** How many white space characters follow from `place` on, at most as many as are too many. */
function blanksFrom(text: string, place: number): number {
  let count = 0
  while (count < maxBlank && isBlank(text.charCodeAt(place + count))) count++
  return count
}

/** The same before `place`. */
function blanksBefore(text: string, place: number): number {
  let count = 0
  while (count < maxBlank && isBlank(text.charCodeAt(place - 1 - count))) count++
  return count
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
}
