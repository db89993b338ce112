// The text that is still needed, kept in the pieces in which it arrived, addressed by absolute position. Appending and dropping never copy
// the kept text, so small pieces cost no more than large ones.

const tidyAt = 32

export class TextStore {
  #chunks: string[] = []
  /** The absolute position at which each chunk begins. */
  #starts: number[] = []
  /** The index of the first chunk that is still needed. */
  #first = 0
  /** The position after the last character. */
  end = 0

  append(text: string): void {
    this.#chunks.push(text)
    this.#starts.push(this.end)
    this.end += text.length
  }

  /** Forgets everything; the next text has the position `position`. */
  restart(position: number): void {
    this.end = position
    if (this.#chunks.length === 0) return
    this.#chunks.length = 0
    this.#starts.length = 0
    this.#first = 0
  }

  /** Forgets the chunks that are entirely before `position`. */
  drop(position: number): void {
    const starts = this.#starts
    const count = starts.length
    if (position >= this.end) {
      this.restart(this.end)
      return
    }
    while ((starts[this.#first + 1] ?? this.end) <= position) this.#chunks[this.#first++] = ''
    // Moving the rest costs no more than what was dropped.
    if (this.#first >= tidyAt && this.#first * 2 > count) {
      this.#chunks = this.#chunks.slice(this.#first)
      this.#starts = starts.slice(this.#first)
      this.#first = 0
    }
  }

  /** The index of the chunk that holds `position`, which must be kept and before `end`. */
  indexAt(position: number): number {
    const starts = this.#starts
    let high = starts.length - 1
    if (position >= starts[high]!) return high
    let low = this.#first
    while (low < high - 1) {
      const middle = (low + high) >> 1
      if (starts[middle]! <= position) low = middle
      else high = middle
    }
    return low
  }

  chunk(index: number): string {
    return this.#chunks[index]!
  }

  start(index: number): number {
    return this.#starts[index]!
  }

  /** The code at `position`, or -1 at the end. */
  code(position: number): number {
    if (position >= this.end) return -1
    const index = this.indexAt(position)
    return this.#chunks[index]!.charCodeAt(position - this.#starts[index]!)
  }

  /** The text from `from` up to `to` (or the end, whichever comes first). */
  slice(from: number, to: number): string {
    const until = Math.min(to, this.end)
    if (from >= until) return ''
    let index = this.indexAt(from)
    let offset = from - this.#starts[index]!
    let text = ''
    for (;;) {
      const chunk = this.#chunks[index]!
      const stop = until - this.#starts[index]!
      if (stop <= chunk.length) {
        return text + (offset === 0 && stop === chunk.length ? chunk : chunk.slice(offset, stop))
      }
      text += offset === 0 ? chunk : chunk.slice(offset)
      offset = 0
      index++
    }
  }

  /** The position of the first `character` at or after `from`, or -1. */
  indexOf(character: string, from: number): number {
    if (from >= this.end) return -1
    let index = this.indexAt(from)
    let offset = from - this.#starts[index]!
    for (; index < this.#chunks.length; index++) {
      const found = this.#chunks[index]!.indexOf(character, offset)
      if (found >= 0) return this.#starts[index]! + found
      offset = 0
    }
    return -1
  }
}
