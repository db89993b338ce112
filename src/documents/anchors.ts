// Anchors: places of a text that are chosen by what stands before them, so that cuts behind an insertion are where they were before it.

/** How many code units before a place decide. */
const neighbourhood = 32

/** The place whose neighbourhood has the lowest hash, of several the last one; undefined when there is no place. */
export function anchorOf(text: string, places: Iterable<number>): number | undefined {
  let anchor: number | undefined
  let lowest = Number.POSITIVE_INFINITY
  for (const place of places) {
    const score = hashBefore(text, place)
    if (score > lowest || (score === lowest && place < anchor!)) continue
    anchor = place
    lowest = score
  }
  return anchor
}

/** FNV-1a over code units, with a final mix: its low bits alone follow the last unit. */
function hashBefore(text: string, place: number): number {
  let hash = 0x811c9dc5
  for (let at = Math.max(0, place - neighbourhood); at < place; at++)
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  return (hash ^ (hash >>> 13)) >>> 0
}
