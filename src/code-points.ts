// Offsets of messages count UTF-16 code units, as JavaScript does. Web Annotation and Python count Unicode code points.

/** The number of code points of a text. */
export function codePoints(text: string): number {
  return text.length - pairEnds(text).length
}

/** The offsets of the second code units of all surrogate pairs of a text, in ascending order. */
export function pairEnds(text: string): number[] {
  return Array.from(text.matchAll(/[\ud800-\udbff](?=[\udc00-\udfff])/g), ({ index }) => index + 1)
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
