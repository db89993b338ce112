// Counts the items of a reply that equal an earlier one, whatever the order of their keys.
// In bounded memory: only a reply's first items are looked at, more than a model writes in one.
import { fingerprint } from './value.ts'

/** Some 100,000 tokens. */
const mostItems = 2048

export class Duplicates {
  count = 0
  #items = 0
  readonly #prints = new Set<number>()

  add(value: unknown): void {
    if (this.#items++ >= mostItems) return
    const print = fingerprint(value)
    if (this.#prints.has(print)) this.count++
    else this.#prints.add(print)
  }
}
