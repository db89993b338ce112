// Errors of commander about the command line, as errors with a code.
import type { CommanderError } from 'commander'
import { GraphmillError } from '../errors.ts'

/** `error: unknown option '--x'\n(Did you mean --y?)` becomes the error `usage` with `Unknown option '--x'. Did you mean --y?`. */
export function usageError(cause: CommanderError): GraphmillError {
  // The value of an unknown option may be a secret that was meant for another option.
  const message = cause.message.replace(/^error: /, '').replace(/^(unknown option '--?[^=']*)=.*'/s, "$1'")
  const [problem = '', suggestion] = message.split(/\n\((.*)\)/s)
  const sentence = `${problem.charAt(0).toUpperCase()}${problem.slice(1)}${/[.?]$/.test(problem) ? '' : '.'}`
  return new GraphmillError('usage', suggestion ? `${sentence} ${suggestion}` : sentence)
}
