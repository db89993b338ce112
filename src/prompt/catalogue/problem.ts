// What is wrong with a prompt file: found while loading, shown all at once.

import { distance } from 'fastest-levenshtein'
import { type ErrorCode, GraphmillError } from '../../errors.ts'

export interface Problem {
  readonly code: ErrorCode
  /** As the user named it; `prompts/<name>` for a built-in prompt. */
  readonly file: string
  /** 1-based, when it is known. */
  readonly line?: number
  /** The key inside the file, such as `examples[1].items`. */
  readonly at?: string
  /** One sentence. */
  readonly message: string
}

/** `file:line: at: message` */
export function formatProblem({ file, line, at, message }: Problem): string {
  return [line === undefined ? file : `${file}:${line}`, ...(at ? [at] : []), message].join(': ')
}

/** One error for all problems: its code and message are those of the first; its details hold `problems`. */
export function problemsError(problems: readonly [Problem, ...Problem[]]): GraphmillError {
  const [first, ...others] = problems
  const more = others.length > 0 ? ` (and ${others.length} more)` : ''
  return new GraphmillError(first.code, formatProblem(first) + more, { details: { problems } })
}

/** Throws the error for all problems, if there are any. */
export function throwProblems([first, ...others]: readonly Problem[]): void {
  if (first !== undefined) throw problemsError([first, ...others])
}

/** `; did you mean "x"?` for the nearest of `names`, when at most a third of the letters differ; else nothing. */
export function suggest(given: string, names: readonly string[]): string {
  const limit = Math.max(2, Math.floor(given.length / 3))
  const steps = (name: string) => distance(given.toLowerCase(), name.toLowerCase())
  const [nearest] = names.filter((name) => steps(name) <= limit).sort((a, b) => steps(a) - steps(b))
  return nearest === undefined ? '' : `; did you mean "${nearest}"?`
}
