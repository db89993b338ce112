// Offsets of messages count UTF-16 code units, as JavaScript does. Web Annotation and Python count Unicode code points.

/** The number of code points of a text, or of its part from `from` to `to`. */
export function codePoints(text: string, from = 0, to: number = text.length): number {
  let pairs = 0
  for (let at = from; at < to - 1; at++) if (isPair(text, at)) pairs++
  return to - from - pairs
}

/** The offsets of the second code units of all surrogate pairs of a text, in ascending order. */
export function pairEnds(text: string): number[] {
  const ends: number[] = []
  for (let at = 0; at < text.length - 1; at++) if (isPair(text, at)) ends.push(at + 1)
  return ends
}

/** Whether the code units at `at` and after it are one code point. */
function isPair(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00
}

/** How many code points stand before the offset `at` of a text. `ends` are the `pairEnds` of the text. */
export function pointsBefore(ends: readonly number[], at: number): number {
  return at - countBelow(ends, at)
}

/** How many numbers of an ascending list are less than `limit`. */
export function countBelow(numbers: ArrayLike<number>, limit: number): number {
  let [low, high] = [0, numbers.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (numbers[middle]! < limit) low = middle + 1
    else high = middle
  }
  return low
}
