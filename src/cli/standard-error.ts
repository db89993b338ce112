// Removes secrets from everything that is written to standard error. Logs do so themselves; see observe/log.ts.
import { isSecret } from '../config/options.ts'
import { keepSecret, redact } from '../redact.ts'

/** Starts the removal. Secrets of the command line are known at once, those of the configuration once it is read. */
export function guardStandardError(args: readonly string[]): void {
  for (const [at, arg] of args.entries()) {
    const [, name = '', value = args[at + 1] ?? ''] = /^--([^=]+)(?:=(.*))?$/s.exec(arg) ?? []
    if (isSecret(name)) keepSecret(value, `--${name}`)
  }
  const { stderr } = process
  const write = stderr.write.bind(stderr) as (chunk: unknown, ...rest: unknown[]) => boolean
  stderr.write = ((chunk: unknown, ...rest: unknown[]) =>
    write(typeof chunk === 'string' ? redact(chunk) : chunk, ...rest)) as typeof stderr.write
}
