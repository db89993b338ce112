// What one rendering may cost, so that no template can delay other messages.
import { textSteps } from './cost.ts'
import { TemplateFault } from './tree.ts'

/** Nodes evaluated in one rendering, with what they read and make (see cost.ts): about a tenth of a second. */
const maxSteps = 1_000_000
/** Characters written in one rendering, those of captured blocks and joined strings included. */
const maxLength = 16 * 1024 * 1024

export class Budget {
  #steps = 0
  #length = 0

  /** Before the work is done. Throws TemplateFault. */
  charge(steps: number, line: number): void {
    this.#steps += steps
    if (this.#steps > maxSteps) throw new TemplateFault(`the template takes over ${maxSteps} steps`, line)
  }

  /** Text that an expression makes counts like text that is written, so that doubling in a loop is bounded. */
  countText(text: string, line: number): string {
    this.charge(textSteps(text.length), line)
    this.#length += text.length
    if (this.#length > maxLength) throw new TemplateFault(`the text is over ${maxLength} characters`, line)
    return text
  }
}
