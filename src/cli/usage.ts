// What commander finds wrong with a command line, as an error of ours.
import type { CommanderError } from 'commander'
import { GraphmillError } from '../errors.ts'

/** `error: unknown option '--x'\n(Did you mean --y?)` becomes the error `usage` with `Unknown option '--x'. Did you mean --y?`. */
export function usageError(cause: CommanderError): GraphmillError {
  const [problem = '', suggestion] = cause.message.replace(/^error: /, '').split(/\n\((.*)\)/s)
  const sentence = `${problem.charAt(0).toUpperCase()}${problem.slice(1)}${/[.?]$/.test(problem) ? '' : '.'}`
  return new GraphmillError('usage', suggestion ? `${sentence} ${suggestion}` : sentence)
}
