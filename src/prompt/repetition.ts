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
      for (let index = 0; index < text.length; index++) {
        blank = isBlank(text.charCodeAt(index)) ? blank + 1 : 0
        if (blank >= mostBlank) return text.slice(0, index + 1)
      }
      return undefined
    },
  }
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
}
